// Where the runs of a sort lie on the disks until they are merged.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "io/sequence/block_allocation.h"
#include "io/sequence/spread_sequence.h"
#include "vortex/block_pool.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// A run of which no more is known than how long it is at most.
inline constexpr std::uint64_t kAsLongAsMayBe = ~std::uint64_t{0};

struct RunStoreOptions {
  std::vector<std::string> folders;  // one temporary file, one disk queue each
  AllocationStrategy strategy = AllocationStrategy::kRandomCyclic;
  std::vector<double> weights = {};  // one a folder, see BlockAllocation; empty: all equal
  std::uint64_t seed = 0;
  bool sparse = false;  // slots take space as they are written, not before: blocks may be packed
  bool direct = true;   // around the page cache where the file system and the block size allow it
  // Makes the file of folder `index`; empty: BlockFile::temporary().
  std::function<BlockFile(std::size_t index)> open_file = {};
  // Threads that copy, for each folder whose files are in memory or have no direct I/O. Only with
  // disks that open_disk() makes.
  unsigned copiers = 0;
  // Makes the disk of folder `index`; empty: open_disk().
  std::function<std::unique_ptr<Disk>(std::size_t index)> open_disk = {};
};

struct RunStoreDiskStatistics {
  std::string folder;
  bool direct = false;
  std::uint64_t slots = 0;  // the length of the file in blocks
  std::uint64_t slots_in_use = 0;
  std::uint64_t peak_slots_in_use = 0;
  DiskStatistics disk;
};

// The temporary files of a sort, one a folder, without names from the start, so that nothing is
// left behind however the process ends. They are cut into slots of one block. Slots of blocks that
// have been merged are used again. A run goes on in the other folders when one is full.
//
// Writers, runs and merges of the store must be gone before it, and the pool must outlive it. Slots
// may be taken and freed by several threads at once.
class RunStore final : public SlotFiles {
 public:
  // Throws Error: EINVAL without folders or for weights that do not fit them, and whatever opening
  // files or disks says.
  RunStore(BlockPool& pool, RunStoreOptions options);
  ~RunStore();
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  BlockPool& pool() const noexcept { return *pool_; }
  // Another one, with blocks of the same size; no writers and merges are there.
  void use(BlockPool& pool) noexcept { pool_ = &pool; }
  std::size_t block_bytes() const noexcept { return pool_->block_bytes(); }
  // Blocks that hold `bytes`, at least one.
  std::uint64_t blocks_of(std::uint64_t bytes) const noexcept {
    return bytes == 0 ? 1 : (bytes + block_bytes() - 1) / block_bytes();
  }
  Disk& disk(unsigned index) const noexcept { return *parts_[index]->disk; }
  // The file of folder `index` leaves the store, which is asked for its statistics at most from
  // then on.
  BlockFile take_file(unsigned index) noexcept { return std::move(parts_[index]->file); }
  const std::string& folder(unsigned index) const noexcept { return options_.folders[index]; }

  // Where the blocks of the next run go, which will have `most_bytes` at most: to each folder as
  // its weight says, but no more than it has room for, if the run is as long as is expected. A
  // longer one leaves out folders that turn out to be full.
  SpreadSequence next_sequence(std::uint64_t most_bytes, std::uint64_t expected_bytes);

  // `slots` slots will be taken, by one run. Allocates, so that taking them does not.
  void promise_slots(std::uint64_t slots);
  void take_promise_back(std::uint64_t slots) noexcept;

  // How long each disk takes for a block, in small numbers that go with their speeds, here the
  // weights (see optimal_prefetch_order()); empty when all are equal.
  static std::vector<unsigned> block_times_of(const std::vector<double>& speeds);
  std::vector<unsigned> block_times() const { return block_times_of(options_.weights); }

  std::span<Disk* const> disks() const noexcept override { return disks_; }
  unsigned files() const noexcept override { return static_cast<unsigned>(parts_.size()); }
  std::size_t unit_bytes() const noexcept override { return block_bytes(); }
  FileLayout::Place locate(UnitPlace place) const noexcept override;
  // Promised ones only.
  std::uint32_t take_slot(unsigned file) noexcept override;
  void refuse_slot(UnitPlace place) noexcept override { free_slot(place.file, place.slot, false); }
  // May be called inside a fault. With `punch_hole`, the file system gets the space back soon,
  // where it can take it; worth it when nothing will be written to the slot again. That is done for
  // a part of the file at a time, while other threads take and free slots: it waits for all direct
  // transfers of the file.
  static constexpr std::uint32_t kPartFreedAtOnce = 16;
  void free_slot(unsigned disk, std::uint32_t slot, bool punch_hole) noexcept;

  // Whether holes are worth their time: the runs take more than a small part of what is free, so
  // that somebody may miss the space before the store goes, or the page cache would write pages
  // that nobody reads any more. Not inside a fault.
  static constexpr std::uint64_t kSmallPartOfFree = 32;
  bool punching_pays() const;

  // Copies bytes of a slot that has been written, at once and through the page cache. Returns 0 or
  // an errno value, ENODATA where the file ends too early. Blocks; any thread.
  int read(UnitPlace place, std::size_t from, std::byte* to, std::size_t bytes) const noexcept;

  std::uint64_t bytes_in_use() const noexcept;
  std::uint64_t peak_bytes_in_use() const noexcept;
  std::vector<RunStoreDiskStatistics> statistics() const;

 private:
  struct Part {
    std::unique_ptr<Disk> disk;
    BlockFile file;
    dev_t file_system = 0;
    std::uint32_t slots = 0;            // ever taken
    std::uint64_t slots_allocated = 0;  // that the file has space for, as far as that could be had
    // Always with room for all slots.
    std::vector<std::uint32_t> free_slots;
    std::vector<std::uint32_t> to_punch;  // free, too
    std::vector<std::uint32_t> holes;     // of whoever has locked `punching`; free later
    FutexMutex punching;
    std::uint64_t in_use() const noexcept {
      return slots - free_slots.size() - to_punch.size() - holes.size();
    }
    bool wants_rest() const noexcept { return !to_punch.empty() && in_use() == 0; }
    bool wants_holes() const noexcept {
      return to_punch.size() > slots / kPartFreedAtOnce || wants_rest();
    }
    std::uint64_t peak_in_use = 0;
  };

  std::vector<double> weights_with_room(std::uint64_t bytes) const;
  std::uint64_t room(const Part& part) const;
  void make_room_for_slots(Part& part);
  void allocate_more(Part& part) noexcept;
  void trim(Part& part) noexcept;
  void punch_holes(Part& part) noexcept;
  void punch(BlockFile& file, std::vector<std::uint32_t>& slots) const noexcept;

  BlockPool* pool_;
  RunStoreOptions options_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Disk*> disks_;
  std::uint64_t promised_ = 0;  // slots
  std::uint64_t runs_ = 0;      // numbered so far
  mutable FutexMutex mutex_;    // slots
  std::uint64_t in_use_ = 0;
  std::uint64_t peak_in_use_ = 0;
};

}}  // namespace vortex::v0

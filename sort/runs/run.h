// A sorted run on the disks, and its bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/file/block_checksum.h"
#include "io/sequence/spread_sequence.h"
#include "sort/runs/block_packer.h"
#include "sort/runs/run_packing.h"
#include "sort/runs/run_store.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// The parts of a run each of which comes before those that were written before it, and their
// blocks, which are numbered in the order in which they are written.
class FallingParts {
 public:
  void add(std::uint64_t blocks) { ends_.push_back(blocks + this->blocks()); }
  std::uint64_t blocks() const noexcept { return ends_.empty() ? 0 : ends_.back(); }

  // Where a block lies in the run, whose last `all` blocks these are.
  std::uint64_t place(std::uint64_t block, std::uint64_t all) const noexcept {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), block);
    const std::uint64_t begin = end == ends_.begin() ? 0 : *(end - 1);
    return all - *end + (block - begin);
  }
  // Puts what there is of each block, and of each as much, into the order of the run.
  template <typename T>
  void arrange(std::vector<T>& of_blocks) const {
    const std::size_t each = of_blocks.size() / blocks();
    std::vector<T> arranged;
    arranged.reserve(of_blocks.size());
    for (std::size_t part = ends_.size(); part-- > 0;) {
      const auto at = [&](std::uint64_t block) {
        return of_blocks.begin() + static_cast<std::ptrdiff_t>(block * each);
      };
      arranged.insert(arranged.end(), at(part == 0 ? 0 : ends_[part - 1]), at(ends_[part]));
    }
    of_blocks = std::move(arranged);
  }

 private:
  std::vector<std::uint64_t> ends_;  // of each part
};

// The blocks of a run as the disks have them: how many bytes each has there, fewer where it is
// packed, and their checksum.
class StoredBlocks {
 public:
  // The memory for a block.
  static constexpr std::size_t kBytesOfBlock = 2 * sizeof(std::uint32_t);

  // Allocates for `blocks`, and nothing later.
  void reserve(std::uint64_t blocks) { blocks_.reserve(blocks); }

  // No more are added.
  void end() { blocks_.shrink_to_fit(); }

  // Blocks are added in their order: what is written of `bytes`, `stored` bytes from `begin` on.
  void add(const std::byte* begin, std::size_t stored, std::size_t bytes) noexcept {
    const bool packed = stored < bytes;
    blocks_.push_back({static_cast<std::uint32_t>(stored) | (packed ? kPacked : 0),
                       block_checksum(begin, stored)});
    saved_ += bytes - stored;
  }
  std::size_t bytes(std::uint64_t block) const noexcept { return blocks_[block].size & ~kPacked; }
  bool packed(std::uint64_t block) const noexcept { return (blocks_[block].size & kPacked) != 0; }
  // Whether these are the bytes of the block that were written.
  bool intact(std::uint64_t block, const std::byte* begin, std::size_t bytes) const noexcept {
    return bytes == this->bytes(block) && block_checksum(begin, bytes) == blocks_[block].checksum;
  }
  std::uint64_t saved_bytes() const noexcept { return saved_; }
  // Those of `more` come behind its own.
  void append(const StoredBlocks& more) {
    saved_ += more.saved_;
    blocks_.insert(blocks_.end(), more.blocks_.begin(), more.blocks_.end());
  }
  // Puts them into another order.
  void arrange(const FallingParts& parts) {
    if (!blocks_.empty()) parts.arrange(blocks_);
  }

 private:
  struct Stored {
    std::uint32_t size;  // with kPacked
    std::uint32_t checksum;
  };
  static_assert(sizeof(Stored) == kBytesOfBlock);
  static constexpr std::uint32_t kPacked = std::uint32_t{1} << 31;

  std::vector<Stored> blocks_;
  std::uint64_t saved_ = 0;
};

struct RunFields {
  RunStore* store;  // null: it was moved
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  // with what is skipped
  std::size_t skipped = 0;  // of the first block, in front of the records
  SpreadSequence places;    // of each block
  std::uint64_t promised;   // slots that may still be taken for it
  StoredBlocks stored = {};
  std::vector<std::byte> forecast_keys = {};  // one a block, see ForecastKeys
};

// Where the blocks of a run are, and what foretells when a merge needs them. Its slots are given
// back when they are merged, or with the run. Movable.
struct Run : RunFields {
  // An empty run; the lengths as for RunStore::next_sequence().
  explicit Run(RunStore& run_store, std::uint64_t most_bytes = 0,
               std::uint64_t expected_bytes = kAsLongAsMayBe);
  ~Run() { free_all(); }
  Run(Run&& other) noexcept : RunFields(std::move(other)) { other.store = nullptr; }
  Run& operator=(Run&& other) noexcept {
    free_all();
    RunFields::operator=(std::move(other));
    other.store = nullptr;
    return *this;
  }

  std::uint64_t blocks() const noexcept { return places.units(); }
  // The number of bytes in block `index`; all blocks but the last are whole.
  std::size_t bytes_of_block(std::uint64_t index) const noexcept;
  // On the disks.
  std::uint64_t stored_bytes() const noexcept { return bytes - stored.saved_bytes(); }
  // Its bytes, as they are, are the first of a file.
  bool begins_file() const noexcept;

  // Whether its first record goes on in the second block.
  bool begins_in_two(std::size_t record_bytes) const noexcept {
    return skipped + record_bytes > store->block_bytes();
  }

  // No more blocks come.
  void end() noexcept;
  // Gives its first `count` blocks their places, one behind the other in a file. False: there is no
  // room, or more than one file; nothing has changed.
  bool place_beforehand(std::uint64_t count) noexcept;
  // Puts the blocks, which were written in parts, into the order of the run. Those that have their
  // places already are in it; what is in front of the parts is given back.
  void arrange(const FallingParts& parts, bool placed_beforehand);
  // The blocks of other runs of the store come behind its own, those of each behind those of the
  // one in front of it. All have ended, and all but the last have whole blocks. Their forecasts
  // stay behind.
  void append(std::span<Run> others);
  // Gives the slot of a block back; inside a fault too.
  void free_block(std::uint64_t index, bool punch_hole) noexcept;
  void free_all() noexcept;
};

// Copies bytes of a run that has been written, at once and through the page cache. The run outlives
// it. Takes a chunk of memory, and a packer, from the first packed block on; a block from the first
// read_checked() on.
class RunBytes {
 public:
  explicit RunBytes(const Run& run) noexcept : run_(run) {}

  // From byte `offset` on. Returns 0 or an errno value; blocks.
  int read(std::uint64_t offset, std::span<std::byte> to);
  // The same from whole blocks whose checksums are right; else EBADMSG.
  int read_checked(std::uint64_t offset, std::span<std::byte> to);
  // The last record that ends in block `index`, if one does: the one whose key forecasts.
  int read_last_record(std::uint64_t index, std::span<std::byte> to);
  // What the last read returned, in words: of its last block.
  Error failed(int error) const;

 private:
  int read_packed(std::size_t within, std::span<std::byte>& to);
  int load_block();
  int read_slot(std::size_t from, std::span<std::byte> to) const noexcept {
    return run_.store->read(run_.places.place(block_), from, to.data(), to.size());
  }

  const Run& run_;
  std::uint64_t block_ = 0;
  std::optional<BlockPacker> packer_;
  std::vector<std::byte> chunk_;
  std::vector<std::byte> whole_;
  std::optional<std::uint64_t> loaded_;  // the block in `whole_`
};

// The layout of a run, which outlives it, and so does the packing.
class RunLayout : public SpreadLayout {
 public:
  // To write it, packed where that is given and wants it. With `parts`, which outlive it, its
  // blocks have places already, as the last blocks of the run.
  explicit RunLayout(Run& run, RunPacking* packing = nullptr, const FallingParts* parts = nullptr);
  // To read `bytes` of it from the beginning of a block on. `unpacker` is null where
  // no block is packed, and outlives it.
  RunLayout(Run& run, std::uint64_t first_block, std::uint64_t bytes, BlockPacker* unpacker);

  Place locate(std::uint64_t unit, std::size_t bytes) noexcept override;
  Place assign(std::uint64_t unit, std::size_t bytes) noexcept override;
  Place move_elsewhere(std::uint64_t unit, std::size_t bytes, int error) noexcept override;
  std::size_t pack(std::uint64_t unit, std::byte* begin, std::size_t bytes) noexcept override;
  std::size_t packed_bytes(std::uint64_t unit, std::size_t bytes) const noexcept override;
  std::size_t unpack(std::uint64_t unit, std::byte* begin, std::size_t packed) noexcept override;
  void describe(const Place& place, CauseText& text) const noexcept override;
  const char* way_out(int error) const noexcept override;
  void finish(std::uint64_t length, bool sync) override;

 private:
  Run& run_;
  const std::uint64_t first_block_ = 0;
  const std::uint64_t blocks_read_ = 0;
  RunPacking* packing_ = nullptr;
  const FallingParts* parts_ = nullptr;
  BlockPacker* unpacker_ = nullptr;
};

}}  // namespace vortex::v0

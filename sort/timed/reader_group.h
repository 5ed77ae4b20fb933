// The blocks of many readers in one memory, read ahead as a plan says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/sequence/block_transfers.h"
#include "io/sequence/file_layout.h"
#include "sort/timed/pace.h"
#include "sort/timed/promises.h"
#include "sort/timed/reading_plan.h"
#include "vortex/block_pool.h"
#include "vortex/files/timed_readers.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// The driver of a plan's policy, as MergePrefetcher is that of a merge's: has read what it decides,
// and tells it what happens. What is in memory or under way when a new plan is made is told to its
// policy the moment that it asks for it; until then it may give its buffer to what is asked for
// first. The names of readers are numbers, which are used again.
//
// A unit is what one request reads: the block of the policy, which is several blocks of memory.
// When readers have given back as many of these, whosesoever they were, the policy hears that one
// of the units that were taken is released.
class ReaderGroup {
 public:
  explicit ReaderGroup(const TimedReadersOptions& options);
  ~ReaderGroup();
  ReaderGroup(const ReaderGroup&) = delete;
  ReaderGroup& operator=(const ReaderGroup&) = delete;

  std::uint32_t add(std::unique_ptr<FileLayout> layout, const TimedReaderOptions& options);
  void remove(std::uint32_t reader) noexcept;

  std::span<const std::byte> next(std::uint32_t reader);
  bool ready(std::uint32_t reader);
  std::uint64_t offset(std::uint32_t reader) const noexcept;
  void set_rate(std::uint32_t reader, double bytes_per_s);
  double rate(std::uint32_t reader) const noexcept;
  TimedReaderStatistics statistics(std::uint32_t reader) const noexcept;

  void fill();
  TimedReadersStatistics statistics() const;
  Disk* first_disk() const noexcept { return disks_.front(); }
  bool opens_direct() const noexcept { return caching_ != Caching::kBuffered; }

 private:
  static constexpr std::uint32_t kNone = ReadingPlan::kNoBuffer;
  using Lock = std::unique_lock<FutexMutex>;

  struct Reader {
    std::unique_ptr<FileLayout> layout;
    Pace pace;
    std::uint64_t begin;  // of the part, in bytes
    std::uint64_t end;
    std::uint64_t end_unit;
    DiskShares shares;           // of its rate, for each disk
    DiskShares promised;         // bytes a second
    std::uint64_t next;          // unit that it takes next
    std::uint32_t held = kNone;  // the buffer of the one before
    std::uint64_t failed_unit = ~std::uint64_t{0};
    int error = 0;
    std::string cause = {};
    TimedReaderStatistics statistics = {};
  };
  enum class State : std::uint8_t { kFree, kReading, kReady, kHeld };
  // A unit from its fetch until it is dropped, or its last block given back.
  struct Buffer {
    PlacedRequest read;
    Pieces pieces;
    std::array<Block, kMaxPieces> blocks;
    std::size_t begin = 0;  // of the blocks that are there
    std::size_t end = 0;
    State state = State::kFree;
    std::uint32_t reader = kNone;
    std::uint64_t unit = 0;
  };

  double now() const { return static_cast<double>(now_ns_()); }
  std::uint32_t disk_number(const Disk* disk) const;
  DiskShares shares_of(FileLayout& layout, std::uint64_t first, std::uint64_t end) const;
  static DiskShares times(const DiskShares& shares, double bytes_per_s);

  // All of these with mutex_ held.
  std::uint64_t offset_of(const Reader& reader, std::uint64_t unit,
                          std::size_t block = 0) const noexcept;
  std::size_t blocks_of_unit() const noexcept { return unit_bytes_ / block_bytes_; }
  std::size_t free_blocks() const noexcept { return pool_.block_count() - quota_.held(); }
  double guessed_rate() const noexcept;
  void make_plan();
  void adopt_buffers() noexcept;
  void carry_out();
  void fetch(const PrefetchAction& action);
  void drop(const PrefetchAction& action) noexcept;
  void read_owed() noexcept;
  bool make_room() noexcept;
  bool read(std::uint32_t buffer, const NeededBlock& needed) noexcept;
  void settle_ended();
  void settle(std::uint32_t buffer);
  void free(std::uint32_t buffer) noexcept;
  void give_back(Reader& reader) noexcept;
  bool drop_held() noexcept;
  void forget(std::uint32_t reader) noexcept;
  // The buffer of the unit that the reader takes next; kNone: it is not there yet.
  std::uint32_t there(std::uint32_t reader) noexcept;
  bool look(std::uint32_t reader);
  [[noreturn]] void lacks_memory(const Reader& reader) const;
  void take(std::uint32_t reader, std::uint32_t buffer, double asked) noexcept;
  void await(Lock& lock, std::uint32_t buffer);

  const std::size_t block_bytes_;
  const std::size_t unit_bytes_;
  const PrefetchKind kind_;
  const Caching caching_;
  const std::function<std::uint64_t()> now_ns_;
  std::vector<Disk*> disks_;
  std::vector<unsigned> block_times_;

  BlockPool pool_;
  BlockQuota quota_;
  BlockTransfers reads_;

  mutable FutexMutex mutex_;
  Promises promises_;
  std::vector<std::unique_ptr<Reader>> readers_;
  std::size_t open_ = 0;  // of these
  std::deque<Buffer> buffers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> under_way_;
  std::optional<ReadingPlan> plan_;
  bool stale_ = false;      // a new plan is to be made
  double foretold_ns_ = 0;  // the plan knows what is needed until then
  std::size_t taken_ = 0;   // units since the plan was made
  std::size_t most_taken_ = 0;
  std::vector<NeededBlock> owed_;     // granted, and without a buffer
  int refused_ = 0;                   // why the system gives no memory for the first of them
  std::vector<Position> unreleased_;  // taken, as the policy knows
  std::size_t given_back_ = 0;        // blocks, of which it does not know yet
  TimedReadersStatistics statistics_;
};

}}  // namespace vortex::v0

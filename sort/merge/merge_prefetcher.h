// Reads the blocks of runs ahead of their merge, as a policy says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "io/sequence/block_transfers.h"
#include "io/sequence/file_layout.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/runs/run.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

struct MergePrefetcherStatistics {
  PrefetchPolicy::Statistics policy;
  std::uint64_t unforeseen = 0;  // blocks that were needed earlier than the policy knew
  TransferStatistics reads;
};

// What a merge reads of a run, which outlives it: from the beginning of one of its blocks on.
struct RunSlice {
  // The records that lie in [begin, end) of the run, in bytes. What lies in a block that it begins
  // or ends within may be another slice's, too: that block is not given back.
  static RunSlice between(Run& run, std::uint64_t begin, std::uint64_t end) noexcept {
    const std::size_t block_bytes = run.store->block_bytes();
    const std::uint64_t first = begin / block_bytes;
    const bool empty = begin == end;
    const std::uint64_t freed_begin =
        begin <= run.skipped ? first : detail::units_for(begin, block_bytes);
    const std::uint64_t freed_end = end == run.bytes ? run.blocks() : end / block_bytes;
    return {.run = &run,
            .first_block = first,
            .skipped = static_cast<std::size_t>(begin - first * block_bytes),
            .bytes = empty ? 0 : end - first * block_bytes,
            .freed_begin = freed_begin,
            .freed_end = empty ? freed_begin : freed_end};
  }

  std::uint64_t blocks() const noexcept { return bytes == 0 ? 0 : run->store->blocks_of(bytes); }
  // Whether its first record goes on in the second block.
  bool begins_in_two(std::size_t record_bytes) const noexcept {
    return skipped + record_bytes > run->store->block_bytes();
  }

  Run* run;
  std::uint64_t first_block = 0;  // of the run
  std::size_t skipped = 0;        // of that block, in front of the records
  std::uint64_t bytes;            // with what is skipped
  // The blocks of the run whose slots are given back once they are in memory; nobody else reads
  // these.
  std::uint64_t freed_begin = 0;
  std::uint64_t freed_end;
};

// The driver of a PrefetchPolicy over the disks of a RunStore: tells the policy what happens and
// has read what it decides, by the BlockTransfers of every other reader. It is one object for all
// runs of a merge; RunSource gives a stream its run's part of it.
//
// Reads have no callbacks: what has ended is found by the merging thread, when it takes a block or
// gives one back. The slots of a block are freed when the merge takes it. After the first error
// nothing more is read, and everybody gets that error.
//
// The order of need may be a guess. Where the merge waits for a block that the policy has not
// fetched, and nothing is being read, that block is read at once; if no buffer is free, it gets the
// one of the block that is needed last, as far as is known, which is read once more. So the merge
// never waits for ever, and takes no other buffers.
//
// take() and release() are called inside faults, by one thread at a time.
//
// Where somebody else wants memory, blocks that were read ahead are flushed, the one that is needed
// last first (Barve and Vitter, section 2.2), whatever the policy: it is not told, and what it
// believes to be in memory is read once more in the order of need.
class MergePrefetcher {
 public:
  // The policy names the runs by their place in `slices`. Draws policy->buffers() blocks from the
  // pool, for good; throws Error(ENOMEM) when there are fewer.
  MergePrefetcher(RunStore& store, std::vector<RunSlice> slices,
                  std::unique_ptr<PrefetchPolicy> policy, bool punch_holes);
  // Waits for the reads under way. The sources must be gone.
  ~MergePrefetcher();
  MergePrefetcher(const MergePrefetcher&) = delete;
  MergePrefetcher& operator=(const MergePrefetcher&) = delete;

  // Begins to read; until then nothing is.
  void start() noexcept;
  // Nothing more is read.
  void stop() noexcept;

  Source::Taken take(std::uint32_t run, std::uint64_t index,
                     const std::atomic<bool>& stopped) noexcept;
  void release(std::uint32_t run, std::uint64_t index, Block block) noexcept;
  // Makes a take() that waits look at its `stopped`. Any thread.
  void interrupt() noexcept;

  // No more than `keep` blocks are in use from now on, which are as many as the merge may hold and
  // one more at least. The others leave the pool. Any thread; never waits. Returns whether more of
  // them leave when reads that are under way have ended: it is to be called again.
  bool keep_only(std::size_t keep) noexcept;

  RunStore& store() const noexcept { return store_; }
  const RunSlice& slice(std::uint32_t run) const noexcept { return slices_[run]; }
  MergePrefetcherStatistics statistics() const noexcept;

  // Memory for each buffer, besides its block.
  static std::size_t bytes_per_buffer() noexcept {
    return sizeof(Buffer) + sizeof(Owed) + 2 * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kNoBuffer = ~std::uint32_t{0};

  enum class State : std::uint8_t { kReading, kThere, kTaken };
  // What the merge has done with a block.
  enum class Use : std::uint8_t { kNone, kTaken, kReleased };

  // A block of memory for one block of a run, from the fetch until it is dropped or released.
  struct Buffer {
    PlacedRequest read;
    Block block;
    Position position = kNoPosition;  // none: the policy has not fetched it
    NeededBlock needed;
    std::uint64_t number = 0;     // of the read, in the order of submission
    std::uint32_t under_way = 0;  // its place in under_way_, while it is read
    State state = State::kReading;
    bool told = false;  // the policy knows that it is there
  };
  // A block that the policy believes to have a buffer.
  struct Owed {
    NeededBlock needed;
    Position position = kNoPosition;
    bool told = false;
  };

  // All of these with mutex_ held.
  std::uint32_t number_of(const NeededBlock& block) const noexcept {
    return first_block_[block.run] + static_cast<std::uint32_t>(block.index);
  }
  std::size_t bytes_of(const NeededBlock& block) const noexcept;
  void carry_out() noexcept;
  void fetch(const PrefetchAction& action) noexcept;
  void drop(const PrefetchAction& action) noexcept;
  bool read(const Owed& owed) noexcept;
  bool read_at_once(const NeededBlock& block) noexcept;
  void read_owed() noexcept;
  bool make_room() noexcept;
  std::size_t buffers_left() const noexcept { return buffers_.size() - retired_; }
  void retire_free() noexcept;
  void send() noexcept;
  void free(std::uint32_t buffer) noexcept;
  void settle_ended() noexcept;
  void settle(std::uint32_t buffer) noexcept;
  void tell_use(Position position, std::uint32_t number) noexcept;
  Source::Taken hand_out(std::uint32_t buffer) noexcept;
  std::optional<std::uint32_t> oldest_under_way() const noexcept;

  RunStore& store_;
  const std::vector<RunSlice> slices_;
  std::optional<BlockPacker> unpacker_;  // where some blocks are packed
  std::deque<RunLayout> layouts_;        // of each slice
  bool punch_holes_;

  BlockTransfers reads_;

  mutable FutexMutex mutex_;
  std::unique_ptr<PrefetchPolicy> policy_;
  BlockQuota quota_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_buffers_;
  std::vector<std::uint32_t> under_way_;
  std::vector<Owed> owed_;
  // The blocks of all runs are numbered through.
  std::vector<std::uint32_t> first_block_;      // of each run
  std::vector<std::uint32_t> buffer_of_block_;  // of each block
  std::vector<Use> use_of_block_;               // of each block
  std::size_t most_buffers_;                    // from now on
  std::size_t retired_ = 0;                     // of the buffers, not used any more
  std::uint32_t awaited_ = kNoBuffer;           // whose read the merge waits for
  std::uint64_t fetches_ = 0;
  std::uint64_t unforeseen_ = 0;
  bool started_ = false;
  bool stopped_ = false;
  Status first_error_;
};

// The blocks of one run, for the input stream that shows it as an array.
class RunSource final : public Source {
 public:
  RunSource(MergePrefetcher& prefetcher, std::uint32_t run, std::size_t blocks_for_stream) noexcept
      : prefetcher_(prefetcher), run_(run), blocks_for_stream_(blocks_for_stream) {}

  BlockPool& pool() noexcept override { return prefetcher_.store().pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_for_stream_; }
  Taken take(std::uint64_t index, std::uint64_t) noexcept override {
    return prefetcher_.take(run_, index, stopped_);
  }
  void release(std::uint64_t index, Block block) noexcept override {
    prefetcher_.release(run_, index, block);
  }
  std::optional<std::uint64_t> length() const noexcept override {
    return prefetcher_.slice(run_).bytes;
  }
  void cancel() noexcept override {
    stopped_.store(true, std::memory_order_release);
    prefetcher_.interrupt();
  }

 private:
  MergePrefetcher& prefetcher_;
  std::uint32_t run_;
  std::size_t blocks_for_stream_;
  std::atomic<bool> stopped_{false};
};

// The merges that run, for other threads that want their memory. It outlives them. Thread-safe.
class RunningMerges {
 public:
  // A merge from its beginning to its end. The prefetcher outlives it.
  class Scope {
   public:
    // `least` buffers are what the merge needs; `merges` may be null. Throws std::bad_alloc.
    Scope(RunningMerges* merges, MergePrefetcher& prefetcher, std::size_t least)
        : merges_(merges), prefetcher_(prefetcher) {
      if (merges_ == nullptr) return;
      const std::lock_guard lock(merges_->mutex_);
      merges_->all_.push_back({&prefetcher, least});
    }
    ~Scope() {
      if (merges_ == nullptr) return;
      const std::lock_guard lock(merges_->mutex_);
      std::erase_if(merges_->all_,
                    [this](const Merge& merge) { return merge.prefetcher == &prefetcher_; });
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunningMerges* const merges_;
    const MergePrefetcher& prefetcher_;
  };

  // The merges keep no more than they need. Returns whether more leaves the pool soon: always,
  // where none runs. Never waits for a merge.
  bool give_back() noexcept {
    const std::lock_guard lock(mutex_);
    bool more = all_.empty();
    for (const Merge& merge : all_) more = merge.prefetcher->keep_only(merge.least) || more;
    return more;
  }

 private:
  struct Merge {
    MergePrefetcher* prefetcher;
    std::size_t least;
  };

  FutexMutex mutex_;
  std::vector<Merge> all_;
};

// Buffers with which a merge that holds `held_blocks` still reads ahead a little: two of each
// disk.
inline std::size_t lean_buffers(std::size_t held_blocks, unsigned disks) noexcept {
  return held_blocks + 2 * std::size_t{disks};
}

}}  // namespace vortex::v0

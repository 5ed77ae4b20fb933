// Reads the blocks of runs ahead of their merge, as a policy says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/file/block_reads.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/runs/run_store.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/os/futex.h"

namespace vortex::inline v0 {

struct MergePrefetcherStatistics {
  PrefetchPolicy::Statistics policy;
  FileSourceStatistics reads;
};

// The driver of a PrefetchPolicy over the disks of a RunStore: tells the policy what happens and
// has read what it decides, by the BlockReads of every other reader. It is one object for all runs
// of a merge; RunSource gives a stream its run's part of it.
//
// Reads have no callbacks: what has ended is found by the merging thread, when it takes a block or
// gives one back. The slots of a block are freed when the merge takes it. After the first error
// nothing more is read, and everybody gets that error.
//
// take() and release() are called inside faults, by one thread at a time.
class MergePrefetcher {
 public:
  // The policy names the runs by their place in `runs`, which must outlive the prefetcher. Draws
  // policy->buffers() blocks from the pool, for good; throws Error(ENOMEM) when there are not so
  // many.
  MergePrefetcher(RunStore& store, std::span<Run> runs, std::unique_ptr<PrefetchPolicy> policy,
                  bool punch_holes);
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

  RunStore& store() const noexcept { return store_; }
  const Run& run(std::uint32_t index) const noexcept { return runs_[index]; }
  MergePrefetcherStatistics statistics() const noexcept;

  // Memory for each buffer, besides its block.
  static std::size_t bytes_per_buffer() noexcept {
    return sizeof(Buffer) + 2 * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kNoBuffer = ~std::uint32_t{0};

  // A block of memory for one block of a run, from the fetch until it is dropped or released.
  struct Buffer {
    PlacedRequest read;
    Block block;
    Position position = kNoPosition;
    NeededBlock needed;
    std::uint64_t number = 0;     // of the read, in the order of submission
    std::uint32_t under_way = 0;  // its place in under_way_, while it is read
  };

  // All of these with mutex_ held.
  std::uint32_t& buffer_of(std::uint32_t run, std::uint64_t index) noexcept {
    return buffer_of_block_[first_block_[run] + index];
  }
  void carry_out() noexcept;
  bool fetch(const PrefetchAction& action) noexcept;
  void free(std::uint32_t buffer) noexcept;
  void settle_ended() noexcept;
  void settle(std::uint32_t buffer) noexcept;
  std::optional<std::uint32_t> oldest_under_way() const noexcept;

  RunStore& store_;
  std::span<Run> runs_;
  bool punch_holes_;

  std::vector<RunLayout> layouts_;
  BlockReads reads_;

  mutable FutexMutex mutex_;
  std::unique_ptr<PrefetchPolicy> policy_;
  BlockQuota quota_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_buffers_;
  std::vector<std::uint32_t> under_way_;
  std::vector<std::uint64_t> first_block_;      // of each run in buffer_of_block_
  std::vector<std::uint32_t> buffer_of_block_;  // of every block of every run
  std::uint64_t fetches_ = 0;
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
    return prefetcher_.run(run_).bytes;
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

}  // namespace vortex::inline v0

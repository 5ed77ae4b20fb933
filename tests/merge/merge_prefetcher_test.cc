// Blocks of runs read ahead of a merge that needs them in the order that was foretold, or in
// another.
#include "sort/merge/merge_prefetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "io/stream/file_sink.h"
#include "sort/merge/order_of_need.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/runs/run_store.h"
#include "study/fault_plan.h"
#include "study/faulty_disk.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/policy_name.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"

namespace vortex::test::merge_prefetcher_test { namespace {

constexpr std::size_t kBlock = kMinBlockBytes;

std::byte byte_of(std::size_t run, std::uint64_t block) {
  return static_cast<std::byte>(run * 37 + block * 5 + 1);
}

class MergePrefetching : public ::testing::TestWithParam<PrefetchKind> {
 protected:
  void write_runs(unsigned disks, std::size_t runs, std::mt19937_64& random) {
    pool.emplace(BlockPoolOptions{.pool_bytes = 600 * kBlock, .block_bytes = kBlock});
    RunStoreOptions options;
    options.folders.assign(disks, folder.path().string());
    options.seed = random();
    // Disks of different speeds.
    RandomFaults::Rates slow;
    slow.late = 0.3;
    const auto plan = std::make_shared<RandomFaults>(random(), slow);
    options.open_disk = [plan](std::size_t index) -> std::unique_ptr<Disk> {
      DiskOptions inner;
      inner.backend = DiskBackend::kThreads;
      if (index % 2 == 0) return open_disk(inner);
      return std::make_unique<FaultyDisk>(open_disk(inner), plan);
    };
    store.emplace(*pool, std::move(options));
    for (std::size_t i = 0; i < runs; ++i) {
      const std::uint64_t bytes = 1 + random() % (12 * kBlock);
      vortex::Run& run = this->runs.emplace_back(*store, bytes);
      FileSink sink(*pool, std::make_unique<RunLayout>(run), FileSinkOptions{});
      for (std::uint64_t block = 0; block * kBlock < bytes; ++block) {
        const Block taken = sink.take(block).block;
        std::memset(pool->home(taken), static_cast<int>(byte_of(i, block)), kBlock);
        ASSERT_TRUE(
            sink.complete(block, taken, std::min<std::uint64_t>(kBlock, bytes - block * kBlock))
                .ok());
      }
      ASSERT_TRUE(sink.finish(bytes).ok());
    }
  }
  // The blocks of a run in their order, those of different runs in any; with `first_blocks`, behind
  // the first one of each.
  std::vector<NeededBlock> any_order(std::mt19937_64& random) const {
    std::vector<NeededBlock> order;
    std::vector<std::uint64_t> next(runs.size(), 1);
    std::vector<std::uint32_t> left;
    for (std::uint32_t run = 0; run < runs.size(); ++run) {
      order.push_back({run, runs[run].places.place(0).file, 0});
      left.insert(left.end(), runs[run].blocks() - 1, run);
    }
    std::shuffle(left.begin(), left.end(), random);
    for (const std::uint32_t run : left) {
      const std::uint64_t index = next[run]++;
      order.push_back({run, runs[run].places.place(index).file, index});
    }
    return order;
  }
  // Some blocks are needed a little earlier or later.
  static void disturb(std::vector<NeededBlock>& order, std::mt19937_64& random) {
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      if (order[i].run != order[i + 1].run && random() % 3 == 0) std::swap(order[i], order[i + 1]);
    }
  }
  // Merges, holding `window` blocks of each run, with a few more buffers than the least number.
  void merge(const std::vector<NeededBlock>& foretold, const std::vector<NeededBlock>& needed,
             std::size_t window, std::size_t more_buffers, MergePrefetcherStatistics& statistics) {
    const auto count = static_cast<std::uint32_t>(runs.size());
    PrefetchOptions options{.disks = store->files(), .buffers = 0, .held_blocks = count * window};
    options.buffers = minimum_read_buffers(GetParam(), options, count) + more_buffers;
    std::vector<RunSlice> slices;
    for (vortex::Run& run : runs) slices.push_back(RunSlice::between(run, run.skipped, run.bytes));
    MergePrefetcher prefetcher(
        *store, std::move(slices),
        make_prefetch_policy(GetParam(), std::make_unique<KnownOrder>(foretold), options, count),
        false);
    std::vector<std::vector<Block>> held(count);
    std::vector<std::uint64_t> released(count, 0);
    const std::atomic<bool> stopped{false};
    prefetcher.start();
    for (const NeededBlock& block : needed) {
      const std::uint32_t run = block.run;
      if (held[run].size() - released[run] == window) {
        const std::uint64_t oldest = released[run]++;
        prefetcher.release(run, oldest, held[run][oldest]);
      }
      const Source::Taken taken = prefetcher.take(run, block.index, stopped);
      ASSERT_TRUE(taken.status.ok()) << taken.status.cause;
      ASSERT_EQ(taken.bytes, runs[run].bytes_of_block(block.index));
      const std::byte* const begin = pool->home(taken.block);
      ASSERT_EQ(std::count(begin, begin + taken.bytes, byte_of(run, block.index)),
                static_cast<std::ptrdiff_t>(taken.bytes));
      held[run].push_back(taken.block);
    }
    statistics = prefetcher.statistics();
    for (std::uint32_t run = 0; run < count; ++run) {
      while (released[run] < held[run].size()) {
        const std::uint64_t oldest = released[run]++;
        prefetcher.release(run, oldest, held[run][oldest]);
      }
    }
  }

  TemporaryFolder folder{fast_folder()};
  std::optional<BlockPool> pool;
  std::optional<RunStore> store;
  std::vector<vortex::Run> runs;
};

INSTANTIATE_TEST_SUITE_P(, MergePrefetching, ::testing::ValuesIn(kAllPrefetchKinds), policy_name);

TEST_P(MergePrefetching, GivesBlocksInAnyOrder) {
  auto random = test_random();
  std::uint64_t unforeseen[3] = {};
  for (int round = 0; round < 60; ++round) {
    const auto disks = static_cast<unsigned>(1 + random() % 4);
    runs.clear();
    store.reset();
    write_runs(disks, 1 + random() % 20, random);
    const std::vector<NeededBlock> needed = any_order(random);
    std::vector<NeededBlock> foretold = needed;
    const auto how = static_cast<std::size_t>(round % 3);
    if (how == 1) disturb(foretold, random);
    if (how == 2) foretold = any_order(random);
    const std::size_t window = 1 + random() % 2;
    MergePrefetcherStatistics statistics;
    merge(foretold, needed, window, random() % 3 == 0 ? random() % 20 : 0, statistics);
    if (HasFatalFailure()) return;
    unforeseen[how] += statistics.unforeseen;
    if (how == 0) {
      EXPECT_EQ(statistics.reads.requests, statistics.policy.fetches);
    }
  }
  EXPECT_EQ(unforeseen[0], 0u);
  // Striped blocks come in the order of their runs, whatever is foretold.
  if (GetParam() != PrefetchKind::kStriped) {
    EXPECT_GT(unforeseen[2], 0u);
  }
}

// Nothing of the pool has been touched yet.
TEST_P(MergePrefetching, BuffersLeaveBeforeItBegins) {
  auto random = test_random();
  write_runs(1, 3, random);
  BlockPool cold(
      {.pool_bytes = std::size_t{8} << 20, .block_bytes = kBlock, .warming = Warming::kOnDemand});
  store->use(cold);
  const auto count = static_cast<std::uint32_t>(runs.size());
  const PrefetchOptions options{
      .disks = 1, .buffers = cold.block_count() - 1, .held_blocks = count};
  std::vector<RunSlice> slices;
  for (vortex::Run& run : runs) slices.push_back(RunSlice::between(run, run.skipped, run.bytes));
  auto policy = make_prefetch_policy(GetParam(), std::make_unique<KnownOrder>(any_order(random)),
                                     options, count);
  const std::size_t buffers = policy->buffers();
  const std::size_t keep = count + 1;
  MergePrefetcher prefetcher(*store, std::move(slices), std::move(policy), false);
  ASSERT_GT(buffers, keep);
  EXPECT_FALSE(prefetcher.keep_only(keep));
  EXPECT_EQ(cold.statistics().blocks_retired, buffers - keep);
}

}  // namespace

}  // namespace vortex::test::merge_prefetcher_test

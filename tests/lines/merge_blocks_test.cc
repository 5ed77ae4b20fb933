// Runs of lines are read in the order in which their merge needs the blocks: foretold exactly where
// forecasts tell records apart, and nearly so where they do not.
#include "lines/runs/run_division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lines/runs/line_merge.h"
#include "lines/runs/line_run.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/runs/run_packing.h"
#include "tests/lines/line_cases.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex::test::merge_blocks_test { namespace {

constexpr std::size_t kBlock = kMinBlockBytes;
constexpr std::size_t kPoolBlocks = 2000;

class MergeBlocks : public ::testing::Test {
 protected:
  StoredRecord stored(const std::string& line) const {
    if (!order.keys) return {line, line};
    keys_.clear();
    const std::string_view record = line;
    order.keys->append({&record, 1}, keys_);
    return {keys_.key(0), line};
  }
  // The chunks that two neighbours have in common; the keys of both are needed at a time.
  std::uint64_t in_common(const std::string& a, const std::string& b) const {
    const std::string key(stored(a).key);
    return difference({key, a}, stored(b), StoredOrder(order), 0).chunk;
  }
  // A part of a run, which comes in front of `next`, if that is not null; that begins with
  // `behind`.
  LineRun part_of_run(std::span<const std::string> lines, const LineRun* next,
                      const std::string* behind) {
    std::uint64_t bytes = 0;
    for (const std::string& line : lines) bytes += 2 * line.size() + 100;
    LineRunWriter writer(*store, StoredOrder(order), *packing, 2, forecast_bytes, bytes, {});
    guarded([&] {
      const std::string* before = nullptr;
      for (const std::string& line : lines) {
        const std::uint64_t known = before == nullptr ? 0 : in_common(*before, line);
        writer.append(stored(line), known, 1);
        before = &line;
      }
    }).throw_if_failed();
    if (next == nullptr) return writer.finish();
    const std::uint64_t known = in_common(lines.back(), *behind);
    return writer.finish_before(*next, stored(lines.back()), known);
  }
  // Some are written from their end on, in parts.
  void write_run(std::span<const std::string> lines, std::mt19937_64& random) {
    const std::size_t most = random() % 2 == 0 ? lines.size() : 1 + lines.size() / 4;
    std::vector<LineRun> parts;
    const std::string* behind = nullptr;
    while (parts.empty() || !lines.empty()) {
      const std::size_t count = std::min(lines.size(), most);
      const auto part = lines.last(count);
      parts.push_back(part_of_run(part, parts.empty() ? nullptr : &parts.back(), behind));
      if (count > 0) behind = &part.front();
      lines = lines.first(lines.size() - count);
    }
    std::reverse(parts.begin(), parts.end());
    joints += parts.size() - 1;
    runs.push_back(joined(std::move(parts)));
  }
  void open(unsigned disks, std::mt19937_64& random) {
    runs.clear();
    packing.reset();
    store.reset();
    pool.emplace(BlockPoolOptions{.pool_bytes = kPoolBlocks * kBlock, .block_bytes = kBlock});
    RunStoreOptions options;
    options.folders.assign(disks, folder.path().string());
    options.seed = random();
    store.emplace(*pool, std::move(options));
    packing.emplace(compression, kBlock);
  }
  // Writes the lines, sorted, as so many runs of different lengths, in the order of the input.
  void write_runs(const Lines& lines, std::size_t count, std::mt19937_64& random) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < count; ++i) ends.push_back(random() % (lines.size() + 1));
    ends.push_back(lines.size());
    std::sort(ends.begin(), ends.end());
    const auto at = [&](std::size_t index) {
      return lines.begin() + static_cast<std::ptrdiff_t>(index);
    };
    std::size_t begin = 0;
    LineOrder of_run = order;
    of_run.unique = false;
    if (order.unique) of_run.ties = Ties::kInputOrder;
    for (const std::size_t end : ends) {
      write_run(sorted(Lines(at(begin), at(end)), of_run), random);
      begin = end;
    }
  }
  // Merges them in parts, with the least buffers that the policy can do with and some more.
  Lines merged(PrefetchKind kind, unsigned parts, std::size_t more_buffers) {
    const StoredOrder stored_order(order);
    const auto count = static_cast<std::uint32_t>(runs.size());
    std::uint64_t longest = 0;
    for (const LineRun& run : runs) longest = std::max(longest, run.longest);
    Lines lines;
    unforeseen = blocks = 0;
    for (const MergePart& part : divide_runs(runs, stored_order, parts, kBlock)) {
      PrefetchOptions options;
      options.disks = store->files();
      options.held_blocks = count * RunCursor::window_blocks(longest, kBlock);
      options.buffers = minimum_read_buffers(kind, options, count) + more_buffers;
      std::unique_ptr<OrderOfNeed> needed = order_of_need(runs, part, stored_order);
      blocks += needed->blocks();
      MergePrefetcher prefetcher(*store, slices_of(runs, part),
                                 make_prefetch_policy(kind, std::move(needed), options, count),
                                 false);
      {
        std::vector<std::unique_ptr<RunCursor>> cursors;
        std::vector<RunCursor*> players;
        for (std::uint32_t i = 0; i < count; ++i) {
          cursors.push_back(std::make_unique<RunCursor>(prefetcher, i, part.runs[i], runs[i],
                                                        stored_order, std::stop_token()));
          players.push_back(cursors.back().get());
        }
        LineMerge<RunCursor> merge(players, stored_order);
        guarded([&] {
          prefetcher.start();
          merge.start();
          while (merge.next()) lines.emplace_back(merge.stored().record);
        }).throw_if_failed();
        unforeseen += prefetcher.statistics().unforeseen;
        prefetcher.stop();
      }
    }
    return lines;
  }
  TemporaryFolder folder{fast_folder()};
  LineOrder order;
  RunCompression compression = RunCompression::kNever;
  std::size_t forecast_bytes = 256;
  std::optional<BlockPool> pool;
  std::optional<RunStore> store;
  std::optional<RunPacking> packing;
  std::vector<LineRun> runs;
  std::uint64_t unforeseen = 0;
  std::uint64_t blocks = 0;
  std::uint64_t joints = 0;

 private:
  mutable KeyBatch keys_;
};

// With the least buffers a merge that needs its blocks in another order than foretold would wait
// for one that was not fetched.
TEST_F(MergeBlocks, AreNeededAsForetold) {
  auto random = test_random();
  std::uint64_t all_blocks = 0;
  for (int round = 0; round < (long_tests() ? 80 : 16); ++round) {
    const LineKind kind = kAllLineKinds[static_cast<std::size_t>(round) % std::size(kAllLineKinds)];
    // Forecasts hold lines of up to 200 bytes whole; longer ones are told apart by their
    // beginnings.
    const bool any_length = kind == LineKind::kRandom;
    constexpr std::size_t kLongest[] = {3, 40, 200, kBlock / 2, kBlock, 3 * kBlock};
    const std::size_t longest = kLongest[random() % (any_length ? std::size(kLongest) : 3)];
    order = random_order(random, false);
    if (random() % 2 == 0) order.keys = std::make_shared<KeysBehindComma>();
    compression = random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    const auto policy = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ", kind " << static_cast<int>(kind) << ", longest "
                 << longest << ", " << prefetch_kind_name(policy));
    open(static_cast<unsigned>(1 + random() % 4), random);
    const Lines lines = make_lines(kind, 1 + 1000000 / (longest / 2 + 12), longest, random);
    write_runs(lines, 1 + random() % 12, random);
    const bool striped_can = RunCursor::window_blocks(longest * 2 + 40, kBlock) <= store->files();
    const bool allowed = policy != PrefetchKind::kStriped || striped_can;
    const Lines found = merged(allowed ? policy : PrefetchKind::kOptimal, 1, random() % 3);
    ASSERT_EQ(found, sorted(lines, order));
    ASSERT_EQ(unforeseen, 0u) << "of " << blocks;
    all_blocks += blocks;
  }
  EXPECT_GT(all_blocks, 300u);
  EXPECT_GT(joints, 20u);
}

// Parts begin and end within blocks.
TEST_F(MergeBlocks, OfPartsAreNeededAsForetold) {
  auto random = test_random();
  std::uint64_t all_blocks = 0, all_unforeseen = 0;
  for (int round = 0; round < 16; ++round) {
    const LineKind kind = kAllLineKinds[static_cast<std::size_t>(round) % std::size(kAllLineKinds)];
    constexpr std::size_t kLongest[] = {20, 100, 200};
    const std::size_t longest = kLongest[random() % std::size(kLongest)];
    order = random_order(random, false);
    if (random() % 2 == 0) order.keys = std::make_shared<KeysBehindComma>();
    order.unique = false;
    compression = random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    open(static_cast<unsigned>(1 + random() % 4), random);
    const Lines lines = make_lines(kind, 1 + 2000000 / (longest / 2 + 12), longest, random);
    write_runs(lines, 1 + random() % 12, random);
    ASSERT_EQ(merged(PrefetchKind::kOptimal, 2 + random() % 4, 1), sorted(lines, order));
    all_blocks += blocks;
    all_unforeseen += unforeseen;
  }
  // The first record of a part may reach into a second block, which is foretold a little too late.
  EXPECT_GT(all_blocks, 500u);
  EXPECT_LE(all_unforeseen * 100, all_blocks);
}

// Whatever forecasts do not know: the merge is the same, and most blocks are foreseen.
TEST_F(MergeBlocks, AreGuessedWhereForecastsAreCut) {
  auto random = test_random();
  struct Case {
    const char* name;
    std::size_t forecast_bytes;
    std::size_t prefix_bytes;
    std::size_t shortened;     // keys
    unsigned most_unforeseen;  // of a hundred blocks
  };
  constexpr std::size_t kWhole = std::string_view::npos;
  constexpr Case kCases[] = {
      {"a long prefix", 256, 3000, kWhole, 10},
      {"a longer one than forecasts may have", 256, 12000, kWhole, 100},
      {"short forecasts", 16, 300, kWhole, 20},
      {"keys that are all the same where they end", 256, 40, 8, 10},
  };
  // The merge may hold more blocks of a run than striped reading allows.
  std::vector<PrefetchKind> policies(std::begin(kAllPrefetchKinds), std::end(kAllPrefetchKinds));
  std::erase(policies, PrefetchKind::kStriped);
  for (const Case& which : kCases) {
    for (int round = 0; round < (long_tests() ? 12 : 3); ++round) {
      const auto policy = policies[random() % policies.size()];
      SCOPED_TRACE(::testing::Message() << which.name << ", " << prefetch_kind_name(policy));
      order = {};
      if (which.shortened != kWhole || random() % 2 == 0) {
        order.keys = std::make_shared<KeysBehindComma>(which.shortened);
      }
      order.descending = random() % 2 == 0;
      order.ties = random() % 2 == 0 ? Ties::kInputOrder : Ties::kRecordBytes;
      forecast_bytes = which.forecast_bytes;
      open(static_cast<unsigned>(1 + random() % 3), random);
      const std::string prefix(which.prefix_bytes, 'p');
      Lines lines;
      for (std::size_t bytes = 0; bytes < 4000000; bytes += lines.back().size()) {
        std::string line = order.keys ? "," + prefix : prefix;
        line += std::to_string(random() % 100000);
        line.resize(line.size() + random() % 100, 'x');
        lines.push_back(std::move(line));
      }
      write_runs(lines, 8, random);
      ASSERT_EQ(merged(policy, 1, 16), sorted(lines, order));
      // The others wait for what they expect.
      if (policy != PrefetchKind::kOptimal && policy != PrefetchKind::kNaive) continue;
      EXPECT_LE(unforeseen * 100, blocks * which.most_unforeseen) << unforeseen << " of " << blocks;
    }
  }
}

}  // namespace

}  // namespace vortex::test::merge_blocks_test

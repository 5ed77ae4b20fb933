// Runs of records, and what is in memory, cut at the same places of their order.
#include "sort/merge/record_division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort.h"
#include "vortex/input_stream.h"

namespace vortex::test::record_division_test { namespace {

constexpr std::size_t kBlock = std::size_t{16} << 10;

// A record of a sequence, in the order of a stable merge.
struct Place {
  std::size_t sequence;
  std::uint64_t index;
};

struct Sequences {
  Sequences(const RecordOrder& record_order, RunStore& run_store, unsigned count,
            std::mt19937_64& random)
      : order(record_order), store(run_store) {
    const Shape shape = kShapes[random() % std::size(kShapes)];
    for (unsigned i = 0; i <= count; ++i) {
      lists.push_back(stably_sorted(
          order, make_records(shape, order.record_bytes(),
                              random_count(order.record_bytes(), 20 * kBlock, random), random)));
    }
    for (unsigned i = 0; i < count; ++i) runs.push_back(written(lists[i], random));
    const RecordList& last = lists.back();
    if (last.count() != 0) in_memory = {last.bytes.data(), last.count()};
    for (std::size_t i = 0; i < lists.size(); ++i) {
      for (std::uint64_t j = 0; j < lists[i].count(); ++j) merged.push_back({i, j});
    }
    std::ranges::stable_sort(merged, [&](const Place& a, const Place& b) {
      return order.less(lists[a.sequence].at(a.index), lists[b.sequence].at(b.index));
    });
  }

  // As it comes, or in parts from the end on, so that it may begin within a block.
  Run written(const RecordList& list, std::mt19937_64& random) const {
    const std::size_t record_bytes = order.record_bytes();
    if (random() % 2 == 0 || list.count() == 0) {
      RunWriter writer(order, store, 3, std::uint64_t{64} << 20);
      guarded([&] {
        append_records(writer, list.bytes.data(), list.count(), record_bytes);
      }).throw_if_failed();
      return writer.finish();
    }
    FallingRunWriter writer(order, store, 3, std::uint64_t{64} << 20, 0, nullptr, {},
                            kAsLongAsMayBe);
    for (std::size_t left = list.count(); left > 0;) {
      const std::size_t some = std::min<std::size_t>(left, 1 + random() % (1 + left));
      left -= some;
      writer.begin_part(some * record_bytes);
      guarded([&] { append_records(writer, list.at(left), some, record_bytes); }).throw_if_failed();
    }
    return writer.finish();
  }

  const RecordOrder& order;
  RunStore& store;
  std::vector<RecordList> lists;  // of the runs, and the last one of what is in memory
  std::vector<Run> runs;
  MergeInput in_memory;
  std::vector<Place> merged;
};

// Each part has the records that come next, of all sequences.
void expect_consecutive(const Sequences& all, const std::vector<RecordPart>& parts,
                        std::uint64_t wanted) {
  std::vector<std::uint64_t> done(all.lists.size());
  std::uint64_t rank = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RecordPart& part = parts[i];
    const bool is_last = i + 1 == parts.size();
    std::vector<std::uint64_t> counts(all.lists.size());
    const std::uint64_t end = is_last ? all.merged.size() : rank + part.records;
    ASSERT_LE(end, all.merged.size());
    for (std::uint64_t j = rank; j < end; ++j) ++counts[all.merged[j].sequence];
    for (std::size_t run = 0; run < part.runs.size(); ++run) {
      ASSERT_EQ(part.runs[run].begin, done[run]) << "run " << run << " of part " << i;
      ASSERT_EQ(part.runs[run].end - part.runs[run].begin, counts[run]);
    }
    ASSERT_EQ(part.in_memory.records, counts.back());
    if (counts.back() != 0) {
      ASSERT_EQ(part.in_memory.begin, all.lists.back().at(done.back()));
    }
    for (std::size_t sequence = 0; sequence < counts.size(); ++sequence) {
      done[sequence] += counts[sequence];
    }
    rank += part.records;
  }
  ASSERT_EQ(rank, wanted);
}

TEST(RecordDivision, GivesPartsOfAStableMerge) {
  auto random = test_random();
  Seen seen({{"several", 21}});
  for (unsigned round = 0; seen.another(round, 60); ++round) {
    // Keys that the leading bits decide, others, and such as are too long for a forecast.
    const std::size_t record_bytes =
        round % 4 == 0 ? 300 + random() % 16000 : random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()) + ", round " + std::to_string(round));
    const TemporaryFolder folder(fast_folder());
    BlockPool pool({.pool_bytes = 16 * kBlock, .block_bytes = kBlock});
    RunStoreOptions options;
    options.folders = {folder.path().string()};
    RunStore store(pool, options);
    const Sequences all(order, store, static_cast<unsigned>(random() % 12), random);
    const std::uint64_t most = all.merged.size();
    if (most == 0) continue;
    const std::uint64_t first = random() % 3 == 0 ? 1 + random() % most : 0;
    const unsigned parts = 1 + static_cast<unsigned>(random() % 16);
    const std::uint64_t least = random() % 2 == 0 ? 1 : 1 + random() % (most / 2 + 1);
    const std::vector<RecordPart> divided =
        divide_runs(order, all.runs, all.in_memory, parts, least, first);
    ASSERT_LE(divided.size(), parts);
    for (const RecordPart& part : divided) {
      EXPECT_GE(part.records, divided.size() > 1 ? least : 0);
    }
    expect_consecutive(all, divided, first == 0 ? most : std::min(first, most));
    seen.note("several", divided.size() > 2);
  }
  seen.expect_all();
}

struct KeyAndPlace {
  std::uint64_t key, place;
};

// A comparator that is no order cuts anywhere, but a part lies behind the one in front of it in
// each run and in memory, and ends within them.
TEST(RecordDivision, CutsByNoOrderAreWithinWhatThereIs) {
  auto random = test_random();
  const auto by_key = detail::order_of_type<KeyAndPlace>(
      [](const KeyAndPlace& a, const KeyAndPlace& b) { return a.key < b.key; });
  const auto by_chance =
      detail::order_of_type<KeyAndPlace>([&random](const KeyAndPlace& a, const KeyAndPlace& b) {
        return std::memcmp(&a, &b, sizeof a) != 0 && random() % 2 == 0;
      });
  const TemporaryFolder folder(fast_folder());
  BlockPool pool({.pool_bytes = 16 * kBlock, .block_bytes = kBlock});
  RunStoreOptions options;
  options.folders = {folder.path().string()};
  RunStore store(pool, options);
  unsigned several = 0;
  for (unsigned round = 0; round < 20; ++round) {
    const Sequences all(*by_key, store, 1 + static_cast<unsigned>(random() % 4), random);
    std::vector<std::uint64_t> done(all.lists.size());
    const auto divided = divide_runs(*by_chance, all.runs, all.in_memory,
                                     2 + static_cast<unsigned>(random() % 6), 1, 0);
    several += divided.size() > 1;
    for (const RecordPart& part : divided) {
      for (std::size_t run = 0; run < part.runs.size(); ++run) {
        ASSERT_EQ(part.runs[run].begin, done[run]);
        ASSERT_LE(done[run], part.runs[run].end);
        ASSERT_LE(part.runs[run].end, all.runs[run].records);
        done[run] = part.runs[run].end;
      }
      ASSERT_LE(part.in_memory.records, all.in_memory.records - done.back()) << "round " << round;
      done.back() += part.in_memory.records;
    }
  }
  EXPECT_GT(several, 5U);
}

// Random records, of many runs: parts are about equally long, however many there are.
TEST(RecordDivision, GivesEqualParts) {
  std::mt19937_64 random;  // always the same: one division of 100,000 is not about equal
  const FormatOrder order(RecordFormat(8, {{.offset = 0, .length = 8, .type = {}}}));
  const TemporaryFolder folder(fast_folder());
  BlockPool pool({.pool_bytes = 16 * kBlock, .block_bytes = kBlock});
  RunStoreOptions options;
  options.folders = {folder.path().string()};
  RunStore store(pool, options);
  std::vector<vortex::Run> runs;
  std::uint64_t all = 0;
  for (unsigned i = 0; i < 12; ++i) {
    const RecordList list =
        stably_sorted(order, make_records(Shape::kRandom, 8, (1 + i % 3) * 100000, random));
    RunWriter writer(order, store, 3, std::uint64_t{64} << 20);
    guarded([&] { append_records(writer, list.bytes.data(), list.count(), 8); }).throw_if_failed();
    runs.push_back(writer.finish());
    all += list.count();
  }
  for (const unsigned parts : {2U, 3U, 16U}) {
    const std::vector<RecordPart> divided = divide_runs(order, runs, {}, parts, 1, 0);
    ASSERT_EQ(divided.size(), parts);
    for (const RecordPart& part : divided) {
      EXPECT_LT(part.records, all / parts * 5 / 4);
      EXPECT_GT(part.records, all / parts * 3 / 4);
    }
  }
}

}}  // namespace vortex::test::record_division_test

// Sorts of lines by any number of threads, which find records, write runs and merge them side by
// side.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/memory/line_arena.h"
#include "lines/memory/record_piece.h"
#include "study/fault_plan.h"
#include "tests/lines/line_folder.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/array_calls.h"
#include "vortex/disk.h"
#include "vortex/line_sort.h"

namespace vortex::test::line_threads_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr unsigned kThreads[] = {1, 2, 7, 16, 64, 128};

class LineThreads : public LineFolder {
 protected:
  LineThreads() {
    options.resources.memory_bytes = 8 * kMiB;
    options.resources.block_bytes = kBlock;
    options.resources.compression = RunCompression::kNever;
  }
  // More than the memory holds.
  Lines many_lines(LineKind kind, std::size_t longest, std::mt19937_64& random,
                   std::size_t bytes = 9'000'000) {
    return make_lines(kind, bytes / (longest / 2 + 12), longest, random);
  }
};

TEST_F(LineThreads, GiveWhatOneThreadGives) {
  auto random = test_random();
  constexpr std::size_t kLongest[] = {6, 100, 100, 1000, 12'000};
  for (int round = 0; round < 4; ++round) {
    const LineKind kind = kAllLineKinds[random() % std::size(kAllLineKinds)];
    const std::size_t longest = kLongest[random() % std::size(kLongest)];
    Lines lines = many_lines(kind, longest, random, kShadowMemory ? 3'000'000 : 9'000'000);
    // Some are long, and so are the keys of some.
    for (std::size_t i = random() % 3; i > 0; --i) {
      lines[random() % lines.size()] += "," + std::string(random() % 200'000, 'x');
    }
    options.order = random_order(random);
    if (options.order.keys) options.order.keys = std::make_shared<ManyKeys>(options.order.keys);
    options.resources.first_records = random() % 4 == 0 ? random() % (2 * lines.size()) : 0;
    options.header_records = random() % 3;
    options.resources.compression =
        random() % 4 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    const Lines header(options.header_records, "zz head");
    std::string text = joined(lines);
    if (!lines.back().empty() && random() % 2 == 0) text.pop_back();
    options.inputs = {put("in", joined(header) + text)};
    Lines expected = sorted(lines, options.order);
    if (const std::uint64_t first = options.resources.first_records; first != 0) {
      expected.resize(std::min<std::size_t>(expected.size(), first));
    }
    for (const unsigned threads : kThreads) {
      if (!long_tests() && random() % 2 == 0) continue;  // half of them, by chance
      SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + ", longest " +
                   std::to_string(longest) + ", threads " + std::to_string(threads));
      options.resources.threads = threads;
      const SortReport report = sort_lines(options);
      EXPECT_EQ(report.records_in, lines.size());
      EXPECT_EQ(report.records_out, expected.size());
      EXPECT_TRUE(file_text(options.output) == joined(header) + joined(expected));
      if (HasFailure()) return;
    }
  }
}

// Of a pipe no length is known.
TEST_F(LineThreads, ReadAPipe) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random, 18'000'000);
  const std::string text = joined(lines);
  options.inputs = {folder.file("pipe")};
  ASSERT_EQ(mkfifo(options.inputs[0].c_str(), 0600), 0);
  for (const unsigned threads : {2, 16}) {
    options.resources.threads = threads;
    std::thread writer([&] { std::ofstream(options.inputs[0], std::ios::binary) << text; });
    const SortReport report = expect_output(sorted(lines, {}));
    writer.join();
    EXPECT_GT(report.runs, 1u);
  }
}

// Each call waits until as many threads have called as there are: one that does not take part
// would be missed.
class AwaitedKeys final : public RecordKeys {
 public:
  explicit AwaitedKeys(std::size_t threads) : wanted_(threads) {}
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    {
      std::unique_lock lock(mutex_);
      callers_.insert(std::this_thread::get_id());
      numbers_.insert(sort_thread());
      if (callers_.size() == wanted_) all_.notify_all();
      all_.wait_for(lock, std::chrono::minutes(1), [&] { return callers_.size() >= wanted_; });
    }
    for (const std::string_view record : records) {
      keys.append(record);
      keys.end_key();
    }
  }
  bool appended_by_any_thread() const noexcept override { return true; }
  std::size_t callers() const { return callers_.size(); }
  const std::set<unsigned>& numbers() const { return numbers_; }

 private:
  const std::size_t wanted_;
  mutable std::mutex mutex_;
  mutable std::condition_variable all_;
  mutable std::set<std::thread::id> callers_;
  mutable std::set<unsigned> numbers_;  // of these
};

TEST_F(LineThreads, AllMakeKeys) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random, 24'000'000);
  put_input(lines);
  options.resources.memory_bytes = 24 * kMiB;
  for (const unsigned threads : {2, 7}) {
    const auto keys = std::make_shared<AwaitedKeys>(threads);
    options.order = {.keys = keys, .descending = random() % 2 == 0};
    options.resources.threads = threads;
    const LineOrder by_line{.descending = options.order.descending};
    const SortReport report = expect_output(sorted(lines, by_line));
    EXPECT_EQ(keys->callers(), threads);
    EXPECT_EQ(keys->numbers().size(), threads);
    EXPECT_EQ(*keys->numbers().rbegin(), threads - 1);
    EXPECT_EQ(report.merge_parts, threads);
  }
}

// A thread has 256 KiB of text at least, or is not started.
TEST_F(LineThreads, AsManyMakeKeysAsHaveText) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random, 4'000'000);
  put_input(lines);
  const std::uint64_t texts = (file_text(options.inputs[0]).size() + kMiB / 4 - 1) / (kMiB / 4);
  options.resources.memory_bytes = 128 * kMiB;
  for (const unsigned threads : kThreads) {
    SCOPED_TRACE(threads);
    const auto expected = static_cast<unsigned>(std::min<std::uint64_t>(threads, texts));
    const auto keys = std::make_shared<AwaitedKeys>(expected);
    options.order = {.keys = keys};
    options.resources.threads = threads;
    const SortReport report = expect_output(sorted(lines, {}));
    EXPECT_EQ(report.plan.threads, expected);
    EXPECT_EQ(keys->callers(), expected);
    EXPECT_EQ(*keys->numbers().rbegin(), expected - 1);
  }
}

// What is pushed to a sorter at once has parts of 64 KiB at least for each.
TEST_F(LineThreads, AllMakeKeysOfWhatIsPushed) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random, 4'000'000);
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  for (const unsigned threads : {2, 7, 16, 64}) {
    SCOPED_TRACE(threads);
    options.resources.memory_bytes = 4 * kMiB * std::max(threads, 16U);
    const auto keys = std::make_shared<AwaitedKeys>(threads);
    options.resources.threads = threads;
    LineSorter sorter({.keys = keys}, options.resources);
    sorter.push(views);
    EXPECT_EQ(keys->callers(), threads);
    EXPECT_EQ(*keys->numbers().rbegin(), threads - 1);
    ASSERT_TRUE(given_by(sorter) == sorted(lines, {}));
  }
}

// Some records are long, and so are the keys of some; what is pushed begins and ends anywhere.
TEST_F(LineThreads, ASorterGivesWhatOneThreadGives) {
  auto random = test_random();
  for (const unsigned threads : kThreads) {
    if (!long_tests() && random() % 2 == 0) continue;  // half of them, by chance
    Lines lines = many_lines(kAllLineKinds[random() % std::size(kAllLineKinds)], 100, random,
                             kShadowMemory ? 3'000'000 : 9'000'000);
    for (std::size_t i = random() % 6; i > 0; --i) {
      lines[random() % lines.size()] += "," + std::string(random() % 200'000, 'x');
    }
    options.order = random_order(random);
    if (options.order.keys) options.order.keys = std::make_shared<ManyKeys>(options.order.keys);
    options.resources.first_records = random() % 4 == 0 ? random() % (2 * lines.size()) : 0;
    options.resources.threads = threads;
    options.resources.memory_bytes = (random() % 2 == 0 ? 8 : 64) * kMiB;
    SCOPED_TRACE("threads " + std::to_string(threads));
    Lines expected = sorted(lines, options.order);
    if (const std::uint64_t first = options.resources.first_records; first != 0) {
      expected.resize(std::min<std::size_t>(expected.size(), first));
    }
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    LineSorter sorter(options.order, options.resources);
    for (std::size_t begin = 0; begin < views.size();) {
      const std::size_t most = random() % 4 == 0 ? 300 : 60'000;
      const std::size_t count = std::min<std::size_t>(random() % most, views.size() - begin);
      sorter.push(std::span(views).subspan(begin, count));
      begin += count;
    }
    ASSERT_EQ(sorter.records(), lines.size());
    ASSERT_TRUE(given_by(sorter) == expected);
  }
}

// Keys that are many times as long as their records.
class PaddedKeys final : public RecordKeys {
 public:
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    const std::string padding(300, '\0');
    for (const std::string_view record : records) {
      keys.append(record);
      keys.append(padding);
      keys.end_key();
    }
  }
  bool appended_by_any_thread() const noexcept override { return true; }
};

TEST_F(LineThreads, ASorterTakesRecordsWithLongerKeys) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 20, random, 2'000'000);
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  options.order = {.keys = std::make_shared<PaddedKeys>()};
  options.resources.threads = 7;
  options.resources.memory_bytes = 64 * kMiB;
  LineSorter sorter(options.order, options.resources);
  for (std::size_t begin = 0; begin < views.size();) {
    const std::size_t count = std::min<std::size_t>(random() % 60'000, views.size() - begin);
    sorter.push(std::span(views).subspan(begin, count));
    begin += count;
  }
  ASSERT_TRUE(given_by(sorter) == sorted(lines, {}));
}

// The first record has a long key.
class OneLongKey final : public RecordKeys {
 public:
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      keys.append(record);
      if (record.front() == 'x') keys.append(std::string(9 * 1024, 'x'));
      keys.end_key();
    }
  }
  bool appended_by_any_thread() const noexcept override { return true; }
};

// A record that all threads leave to one comes first, and more records than a text has room for.
TEST_F(LineThreads, BeginWithALongRecordOrKey) {
  auto random = test_random();
  Lines lines;
  while (lines.size() < 500'000) lines.push_back(std::to_string(1'000'000 + random() % 9'000'000));
  options.resources.memory_bytes = 256 * kMiB;
  for (const std::size_t first : {10'000, 1}) {
    lines[0] = std::string(first, 'x');
    put_input(lines);
    for (const bool has_keys : {false, true}) {
      options.order = {};
      if (has_keys) options.order.keys = std::make_shared<OneLongKey>();
      for (const unsigned threads : {2, 7}) {
        options.resources.threads = threads;
        expect_output(sorted(lines, {}));
      }
    }
  }
}

// An error in any request, in any number of threads, and a stop in any phase.
TEST_F(LineThreads, EndTogetherWhenOneFails) {
  auto random = test_random();
  const Lines lines = many_lines(LineKind::kFields, 100, random);
  const Lines expected = sorted(lines, {});
  put_input(lines);
  for (const unsigned threads : {1, 2, 7, 16}) {
    options.resources.threads = threads;
    std::filesystem::remove(options.output);
    const auto all = counted();
    use(all);
    EXPECT_GT(expect_output(expected).runs, 1u);
    for (int i = 0; i < 8; ++i) {
      std::filesystem::remove(options.output);
      use(error_at(random() % (all->attempts() * 9 / 10), EIO));
      expect_refused(EIO);
    }
    use(counted());
    for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
      std::stop_source stop;
      options.resources.stop = stop.get_token();
      options.resources.progress = [&](const SortProgress& now) {
        if (now.phase == phase) stop.request_stop();
      };
      expect_refused(ECANCELED);
      options.resources.progress = {};
      options.resources.stop = {};
    }
  }
}

// What several threads put into an arena lies as if one had pushed it.
TEST(LineArenaPlaces, AreThoseOfPush) {
  auto random = test_random();
  const Lines lines = make_lines(LineKind::kFields, 5000, 400, random);
  for (const bool has_keys : {false, true}) {
    LineOrder order{.descending = random() % 2 == 0};
    if (has_keys) order.keys = std::make_shared<KeysBehindComma>();
    const StoredOrder stored(order);
    std::vector<char> rooms[2];
    for (auto& room : rooms) room.assign(std::size_t{2} << 20, '\0');
    LineArena pushed(rooms[0], stored);
    LineArena placed(rooms[1], stored);
    const auto key = [&](const std::string& line) {
      return has_keys ? behind_comma(line) : std::string_view();
    };
    for (auto line = lines.begin(); line != lines.end();) {
      const auto end = line + std::min<std::ptrdiff_t>(lines.end() - line, 1 + random() % 400);
      std::uint64_t bytes = 0;
      for (auto at = line; at != end; ++at) bytes += stored_bytes(key(*at), *at, has_keys);
      auto place = placed.reserve(static_cast<std::uint64_t>(end - line), bytes);
      ASSERT_TRUE(place);
      for (; line != end; ++line) {
        ASSERT_TRUE(pushed.push(key(*line), *line));
        placed.put(*place, key(*line), *line);
      }
    }
    ASSERT_EQ(placed.records(), pushed.records());
    ASSERT_EQ(placed.stored_bytes(), pushed.stored_bytes());
    EXPECT_TRUE(
        std::equal(rooms[0].begin(), rooms[0].begin() + pushed.stored_bytes(), rooms[1].begin()));
    for (std::size_t i = 0; i < pushed.records(); ++i) {
      EXPECT_EQ(placed.index()[i].key, pushed.index()[i].key);
      EXPECT_EQ(stored_at(placed.index()[i]) - rooms[1].data(),
                stored_at(pushed.index()[i]) - rooms[0].data());
    }
    const std::uint64_t room = placed.free_room().size();
    EXPECT_FALSE(placed.reserve(1, room));
    EXPECT_TRUE(placed.reserve(1, room - sizeof(IndexEntry)));
  }
}

// Two gigabytes in 256 MiB: every thread has a text, and a part of the merge; one in four writes.
TEST(LineThreadsPlan, UsesAllWhereMemoryIsNotLittle) {
  for (const unsigned threads : kThreads) {
    SortResources resources;
    resources.memory_bytes = 256 * kMiB;
    resources.threads = threads;
    const LinePlan plan = plan_lines(resources, 2048 * kMiB);
    const LineMergeSize size{.runs = 54, .longest = 200, .blocks = 2800 * kMiB / plan.block_bytes};
    const unsigned merges = plan.merges_at_once(size);
    if (threads <= 16) {
      EXPECT_GE(merges, threads - threads / 16) << threads;
      EXPECT_EQ(plan.texts_at_once, threads == 1 ? 0u : threads);
    } else {
      EXPECT_GE(merges, 16u);
      EXPECT_GE(plan.texts_at_once, 16u);
    }
    // Tables get what the texts' share of the memory is too much for these.
    EXPECT_GE(2 * plan.table_bytes, plan.text_bytes);
    EXPECT_EQ(plan.table_bytes,
              threads == 2 ? RecentKeys::kMostBytes : std::bit_floor(plan.table_bytes));
    EXPECT_LE(plan.texts_at_once * (RecordPiece::kTimesText * plan.text_bytes + plan.table_bytes),
              resources.memory_bytes / 32);
    EXPECT_EQ(plan.run_parts(50 * kMiB), std::max(std::min(threads / 4, 50u), 1u)) << threads;
    EXPECT_GE(plan.arena_bytes, 160 * kMiB);
  }
}

}}  // namespace vortex::test::line_threads_test

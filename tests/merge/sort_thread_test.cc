// Which of a sort's threads calls a function of the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sort/runs/run_buckets.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "vortex/array_calls.h"
#include "vortex/external_sort.h"
#include "vortex/sorter.h"
#include "vortex/thread/activity.h"

namespace vortex::test::sort_thread_test { namespace {

constexpr unsigned kManyThreads[] = {1, 2, 7, 16, 64, 128};

// Of the threads that are in functions of one sort at the same time, each has a number of its own,
// less than `threads`.
class Callers {
 public:
  explicit Callers(unsigned threads)
      : threads_(threads), inside_(std::make_unique<std::atomic<int>[]>(threads)) {}

  // A call of a function begins and ends. Of few records it is looked at: that makes threads wait
  // for each other.
  void call(std::uint64_t value) noexcept {
    if (value % 16 != 5) return;
    const unsigned number = sort_thread();
    if (number >= threads_) {
      ++wrong_;
      return;
    }
    if (inside_[number].fetch_add(1) != 0) ++shared_;
    if (value % 32768 == 5) std::this_thread::yield();  // others may come meanwhile
    for (unsigned most = most_.load(); number > most;) {
      if (most_.compare_exchange_weak(most, number)) break;
    }
    if (sort_thread() != number) ++wrong_;
    inside_[number].fetch_sub(1);
  }

  // The greatest number there was.
  unsigned expect_good() const {
    EXPECT_EQ(wrong_, 0);
    EXPECT_EQ(shared_, 0);
    EXPECT_EQ(sort_thread(), 0U);
    return most_;
  }

 private:
  const unsigned threads_;
  const std::unique_ptr<std::atomic<int>[]> inside_;
  std::atomic<int> wrong_{0}, shared_{0};
  std::atomic<unsigned> most_{0};
};

struct Less {
  Callers* callers;
  bool operator()(const KeyAndValue& a, const KeyAndValue& b) const noexcept {
    callers->call(a.value);
    return a.key < b.key;
  }
};

std::vector<KeyAndValue> random_records(std::size_t count, std::mt19937_64& random) {
  std::vector<KeyAndValue> records(count);
  for (std::size_t i = 0; i < count; ++i) records[i] = {random() % count, i};
  return records;
}

SortResources small_resources(unsigned threads) {
  SortResources resources;
  resources.memory_bytes = std::uint64_t{2} << 20;
  resources.block_bytes = std::size_t{16} << 10;
  resources.threads = threads;
  resources.folders = {fast_folder()};
  return resources;
}

TEST(SortThread, OfComparatorsOfFiles) {
  auto random = test_random();
  std::vector<KeyAndValue> records = random_records(std::size_t{1} << 18, random);
  Files files;
  const auto* const bytes = reinterpret_cast<const std::byte*>(records.data());
  files.add_input(Bytes(bytes, bytes + records.size() * sizeof(KeyAndValue)));
  std::ranges::stable_sort(records, {}, &KeyAndValue::key);
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    auto options = files.options();
    options.resources = small_resources(threads);
    const SortReport report = external_sort<KeyAndValue>(options, Less{&callers});
    EXPECT_GT(report.runs, 1U);
    EXPECT_EQ(callers.expect_good() > 0, threads > 1);
    const Bytes sorted = read_file(files.output());
    ASSERT_EQ(sorted.size(), records.size() * sizeof(KeyAndValue));
    EXPECT_EQ(std::memcmp(sorted.data(), records.data(), sorted.size()), 0);
  }
}

// Files that are sorted already are merged in parts.
TEST(SortThread, OfComparatorsOfMerges) {
  auto random = test_random();
  std::vector<KeyAndValue> records = random_records(std::size_t{3} << 16, random);
  Files files;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::span<KeyAndValue> some = std::span(records).subspan(i << 16, 1 << 16);
    std::ranges::stable_sort(some, {}, &KeyAndValue::key);
    const auto bytes = std::as_bytes(some);
    files.add_input(Bytes(bytes.begin(), bytes.end()));
  }
  std::ranges::stable_sort(records, {}, &KeyAndValue::key);
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    auto options = files.options();
    options.resources = small_resources(threads);
    options.resources.memory_bytes *= 4;
    options.merge_inputs = true;
    unsigned most = 0;
    // Whoever calls may have merged all parts before another thread is there.
    for (int turn = 0; turn < (threads == 1 ? 1 : 200) && most == 0; ++turn) {
      const SortReport report = external_sort<KeyAndValue>(options, Less{&callers});
      EXPECT_EQ(report.merge_parts > 1, threads > 1);
      most = callers.expect_good();
    }
    EXPECT_EQ(most > 0, threads > 1);
    const Bytes sorted = read_file(files.output());
    ASSERT_EQ(sorted.size(), records.size() * sizeof(KeyAndValue));
    EXPECT_EQ(std::memcmp(sorted.data(), records.data(), sorted.size()), 0);
  }
}

TEST(SortThread, OfComparatorsOfSorters) {
  auto random = test_random();
  std::vector<KeyAndValue> records = random_records(std::size_t{1} << 18, random);
  std::vector<KeyAndValue> expected = records;
  std::ranges::stable_sort(expected, {}, &KeyAndValue::key);
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    Sorter<KeyAndValue, Less> sorter(small_resources(threads), Less{&callers});
    sorter.push(records);
    sorter.sort();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorter.begin(), sorter.end(),
                           [](const KeyAndValue& a, const KeyAndValue& b) {
                             return a.key == b.key && a.value == b.value;
                           }));
    EXPECT_EQ(callers.expect_good() > 0, threads > 1);
  }
}

TEST(SortThread, OfKeysInMemory) {
  auto random = test_random();
  const std::vector<KeyAndValue> records = random_records(std::size_t{1} << 21, random);
  for (const unsigned threads : {1U, 2U, 16U, 128U}) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    const auto key = [&](const KeyAndValue& record) {
      callers.call(record.value);
      return record.key;
    };
    std::vector<KeyAndValue> sorted = records;
    sort(std::span(sorted), key, {.threads = threads});
    EXPECT_TRUE(std::ranges::is_sorted(sorted, {}, &KeyAndValue::key));
    EXPECT_EQ(callers.expect_good() > 0, threads > 1);
    std::vector<std::uint32_t> places(records.size());
    argsort_into(std::span(records), key, std::span(places), {.threads = threads});
    EXPECT_TRUE(
        std::ranges::is_sorted(places, {}, [&](std::uint32_t i) { return records[i].key; }));
    callers.expect_good();
  }
}

// Threads take the keys of such records, sort these with their places, and then groups alone.
TEST(SortThread, OfTextOfLargeRecords) {
  struct Large {
    char text[24];
    std::uint64_t number;
    char rest[268];
  };
  auto random = test_random();
  std::vector<Large> records(30'000);
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::memset(records[i].text, 'a', sizeof records[i].text);
    for (std::size_t at = 0; at < sizeof records[i].text; at += 8) {
      records[i].text[at] = static_cast<char>(random() % 16);
    }
    records[i].number = i;
  }
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    std::vector<Large> sorted;
    // Records that others look at where they were: before they move, all are there; afterwards few.
    std::atomic<std::size_t> unmoved{0};
    const auto key = [&](const Large& record) {
      callers.call(record.number);
      if (sort_thread() != 0 && &record - sorted.data() == static_cast<long>(record.number))
        unmoved.fetch_add(1, std::memory_order_relaxed);
      return std::string_view(record.text, sizeof record.text);
    };
    unsigned most = 0;
    std::size_t in_first_step = 0;
    // Whoever calls may have done all of it before another thread is there.
    for (int turn = 0; turn < (threads == 1 ? 1 : 200) && (most == 0 || in_first_step == 0);
         ++turn) {
      sorted = records;
      unmoved = 0;
      sort(sorted, key, {.threads = threads});
      EXPECT_TRUE(std::ranges::is_sorted(sorted, {}, key));
      most = callers.expect_good();
      if (unmoved > records.size() / 4) in_first_step = unmoved;
    }
    EXPECT_EQ(most > 0, threads > 1);
    EXPECT_EQ(in_first_step > 0, threads > 1);
  }
}

// More inputs than a thread's piece of 512 KiB has 2 KiB of each: pieces are longer then, and all
// threads merge.
TEST(SortThread, OfMergesOfHundredsOfInputs) {
  auto random = test_random();
  constexpr std::size_t kInputs = 300, kRecords = 2000;
  std::vector<KeyAndValue> records = random_records(kInputs * kRecords, random);
  std::vector<MergeInput> inputs;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const std::span<KeyAndValue> input = std::span(records).subspan(i * kRecords, kRecords);
    std::ranges::stable_sort(input, {}, &KeyAndValue::key);
    inputs.push_back({reinterpret_cast<const std::byte*>(input.data()), kRecords});
  }
  std::vector<KeyAndValue> expected = records, merged(records.size());
  std::ranges::stable_sort(expected, {}, &KeyAndValue::key);
  for (const unsigned threads : {2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    Callers callers(threads);
    const detail::ComparatorRules<KeyAndValue, Less> rules(Less{&callers});
    const MergeRoom room{.block_bytes = std::size_t{256} << 10,
                         .working_bytes = std::size_t{64} << 20,
                         .threads = threads,
                         .window_blocks = 2};
    using Parallel = detail::ParallelMerge<detail::ComparatorRules<KeyAndValue, Less>>;
    EXPECT_TRUE(Parallel::suits(rules, kInputs, room));
    const detail::OrderBy<detail::ComparatorRules<KeyAndValue, Less>> order(rules);
    PlaceOutput out(reinterpret_cast<std::byte*>(merged.data()));
    const std::unique_ptr<RecordMerge> merge = order.merge(inputs, room);
    merge->start();
    merge->merge(records.size(), out);
    EXPECT_EQ(std::memcmp(merged.data(), expected.data(), merged.size() * sizeof(KeyAndValue)), 0);
    EXPECT_GT(callers.expect_good(), 0U);
  }
}

// Pieces hold 2 KiB of each input. As many threads merge as have memory for two each, and one more,
// and such a piece in what is read ahead: fewer before none, above 256 inputs as well.
TEST(SortThread, MergesAreForAsManyAsHavePieces) {
  auto random = test_random();
  struct ByValue {
    bool operator()(const KeyAndValue& a, const KeyAndValue& b) const noexcept {
      return a.value < b.value;
    }
  };
  using Rules = detail::ComparatorRules<KeyAndValue, ByValue>;
  using Merge = detail::ParallelMerge<Rules>;
  const Rules rules;
  constexpr std::size_t kRecords = 20, kLeast = std::size_t{2} << 10, kBlock = 1 << 20;
  for (const std::size_t count : {4, 300}) {
    const std::vector<KeyAndValue> expected = random_records(count * kRecords, random);
    std::vector<KeyAndValue> records;
    std::vector<MergeInput> inputs;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = i; k < expected.size(); k += count) records.push_back(expected[k]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back({reinterpret_cast<const std::byte*>(&records[i * kRecords]), kRecords});
    }
    const auto threads_of = [&](unsigned threads, std::size_t working_bytes, std::size_t block) {
      const MergeRoom room{.block_bytes = block,
                           .working_bytes = working_bytes,
                           .threads = threads,
                           .window_blocks = 2};
      if (!Merge::suits(rules, count, room)) return 1U;
      ActivityLog log;
      {
        const Working working(&log, "caller");
        std::vector<KeyAndValue> merged(records.size());
        PlaceOutput out(reinterpret_cast<std::byte*>(merged.data()));
        Merge merge(rules, inputs, room);
        merge.start();
        merge.merge(records.size(), out);
        EXPECT_TRUE(same_bytes(merged, expected));
      }
      return static_cast<unsigned>(log.tracks().size());
    };
    const std::size_t of_piece =
        count * (kLeast + sizeof(MergeInput) + detail::LoserTree<Rules>::bytes_of_input());
    for (const unsigned threads : kManyThreads) {
      if (kShadowMemory && count > 4 && threads > 16) continue;
      SCOPED_TRACE(std::to_string(count) + " inputs, " + std::to_string(threads) + " threads");
      const auto memory_for = [&](unsigned some) { return (2 * some + 1) * of_piece; };
      EXPECT_EQ(threads_of(threads, memory_for(threads), kBlock), threads);
      EXPECT_EQ(threads_of(threads, memory_for(threads) - 1, kBlock), std::max(threads, 2U) - 1);
      const unsigned some = threads - threads / 4;
      EXPECT_EQ(threads_of(threads, memory_for(some), kBlock), some);
      EXPECT_EQ(threads_of(threads, memory_for(threads), (some + 1) * kLeast), some);
    }
  }
}

// A function that sorts has its own number again behind that.
TEST(SortThread, OfSortsWithinFunctions) {
  auto random = test_random();
  std::vector<KeyAndValue> records = random_records(std::size_t{1} << 21, random);
  const std::vector<KeyAndValue> inner_records = records;
  Callers callers(7);
  std::atomic<int> sorts{0};
  const auto key = [&](const KeyAndValue& record) {
    callers.call(record.value);
    // By a thread whose number others would not have by chance.
    if (sort_thread() > 1 && sorts == 0 && sorts++ == 0) {
      std::vector<KeyAndValue> some = inner_records;
      const unsigned before = sort_thread();
      sort(std::span(some), &KeyAndValue::key, {.threads = 2});
      EXPECT_EQ(sort_thread(), before);
    }
    return record.key;
  };
  // Few threads may have done all of it before a third one is there.
  for (int turn = 0; turn < 200 && sorts == 0; ++turn) {
    records = inner_records;
    sort(std::span(records), key, {.threads = 7});
    callers.expect_good();
  }
  EXPECT_GT(sorts, 0);
}

}}  // namespace vortex::test::sort_thread_test

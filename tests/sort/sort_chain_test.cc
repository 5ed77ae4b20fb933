// Sorts that read each other under one budget of memory, with the shares that they get by default.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/sort/sort_cases.h"
#include "tests/support/child_peak.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/c.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/sorter.h"

namespace vortex::test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBudget = 8 * kMiB;

SortResources resources_in(const TemporaryFolder& folder,
                           const std::shared_ptr<MemoryBudget>& budget, unsigned threads) {
  SortResources resources;
  resources.memory_bytes = budget->bytes();
  resources.budget = budget;
  resources.folders = {folder.path().string()};
  resources.threads = threads;
  return resources;
}

std::vector<std::uint64_t> random_numbers(std::size_t count) {
  auto random = test_random();
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t& number : numbers) number = random();
  return numbers;
}

// Another order each time: odd, so that no two numbers become one.
constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;

std::vector<std::uint64_t> sorted_after(std::vector<std::uint64_t> numbers, unsigned steps) {
  for (std::uint64_t& number : numbers) {
    for (unsigned i = 1; i < steps; ++i) number *= kFactor;
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Each sorter reads the one before. Numbers in runs, most of the memory, and little of it.
constexpr std::size_t kCounts[] = {1'500'000, 850'000, 950'000, 50'000};

void expect_chain(unsigned sorters, std::size_t count, unsigned threads, PrefetchKind prefetch) {
  SCOPED_TRACE(std::to_string(sorters) + " sorters of " + std::to_string(count) + " numbers with " +
               std::to_string(threads) + " threads, " + std::string(prefetch_kind_name(prefetch)));
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  const std::vector<std::uint64_t> numbers = random_numbers(count);
  SortResources resources = resources_in(folder, budget, threads);
  resources.prefetch = prefetch;
  {
    std::vector<std::unique_ptr<Sorter<std::uint64_t>>> chain;
    for (unsigned i = 0; i < sorters; ++i) {
      chain.push_back(std::make_unique<Sorter<std::uint64_t>>(resources));
      if (i == 0) {
        chain.back()->push(numbers);
      } else {
        for (const std::uint64_t number : *chain[i - 1]) chain[i]->push(number * kFactor);
      }
      chain[i]->sort();
    }
    const auto expected = sorted_after(numbers, sorters);
    EXPECT_TRUE(
        std::equal(chain.back()->begin(), chain.back()->end(), expected.begin(), expected.end()));
  }
  EXPECT_EQ(budget->free_bytes(), kBudget);
}

TEST(SortChain, OfSortersOnOneThreadEnds) {
  unsigned threads = 0;
  for (const std::size_t count : kCounts) {
    expect_chain(threads % 2 + 2, count, threads % 3 + 1, PrefetchKind::kOptimal);
    ++threads;
  }
  if (kShadowMemory) return;  // and so slow
  expect_chain(3, 900'000, 7, PrefetchKind::kOptimal);
  expect_chain(3, 3'000'000, 2, PrefetchKind::kOptimal);
}

// What a policy has fetched is dropped, whatever it believes.
TEST(SortChain, EndsWithEveryOrderOfPrefetching) {
  for (const PrefetchKind prefetch : kAllPrefetchKinds) {
    expect_chain(2, 1'200'000, 2, prefetch);
  }
}

// The one that is read may be in its last merge, or in memory, and has read a part or nothing.
TEST(SortChain, ASortThatIsReadGivesBackWhatIsAskedFor) {
  const TemporaryFolder folder(fast_folder());
  for (const std::size_t count : {std::size_t{1'500'000}, std::size_t{850'000}}) {
    for (const std::size_t read_before : {std::size_t{0}, count / 3, count}) {
      const auto budget = MemoryBudget::make(kBudget);
      auto expected = random_numbers(count);
      Sorter<std::uint64_t> sorter(resources_in(folder, budget, 2));
      sorter.push(expected);
      sorter.sort();
      std::sort(expected.begin(), expected.end());
      auto at = sorter.begin();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < read_before; ++i, ++at) wrong += *at != expected[i];
      const MemoryShare most = budget->take(kBudget / 2, kBudget);
      EXPECT_GE(most.bytes(), kBudget / 2);
      for (std::size_t i = read_before; i < count; ++i, ++at) wrong += *at != expected[i];
      EXPECT_EQ(wrong, 0u);
      EXPECT_EQ(at, sorter.end());
    }
  }
}

// While the first is read by one thread, others make sorters for what it gives.
TEST(SortChain, OfSeveralThreadsEnds) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  const auto numbers = random_numbers(1'300'000);
  std::atomic<unsigned> sorted{0};
  const auto run = [&](unsigned number) {
    Sorter<std::uint64_t> first(resources_in(folder, budget, 2));
    first.push(numbers);
    first.sort();
    std::optional<Sorter<std::uint64_t>> second;
    std::thread consumer([&] {
      second.emplace(resources_in(folder, budget, 1 + number));
      for (const std::uint64_t value : first) second->push(value * kFactor);
      second->sort();
    });
    consumer.join();
    const auto expected = sorted_after(numbers, 2);
    sorted +=
        std::equal(second->begin(), second->end(), expected.begin(), expected.end()) ? 1u : 0u;
  };
  std::thread others([&] { run(1); });
  run(0);
  others.join();
  EXPECT_EQ(sorted, 2u);
  EXPECT_EQ(budget->free_bytes(), kBudget);
}

TEST(SortChain, WhoWaitsForItselfIsTold) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  Sorter<std::uint64_t> first(resources_in(folder, budget, 2));
  first.push(1);
  const auto make_another = [&] { Sorter<std::uint64_t>(resources_in(folder, budget, 1)); };
  std::string text;
  EXPECT_EQ(error_of(make_another, &text), EDEADLK);
  EXPECT_NE(text.find("hold 8 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("sort()"), std::string::npos) << text;
  EXPECT_EQ(error_of([&] { LineSorter({}, resources_in(folder, budget, 1)); }), EDEADLK);
  EXPECT_EQ(budget->waiting(), 0u);
  first.sort();
  EXPECT_EQ(error_of(make_another), 0);
  EXPECT_EQ(*first.begin(), 1u);
}

TEST(SortChain, TwoThreadsThatWaitForEachOtherAreTold) {
  const auto budget = MemoryBudget::make(100);
  std::atomic<unsigned> held{0};
  std::atomic<unsigned> told{0};
  const auto take_twice = [&] {
    std::optional<MemoryShare> first = budget->take(50, 50);
    ++held;
    while (held < 2) std::this_thread::yield();
    try {
      const MemoryShare second = budget->take(10, 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), EDEADLK);
      ++told;
    }
  };
  std::thread other(take_twice);
  take_twice();
  other.join();
  EXPECT_EQ(told, 1u);
  EXPECT_EQ(budget->free_bytes(), 100u);
}

// A share that another thread has adopted may come back.
TEST(SortChain, WhoWaitsForAnotherThreadIsServed) {
  const auto budget = MemoryBudget::make(100);
  MemoryShare share = budget->take(100, 100);
  EXPECT_EQ(error_of([&] { budget->take(1, 1); }), EDEADLK);
  std::atomic<bool> adopted{false};
  std::thread other([&] {
    share.adopt();
    adopted = true;
    while (budget->waiting() == 0) std::this_thread::yield();
    share.shrink_to(0);
  });
  while (!adopted) std::this_thread::yield();
  EXPECT_EQ(error_of([&] { budget->take(1, 1); }), 0);
  other.join();
  EXPECT_EQ(budget->free_bytes(), 100u);
}

std::string line_of(std::uint64_t number) {
  return std::to_string(number) + std::string(number % 60, 'x');
}

void expect_chain_of_lines(std::size_t count, unsigned threads) {
  SCOPED_TRACE(std::to_string(count) + " lines with " + std::to_string(threads) + " threads");
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  std::vector<std::string> expected;
  for (const std::uint64_t number : random_numbers(count)) expected.push_back(line_of(number));
  LineSorter first({}, resources_in(folder, budget, threads));
  for (const std::string& line : expected) first.push(line);
  std::string_view line;
  ASSERT_TRUE(first.next(line));  // valid until the next one is asked for, whatever happens
  LineSorter second({.descending = true}, resources_in(folder, budget, threads));
  do second.push(line);
  while (first.next(line));
  ASSERT_TRUE(second.next(line));
  LineSorter third({}, resources_in(folder, budget, threads));
  do third.push(line);
  while (second.next(line));
  std::sort(expected.begin(), expected.end());
  std::size_t wrong = 0;
  for (const std::string& wanted : expected) wrong += !third.next(line) || line != wanted;
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(third.next(line));
}

// Nothing is left of it but the record that was handed out last.
TEST(SortChain, LinesThatHaveBeenReadGiveTheirMemoryBack) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  std::string last;
  LineSorter first({}, resources_in(folder, budget, 1));
  for (int i = 0; i < 70'000; ++i) {
    const std::string pushed = line_of(static_cast<std::uint64_t>(i) * kFactor);
    last = std::max(last, pushed);
    first.push(pushed);
  }
  std::string_view line;
  for (int i = 0; i < 70'000; ++i) ASSERT_TRUE(first.next(line));
  const MemoryShare most = budget->take(kBudget / 2, kBudget);
  EXPECT_EQ(line, last);
  EXPECT_FALSE(first.next(line));
}

// In memory, nearly all of it or little, and in runs.
TEST(SortChain, OfLinesEnds) {
  for (const std::size_t count : {1'000u, 40'000u, 60'000u, 80'000u, 200'000u}) {
    expect_chain_of_lines(count, 1);
    expect_chain_of_lines(count, 2);
  }
}

// Sorts of files that begin while a sorter is read, and the other way round.
TEST(SortChain, OfFilesAndSortersEnds) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  auto expected = random_numbers(1'200'000);
  {
    FileWriter<std::uint64_t> file(folder.file("in"));
    for (std::size_t i = 0; i < expected.size(); i += 1000) {
      std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(i), 1000, file.data() + i);
    }
    file.finish(expected.size());
  }
  Sorter<std::uint64_t> sorter(resources_in(folder, budget, 2));
  sorter.push(expected);
  sorter.sort();
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(*sorter.begin(), expected.front());
  ExternalSortOptions files;
  files.inputs = {folder.file("in")};
  files.output = folder.file("out");
  files.resources = resources_in(folder, budget, 2);
  EXPECT_EQ(external_sort<std::uint64_t>(files).records_out, expected.size());
  const FileReader<std::uint64_t> out(folder.file("out"));
  EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin(), expected.end()));
  LineSortOptions lines;
  lines.inputs = {folder.file("in")};
  lines.output = folder.file("lines");
  lines.resources = resources_in(folder, budget, 2);
  EXPECT_GT(sort_lines(lines).records_out, 0u);
  EXPECT_TRUE(std::equal(sorter.begin(), sorter.end(), expected.begin(), expected.end()));
}

// The blocks of the writer are not lent by the one merge of all runs.
TEST(SortChain, OfLinesInLargeBlocksWritesItsOutput) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(32 * kMiB);
  std::vector<std::string> expected;
  {
    std::ofstream file(folder.file("in"));
    for (const std::uint64_t number : random_numbers(600'000)) {
      expected.push_back(std::to_string(number) + std::string(80, 'x'));
      file << expected.back() << '\n';
    }
  }
  std::sort(expected.begin(), expected.end());
  LineSortOptions lines;
  lines.inputs = {folder.file("in")};
  lines.output = folder.file("out");
  lines.resources = resources_in(folder, budget, 1);
  lines.resources.block_bytes = kMiB;
  const SortReport report = sort_lines(lines);
  EXPECT_GT(report.runs, 1u);
  std::ifstream out(folder.file("out"));
  std::string line;
  for (const std::string& wanted : expected) {
    ASSERT_TRUE(std::getline(out, line));
    ASSERT_EQ(line, wanted);
  }
  EXPECT_FALSE(std::getline(out, line));
}

TEST(SortChain, OfTheCInterfaceEnds) {
  const TemporaryFolder folder(fast_folder());
  const std::string path = folder.path().string();
  const char* const folders[] = {path.c_str()};
  vtx_budget* budget = nullptr;
  ASSERT_EQ(vtx_budget_create(kBudget, &budget), 0);
  vtx_sort_resources resources{};
  resources.memory_bytes = kBudget;
  resources.folders = folders;
  resources.folder_count = 1;
  resources.budget = budget;
  vtx_key key{};
  key.length = 8;
  key.kind = VTX_KEY_UNSIGNED;
  vtx_record_format format{};
  format.record_bytes = 8;
  format.keys = &key;
  format.key_count = 1;

  auto expected = random_numbers(1'200'000);
  vtx_sorter* first = nullptr;
  vtx_sorter* second = nullptr;
  vtx_input* sorted = nullptr;
  ASSERT_EQ(vtx_sorter_create(&format, &resources, &first), 0);
  ASSERT_EQ(vtx_sorter_push(first, expected.data(), expected.size()), 0);
  EXPECT_EQ(vtx_sorter_create(&format, &resources, &second), -EDEADLK);
  ASSERT_EQ(vtx_sorter_sort(first, &sorted), 0);
  ASSERT_EQ(vtx_sorter_create(&format, &resources, &second), 0);
  ASSERT_EQ(vtx_sorter_push(second, vtx_input_data(sorted), expected.size()), 0);
  ASSERT_EQ(vtx_sorter_sort(second, &sorted), 0);
  std::sort(expected.begin(), expected.end());
  const auto* const data = static_cast<const std::uint64_t*>(vtx_input_data(sorted));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += data[i] != expected[i];
  EXPECT_EQ(wrong, 0u);
  vtx_sorter_close(second);
  vtx_sorter_close(first);
  EXPECT_EQ(vtx_budget_free_bytes(budget), kBudget);
  vtx_budget_close(budget);
}

TEST(SortChain, TakesTheMemoryOfItsBudget) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
  constexpr std::uint64_t kMuch = 24 * kMiB;
  const TemporaryFolder folder(fast_folder());
  for (const std::size_t count : {std::size_t{2'600'000}, std::size_t{4'500'000}}) {
    const std::uint64_t peak = peak_beyond_start([&] {
      const auto budget = MemoryBudget::make(kMuch);
      std::vector<std::unique_ptr<Sorter<std::uint64_t>>> chain;
      std::mt19937_64 random(count);
      for (int i = 0; i < 3; ++i) {
        chain.push_back(std::make_unique<Sorter<std::uint64_t>>(resources_in(folder, budget, 2)));
        if (i == 0) {
          for (std::size_t n = 0; n < count; ++n) chain[0]->push(random());
        } else {
          for (const std::uint64_t number : *chain[i - 1]) chain[i]->push(number * kFactor);
        }
        chain[i]->sort();
      }
      std::uint64_t last = 0;
      for (const std::uint64_t number : *chain.back()) {
        if (number < last) _exit(1);
        last = number;
      }
    });
    EXPECT_LE(peak, kMuch + 4 * kMiB) << peak / kMiB << " MiB";
    EXPECT_GE(peak, kMuch / 2);
  }
  const std::uint64_t peak = peak_beyond_start([&] {
    const auto budget = MemoryBudget::make(kMuch);
    LineSorter first({}, resources_in(folder, budget, 2));
    std::mt19937_64 random(1);
    for (int i = 0; i < 450'000; ++i) first.push(line_of(random()));
    std::string_view line;
    if (!first.next(line)) _exit(1);
    LineSorter second({.descending = true}, resources_in(folder, budget, 2));
    do second.push(line);
    while (first.next(line));
    while (second.next(line)) {
    }
  });
  EXPECT_LE(peak, kMuch + 4 * kMiB) << peak / kMiB << " MiB";
}

}  // namespace

}  // namespace vortex::test

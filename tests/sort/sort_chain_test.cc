// Sorts that read each other under one budget of memory, with the shares that they get by default.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/sort/pushed_sorts.h"
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

namespace vortex::test::sort_chain_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBudget = 8 * kMiB;

template <typename Kind>
class SortChainOf : public ::testing::Test {
 protected:
  using Item = typename Kind::Item;

  static constexpr std::size_t items_of(double budgets) {
    return static_cast<std::size_t>(budgets * Kind::kItemsOfBudget);
  }

  // Each sorter reads the one before, in another order than that.
  void expect_chain(unsigned sorters, std::size_t count, unsigned threads,
                    PrefetchKind prefetch = PrefetchKind::kOptimal) {
    SCOPED_TRACE(std::to_string(sorters) + " sorters of " + std::to_string(count) + " with " +
                 std::to_string(threads) + " threads, " +
                 std::string(prefetch_kind_name(prefetch)));
    std::vector<Item> expected = random_items<Kind>(count);
    SortResources resources = resources_in(folder, budget, threads);
    resources.prefetch = prefetch;
    {
      std::vector<std::unique_ptr<Kind>> chain;
      for (unsigned i = 0; i < sorters; ++i) {
        chain.push_back(std::make_unique<Kind>(resources));
        if (i == 0) {
          for (const Item& item : expected) chain[0]->push(item);
        } else {
          while (const auto item = chain[i - 1]->next()) chain[i]->push(Kind::changed(*item));
          for (Item& item : expected) item = Kind::changed(item);
        }
        chain[i]->sort();
      }
      put_in_order(expected);
      EXPECT_EQ(wrong_ones(*chain.back(), expected), 0u);
      EXPECT_FALSE(chain.back()->next());
    }
    EXPECT_EQ(budget->free_bytes(), kBudget);
  }

  const TemporaryFolder folder{fast_folder()};
  const std::shared_ptr<MemoryBudget> budget = MemoryBudget::make(kBudget);
};
using PushedKinds = ::testing::Types<PushedNumbers, PushedLines>;
TYPED_TEST_SUITE(SortChainOf, PushedKinds, PushedName);

TYPED_TEST(SortChainOf, OneThreadEnds) {
  unsigned turn = 0;
  for (const std::size_t count : TypeParam::kCounts) {
    for (unsigned i = 0; i < TypeParam::kTurns; ++i) this->expect_chain(3, count, turn++ % 2 + 1);
  }
  if (kShadowMemory) return;  // and so slow
  this->expect_chain(3, this->items_of(0.9), 7);
  this->expect_chain(3, this->items_of(3), 2);
}

// What a policy has fetched is dropped, whatever it believes.
TYPED_TEST(SortChainOf, EndsWithEveryOrderOfPrefetching) {
  for (const PrefetchKind prefetch : kAllPrefetchKinds) {
    this->expect_chain(2, this->items_of(1.2), 2, prefetch);
  }
}

// The one that is read may be in its last merge, or in memory, and has read a part or nothing.
TYPED_TEST(SortChainOf, ASortThatIsReadGivesBackWhatIsAskedFor) {
  for (const std::size_t count : {this->items_of(1.5), this->items_of(0.85)}) {
    for (const std::size_t read_before : {std::size_t{0}, count / 3, count}) {
      SCOPED_TRACE(read_before);
      auto expected = random_items<TypeParam>(count);
      TypeParam sorter(resources_in(this->folder, this->budget, 2));
      for (const auto& item : expected) sorter.push(item);
      sorter.sort();
      put_in_order(expected);
      EXPECT_EQ(wrong_ones(sorter, expected, 0, read_before), 0u);
      const MemoryShare most = this->budget->take(kBudget / 2, kBudget);
      EXPECT_GE(most.bytes(), kBudget / 2);
      EXPECT_EQ(wrong_ones(sorter, expected, read_before), 0u);
      EXPECT_FALSE(sorter.next());
    }
  }
}

TYPED_TEST(SortChainOf, TakesTheMemoryOfItsBudget) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
  constexpr std::uint64_t kMuch = 24 * kMiB;
  for (const double budgets : {2.6, 4.5}) {
    const std::uint64_t peak = peak_beyond_start([&] {
      const auto much = MemoryBudget::make(kMuch);
      std::vector<std::unique_ptr<TypeParam>> chain;
      std::mt19937_64 random(this->items_of(budgets));
      for (int i = 0; i < 3; ++i) {
        chain.push_back(std::make_unique<TypeParam>(resources_in(this->folder, much, 2)));
        for (std::size_t n = this->items_of(budgets); i == 0 && n > 0; --n) {
          chain[0]->push(TypeParam::item_of(random()));
        }
        while (i > 0) {
          const auto item = chain[static_cast<std::size_t>(i) - 1]->next();
          if (!item) break;
          chain.back()->push(TypeParam::changed(*item));
        }
        chain.back()->sort();
      }
      typename TypeParam::Item last{};
      while (const auto item = chain.back()->next()) {
        if (*item < last) _exit(1);
        last = *item;
      }
    });
    EXPECT_LE(peak, kMuch + 4 * kMiB) << peak / kMiB << " MiB";
    EXPECT_GE(peak, kMuch / 2);
  }
}

// While the first is read by one thread, others make sorters for what it gives.
TEST(SortChain, OfSeveralThreadsEnds) {
  const auto items = random_numbers(1'300'000);
  auto expected = items;
  for (auto& item : expected) item = PushedNumbers::changed(item);
  put_in_order(expected);
  const TemporaryFolder folder{fast_folder()};
  const auto budget = MemoryBudget::make(kBudget);
  std::atomic<unsigned> sorted{0};
  const auto run = [&](unsigned number) {
    PushedNumbers first(resources_in(folder, budget, 2));
    for (const auto& item : items) first.push(item);
    first.sort();
    std::optional<PushedNumbers> second;
    std::thread consumer([&] {
      second.emplace(resources_in(folder, budget, 1 + number));
      while (const auto item = first.next()) second->push(PushedNumbers::changed(*item));
      second->sort();
    });
    consumer.join();
    sorted += wrong_ones(*second, expected) == 0 ? 1u : 0u;
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
  EXPECT_TRUE(fails(make_another, EDEADLK, {"hold 8 MiB", "sort()"}));
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
    const int error = error_of([&] { budget->take(10, 10); });
    EXPECT_TRUE(error == 0 || error == EDEADLK) << error;
    told += error != 0;
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

// Nothing is left of it but the record that was handed out last.
TEST(SortChain, LinesThatHaveBeenReadGiveTheirMemoryBack) {
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(kBudget);
  std::string last;
  LineSorter first({}, resources_in(folder, budget, 1));
  for (int i = 0; i < 70'000; ++i) {
    const std::string pushed =
        PushedLines::item_of(PushedNumbers::changed(static_cast<std::uint64_t>(i)));
    last = std::max(last, pushed);
    first.push(pushed);
  }
  std::string_view line;
  for (int i = 0; i < 70'000; ++i) ASSERT_TRUE(first.next(line));
  const MemoryShare most = budget->take(kBudget / 2, kBudget);
  EXPECT_EQ(line, last);
  EXPECT_FALSE(first.next(line));
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
  put_in_order(expected);
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
  put_in_order(expected);
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
  put_in_order(expected);
  const auto* const data = static_cast<const std::uint64_t*>(vtx_input_data(sorted));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += data[i] != expected[i];
  EXPECT_EQ(wrong, 0u);
  vtx_sorter_close(second);
  vtx_sorter_close(first);
  EXPECT_EQ(vtx_budget_free_bytes(budget), kBudget);
  vtx_budget_close(budget);
}

}  // namespace

}  // namespace vortex::test::sort_chain_test

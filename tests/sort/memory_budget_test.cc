// Sorts that share memory.
#include "vortex/memory_budget.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/sort/pushed_sorts.h"
#include "tests/support/child_peak.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/file_writer.h"
#include "vortex/line_sort.h"
#include "vortex/os/map_budget.h"
#include "vortex/sorter.h"

namespace vortex::test::memory_budget_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

void await_waiting(const MemoryBudget& budget, std::size_t calls) {
  while (budget.waiting() != calls) std::this_thread::yield();
}

TEST(MemoryBudget, SharesComeAndGo) {
  const auto budget = MemoryBudget::make(100);
  MemoryShare first = budget->take(10, 70);
  EXPECT_EQ(first.bytes(), 70u);
  {
    const MemoryShare second = budget->take(10, 70);
    EXPECT_EQ(second.bytes(), 30u);
    EXPECT_EQ(budget->free_bytes(), 0u);
    EXPECT_EQ(first.grow_to(100), 0u);
  }
  EXPECT_EQ(budget->free_bytes(), 30u);
  EXPECT_EQ(first.grow_to(90), 20u);
  EXPECT_EQ(first.grow_to(50), 0u);
  first.shrink_to(95);
  EXPECT_EQ(first.bytes(), 90u);
  first.shrink_to(15);
  EXPECT_EQ(budget->free_bytes(), 85u);
  MemoryShare moved = std::move(first);
  EXPECT_EQ(first.bytes(), 0u);
  first = std::move(moved);
  EXPECT_EQ(budget->free_bytes(), 85u);
  first = MemoryShare();
  EXPECT_EQ(budget->free_bytes(), 100u);
  EXPECT_EQ(first.grow_to(1), 0u);
}

TEST(MemoryBudget, RefusesWhatItNeverHas) {
  const auto budget = MemoryBudget::make(4 * kMiB);
  EXPECT_TRUE(fails([&] { budget->take(5 * kMiB, 8 * kMiB); }, ENOMEM, {"5 MiB", "4 MiB"}));
  EXPECT_EQ(budget->waiting(), 0u);
}

TEST(MemoryBudget, AStopEndsTheWait) {
  const auto budget = MemoryBudget::make(100);
  const MemoryShare all = budget->take(100, 100);
  std::stop_source stop;
  std::thread other(
      [&] { EXPECT_TRUE(fails([&] { budget->take(1, 1, stop.get_token()); }, ECANCELED)); });
  await_waiting(*budget, 1);
  stop.request_stop();
  other.join();
  EXPECT_EQ(budget->waiting(), 0u);
}

// A small request does not overtake a large one, and neither does a share that would grow.
TEST(MemoryBudget, WhoeverComesFirstGoesFirst) {
  const auto budget = MemoryBudget::make(100);
  MemoryShare held = budget->take(50, 50);
  MemoryShare large, small;
  std::thread first([&] { large = budget->take(60, 60); });
  await_waiting(*budget, 1);
  std::atomic<bool> overtaken{false};
  std::thread second([&] {
    small = budget->take(10, 10);
    overtaken = true;
  });
  while (budget->waiting() != 2 && !overtaken) std::this_thread::yield();
  EXPECT_FALSE(overtaken);
  EXPECT_EQ(held.grow_to(60), 0u);
  EXPECT_EQ(budget->free_bytes(), 50u);
  held.shrink_to(30);
  first.join();
  second.join();
  EXPECT_EQ(large.bytes() + small.bytes() + held.bytes(), 100u);
  EXPECT_EQ(budget->waiting(), 0u);
}

// Gives what is wanted, once it is asked.
class GivingLender final : public MemoryLender {
 public:
  explicit GivingLender(MemoryShare& share) noexcept : share_(share) {}
  bool give_back(std::uint64_t wanted) noexcept override {
    share_.shrink_to(share_.bytes() - wanted);
    return false;
  }

 private:
  MemoryShare& share_;
};

// Whoever waits has looked for lenders a moment before one begins.
TEST(MemoryBudget, ALenderIsAskedWhenItBegins) {
  auto random = test_random();
  const auto budget = MemoryBudget::make(100);
  std::atomic<int> begun{0}, ended{0};
  constexpr int kRounds = 50000;
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (begun != round) std::this_thread::yield();
      budget->take(50, 50);
      ended = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    MemoryShare all = budget->take(100, 100);
    GivingLender lender(all);
    begun = round;
    while (budget->waiting() == 0) std::this_thread::yield();
    for (std::uint64_t i = random() % 8192; i > 0; --i) {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // takes a moment
    }
    all.lend_by(lender);
    while (ended != round) std::this_thread::yield();
    all.end_lending();
  }
  other.join();
}

TEST(MemoryBudget, NeverGivesMoreThanItHas) {
  constexpr std::uint64_t kBytes = 1000;
  const auto budget = MemoryBudget::make(kBytes);
  std::atomic<std::uint64_t> held{0};
  const auto seed = test_random()();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(seed + i);
      for (int turn = 0; turn < 300; ++turn) {
        const std::uint64_t least = 1 + random() % kBytes;
        const std::uint64_t most = least + random() % kBytes;
        MemoryShare share = budget->take(least, most);
        ASSERT_GE(share.bytes(), least);
        ASSERT_LE(share.bytes(), most);
        ASSERT_LE(held += share.bytes(), kBytes);
        const std::uint64_t more = share.grow_to(kBytes);
        ASSERT_LE(held += more, kBytes);
        held -= share.bytes();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->free_bytes(), kBytes);
}

// Pushes `count` items that no array holds, and checks their order and their sum.
template <typename Kind>
void sort_items(SortResources resources, std::size_t count, std::uint64_t seed) {
  const auto sum_of = [](const auto& item) {
    return std::hash<std::decay_t<decltype(item)>>()(item);
  };
  Kind sorter(resources);
  std::mt19937_64 random(seed);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const typename Kind::Item item = Kind::item_of(random());
    sum += sum_of(item);
    sorter.push(item);
  }
  sorter.sort();
  typename Kind::Item last{};
  while (const auto item = sorter.next()) {
    if (*item < last) throw Error(EINVAL, "not in order");
    last = *item;
    sum -= sum_of(last);
  }
  if (sum != 0) throw Error(EINVAL, "not the same items");
}

template <typename Kind>
class MemoryBudgetOf : public ::testing::Test {
 protected:
  const TemporaryFolder folder;
};
using PushedKinds = ::testing::Types<PushedNumbers, PushedLines>;
TYPED_TEST_SUITE(MemoryBudgetOf, PushedKinds, PushedName);

// Four at once, of which two or three have room.
TYPED_TEST(MemoryBudgetOf, SeveralAtOnce) {
  for (const unsigned threads_of_each : {1u, 2u, 7u}) {
    const auto budget = MemoryBudget::make(24 * kMiB);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_NO_THROW(sort_items<TypeParam>(
            resources_in(this->folder, budget, 12 * kMiB, 8 * kMiB, threads_of_each),
            TypeParam::kItemsOfBudget * (kShadowMemory ? 3 : 4) / 2, i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(budget->free_bytes(), budget->bytes());
  }
}

TYPED_TEST(MemoryBudgetOf, TakesItsShare) {
  const auto budget = MemoryBudget::make(24 * kMiB);
  {
    const TypeParam first(resources_in(this->folder, budget, 16 * kMiB, 0, 1));
    EXPECT_EQ(budget->free_bytes(), 8 * kMiB);
    const TypeParam second(resources_in(this->folder, budget, 16 * kMiB, 0, 1));
    EXPECT_EQ(budget->free_bytes(), 0u);
  }
  EXPECT_EQ(budget->free_bytes(), budget->bytes());
}

TYPED_TEST(MemoryBudgetOf, AFailedSortGivesItsShareBack) {
  for (const unsigned threads : {1u, 2u, 7u}) {
    const auto budget = MemoryBudget::make(8 * kMiB);
    std::stop_source stop;
    SortResources resources = resources_in(this->folder, budget, 8 * kMiB, 0, threads);
    resources.stop = stop.get_token();
    resources.progress = [&](const SortProgress& progress) {
      if (progress.bytes > 9 * kMiB) stop.request_stop();
    };
    EXPECT_TRUE(fails([&] { sort_items<TypeParam>(resources, 3 * TypeParam::kItemsOfBudget, 1); },
                      ECANCELED));
    EXPECT_EQ(budget->free_bytes(), budget->bytes());
  }
}

constexpr std::size_t kNumbers = kShadowMemory ? 1'500'000 : 2'000'000;  // 12 or 16 MB

TEST(MemoryBudgetOfSorts, TheResidentMemoryIsThatOfTheBudget) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
  constexpr std::uint64_t kBudget = 56 * kMiB;
  const TemporaryFolder folder;
  const std::uint64_t peak_bytes = peak_beyond_start([&] {
    const auto budget = MemoryBudget::make(kBudget);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        // Three at a time: of 24, 24 and 8 MiB.
        sort_items<PushedNumbers>(resources_in(folder, budget, 24 * kMiB, 8 * kMiB, 2), 4'000'000,
                                  i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  RecordProperty("peak_MiB", static_cast<int>(peak_bytes / kMiB));
  // Each sort leaves a thirty-second part to the program, which is larger.
  EXPECT_LE(peak_bytes, kBudget + 4 * kMiB) << peak_bytes / kMiB << " MiB";
  EXPECT_GE(peak_bytes, kBudget / 2);
}

// The next thread gets that number, if nobody takes it first. False: the system does not let us.
bool give_out_next(pid_t thread) {
  std::ofstream last("/proc/sys/kernel/ns_last_pid");
  return static_cast<bool>(last << thread - 1 << std::flush);
}

// Numbers of threads are given out again: who pushes is not who pushed before.
TEST(MemoryBudgetOfSorts, AShareGoesToAThreadWithTheNumberOfAnother) {
  const TemporaryFolder folder;
  const auto budget = MemoryBudget::make(8 * kMiB);
  const auto resources = [&] { return resources_in(folder, budget, 8 * kMiB, 8 * kMiB, 1); };
  for (int round = 0; round < 50; ++round) {
    std::unique_ptr<Sorter<std::uint64_t>> first;
    pid_t number = 0;
    std::thread([&] {
      first = std::make_unique<Sorter<std::uint64_t>>(resources());
      for (std::uint64_t i = 0; i < 100'000; ++i) first->push(i);
      number = gettid();
    }).join();
    if (!give_out_next(number)) GTEST_SKIP() << "this system does not say which number comes next";
    int error = -1;
    std::thread([&] {
      if (gettid() != number) return;
      for (std::uint64_t i = 0; i < 100'000; ++i) first->push(i);
      error = error_of([&] { Sorter<std::uint64_t> second(resources()); });
    }).join();
    if (error == -1) continue;
    EXPECT_EQ(error, EDEADLK);
    return;
  }
  GTEST_SKIP() << "others took the numbers of threads that had ended";
}

// The memory that another sort gives back is there for merging.
TEST(MemoryBudgetOfSorts, AShareGrowsWhenAnotherEnds) {
  const TemporaryFolder folder;
  for (const unsigned threads : {1u, 2u, 7u}) {
    const auto budget = MemoryBudget::make(32 * kMiB);
    MemoryShare other = budget->take(24 * kMiB, 24 * kMiB);
    Sorter<std::uint64_t> sorter(resources_in(folder, budget, 20 * kMiB, 4 * kMiB, threads));
    EXPECT_EQ(budget->free_bytes(), 0u);
    const std::size_t blocks = sorter.plan().pool_blocks;
    auto expected = random_numbers(kNumbers);
    sorter.push(expected);
    EXPECT_EQ(sorter.plan().pool_blocks, blocks);
    other.shrink_to(0);
    sorter.sort();
    EXPECT_EQ(budget->free_bytes(), 12 * kMiB);
    EXPECT_GE(sorter.plan().pool_blocks, 2 * blocks);
    put_in_order(expected);
    EXPECT_TRUE(std::equal(sorter.begin(), sorter.end(), expected.begin(), expected.end()));
  }
}

// Lets the process have so much more private memory while it lives.
class LittlePrivateMemory {
 public:
  explicit LittlePrivateMemory(std::uint64_t bytes) {
    getrlimit(RLIMIT_DATA, &before_);
    std::uint64_t pages = 0;
    std::ifstream statm("/proc/self/statm");
    for (int i = 0; i < 6; ++i) statm >> pages;
    const std::uint64_t taken = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const rlimit little{taken + bytes, before_.rlim_max};
    setrlimit(RLIMIT_DATA, &little);
  }
  ~LittlePrivateMemory() { setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_{};
};

// Where the system refuses the larger pool, the sort goes on with the one that it has.
TEST(MemoryBudgetOfSorts, AShareThatCannotGrowStays) {
  const TemporaryFolder folder;
  for (const bool maps : {true, false}) {
    SCOPED_TRACE(maps ? "maps" : "private memory");
    const auto budget = MemoryBudget::make(520 * kMiB);
    MemoryShare other = budget->take(512 * kMiB, 512 * kMiB);
    Sorter<std::uint64_t> sorter(resources_in(folder, budget, 400 * kMiB, 4 * kMiB, 2));
    const std::size_t blocks = sorter.plan().pool_blocks;
    auto expected = random_numbers(kNumbers);
    sorter.push(expected);
    other.shrink_to(0);
    {
      std::optional<MapBudget> all_maps;
      std::optional<LittlePrivateMemory> little;
      maps ? void(all_maps.emplace(MapBudget::available(), "a test"))
           : void(little.emplace(200 * kMiB));
      sorter.sort();
    }
    EXPECT_EQ(sorter.plan().pool_blocks, blocks);
    EXPECT_EQ(budget->free_bytes(), 512 * kMiB);
    put_in_order(expected);
    EXPECT_TRUE(std::equal(sorter.begin(), sorter.end(), expected.begin(), expected.end()));
  }
}

TEST(MemoryBudgetOfSorts, LittleDataTakesLittle) {
  const TemporaryFolder folder;
  const auto budget = MemoryBudget::make(256 * kMiB);
  auto expected = random_numbers(100'000);
  {
    FileWriter<std::uint64_t> file(folder.file("in"));
    std::copy(expected.begin(), expected.end(), file.data());
    file.finish(expected.size());
  }
  ExternalSortOptions options;
  options.inputs = {folder.file("in")};
  options.output = folder.file("out");
  options.resources = resources_in(folder, budget, 256 * kMiB, 0, 2);
  std::uint64_t least_free = budget->bytes();
  options.resources.progress = [&](const SortProgress&) {
    least_free = std::min(least_free, budget->free_bytes());
  };
  const SortReport report = external_sort<std::uint64_t>(options);
  EXPECT_EQ(report.records_out, expected.size());
  EXPECT_LT(least_free, budget->bytes());
  EXPECT_GE(least_free, 200 * kMiB);
  EXPECT_EQ(budget->free_bytes(), budget->bytes());
}

// As that of records does: the merges, which the small share needed, are not needed any more.
TEST(MemoryBudgetOfSorts, TheShareOfLinesGrowsWhenAnotherEnds) {
  const TemporaryFolder folder;
  std::vector<std::string> lines;
  for (const std::uint64_t number : random_numbers(250'000))
    lines.push_back(std::to_string(number));
  std::vector<std::string> expected = lines;
  put_in_order(expected);
  for (const unsigned threads : {1u, 2u, 7u}) {
    unsigned merges[2] = {};
    for (const bool ends : {false, true}) {
      const auto budget = MemoryBudget::make(32 * kMiB);
      MemoryShare other = budget->take(28 * kMiB, 28 * kMiB);
      SortResources resources = resources_in(folder, budget, 32 * kMiB, 4 * kMiB, threads);
      resources.block_bytes = 256 << 10;
      LineSorter sorter({}, resources);
      for (const std::string& line : lines) sorter.push(line);
      if (ends) other.shrink_to(0);
      std::size_t next = 0;
      for (std::string_view line; sorter.next(line); ++next) {
        if (next == 0) merges[ends] = sorter.counts().merges;
        ASSERT_TRUE(next < expected.size() && line == expected[next]) << next;
      }
      EXPECT_EQ(next, expected.size());
    }
    EXPECT_GT(merges[false], 1u);
    EXPECT_EQ(merges[true], 1u);
  }
}

}  // namespace

}  // namespace vortex::test::memory_budget_test

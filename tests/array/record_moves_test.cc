// Records moved to their places, against a copy of them: permutations of one cycle, of many, and of
// none, of records of all sizes, by one thread and by several. And runs that lie one behind the
// other, in both directions, merged where they are, against std::stable_sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "sort/memory/record_paths.h"
#include "sort/memory/run_merge.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/sort.h"

namespace vortex::record_moves_test { namespace {

enum class Cycles { kRandom, kOne, kPairs, kNone };

std::vector<std::size_t> permutation(Cycles cycles, std::size_t count, std::mt19937_64& random) {
  std::vector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (cycles == Cycles::kNone || count == 0) return places;
  if (cycles == Cycles::kPairs) {
    std::reverse(places.begin(), places.end());
    return places;
  }
  std::shuffle(places.begin(), places.end(), random);
  if (cycles == Cycles::kRandom) return places;
  std::vector<std::size_t> one(count);
  for (std::size_t i = 0; i < count; ++i) one[places[i]] = places[(i + 1) % count];
  return one;
}

TEST(RecordMoves, EachRecordReachesItsPlace) {
  auto random = test::test_random();
  detail::ThreadTeam team(7);
  for (const std::size_t bytes : {1, 7, 13, 64, 100, 5000, 70000}) {
    for (const std::size_t count : {0, 1, 2, 3, 15, 16, 17, 40, 1000}) {
      if (bytes * count > std::size_t{4} << 20) continue;
      for (const Cycles cycles : {Cycles::kRandom, Cycles::kOne, Cycles::kPairs, Cycles::kNone}) {
        std::vector<unsigned char> records(bytes * count);
        for (unsigned char& byte : records) byte = static_cast<unsigned char>(random());
        const auto order = permutation(cycles, count, random);
        std::vector<unsigned char> expected(bytes * count);
        std::vector<Pair64> places(count);
        for (std::size_t i = 0; i < count; ++i) {
          std::copy_n(&records[order[i] * bytes], bytes, &expected[i * bytes]);
          places[i] = {random() % 3, order[i]};  // any keys
        }
        std::vector<std::byte> held(detail::moving_bytes(bytes));
        ASSERT_LE(held.size(), std::max(bytes, std::size_t{64} << 10));
        const auto by_team = std::tuple(records, places);
        detail::move_to_places(records.data(), bytes, places.data(), count, held.data());
        ASSERT_EQ(records, expected)
            << count << " records of " << bytes << " bytes, cycles " << static_cast<int>(cycles);
        std::tie(records, places) = by_team;
        detail::RecordMover(bytes, team).move_to_places(records.data(), places.data(), count);
        ASSERT_EQ(records, expected) << "by a team: " << count << " of " << bytes << " bytes";
      }
    }
  }
}

// Moves numbers, and counts what each thread lifts and moves. None goes on with either before all
// have come to it.
struct CountedMoves {
  static constexpr std::size_t kMost = 16;

  void lift(std::size_t place, std::size_t slot) const {
    lifted->add(1);
    held[slot] = numbers[place];
  }
  void move(std::size_t from, std::size_t to) const {
    moved->add(1);
    numbers[to] = numbers[from];
  }
  void lay(std::size_t slot, std::size_t to) const { numbers[to] = held[slot]; }
  void prefetch(std::size_t) const noexcept {}

  std::size_t* numbers;
  std::size_t* held;
  test::TeamCounts* lifted;
  test::TeamCounts* moved;
};

TEST(RecordMoves, AreDividedAmongTheThreads) {
  std::mt19937_64 random;  // always the same, so that paths of all threads are about as long
  constexpr std::size_t kCount = std::size_t{1} << 15;
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    const auto order = permutation(Cycles::kOne, kCount, random);
    std::vector<std::size_t> numbers(kCount);
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    std::vector<Pair64> places(kCount);
    for (std::size_t i = 0; i < kCount; ++i) places[i] = {0, order[i]};
    detail::ThreadTeam team(threads);
    detail::PathMover<CountedMoves> mover(CountedMoves::kMost, 1, team);
    std::vector<std::size_t> held(mover.slots());
    test::TeamCounts lifted(threads), moved(threads);
    mover.move({numbers.data(), held.data(), &lifted, &moved}, places.data(), kCount);
    EXPECT_EQ(numbers, order) << threads;
    ASSERT_EQ(lifted.of_threads().size(), threads);
    ASSERT_EQ(moved.of_threads().size(), threads);
    // The rest of a path is laid down.
    EXPECT_EQ(moved.all() + lifted.all(), kCount) << threads;
    for (const std::uint64_t records : moved.of_threads()) {
      EXPECT_GT(records, kCount / threads / 4) << threads;
      EXPECT_LT(records, kCount / threads * 9 / 4) << threads;
    }
  }
}

// Rounds go on with what is left, and one thread moves little.
TEST(RecordMoves, ShortCyclesAreDividedAmongTheThreads) {
  auto random = test::test_random();
  constexpr std::size_t kCount = std::size_t{1} << 15, kShort = kCount / 8 * 7;
  for (const std::size_t length : {2, 3, 15, 16}) {
    for (const unsigned threads : {2U, 7U, 16U, 64U, 128U}) {
      SCOPED_TRACE(::testing::Message() << length << " places, " << threads << " threads");
      // Of neighbours; and a long one.
      std::vector<std::size_t> order(kCount);
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto turn = [&](std::size_t begin, std::size_t end) {
        std::rotate(order.data() + begin, order.data() + begin + 1, order.data() + end);
      };
      for (std::size_t i = 0; i + length <= kShort; i += length) turn(i, i + length);
      turn(kShort, kCount);
      std::vector<std::size_t> numbers(kCount);
      std::iota(numbers.begin(), numbers.end(), std::size_t{0});
      std::vector<Pair64> places(kCount);
      for (std::size_t i = 0; i < kCount; ++i) places[i] = {random() % 3, order[i]};
      detail::ThreadTeam team(threads);
      detail::PathMover<CountedMoves> mover(CountedMoves::kMost, 1, team);
      std::vector<std::size_t> held(mover.slots());
      test::TeamCounts lifted(threads), moved(1);
      const std::size_t together =
          mover.move({numbers.data(), held.data(), &lifted, &moved}, places.data(), kCount);
      EXPECT_EQ(numbers, order);
      EXPECT_EQ(lifted.of_threads().size(), threads);
      EXPECT_GT(together, kCount / 4 * 3);
    }
  }
}

std::uint64_t key_of(std::uint64_t key) { return key; }
std::uint64_t key_of(std::uint32_t key) { return key; }
double key_of(double key) { return key; }
std::uint64_t key_of(const Pair64& pair) { return pair.key; }
constexpr auto by_key = [](const auto& a, const auto& b) { return key_of(a) < key_of(b); };

template <typename T>
std::vector<T> random_records(std::size_t count, std::uint64_t keys, std::mt19937_64& random) {
  std::vector<T> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t key = random() % keys;
    if constexpr (std::is_same_v<T, Pair64>) {
      records[i] = {key, i};
    } else {
      records[i] = static_cast<T>(key);
    }
  }
  return records;
}

// Where each of `runs` runs begins, and the end; some are of a few records, or of none.
std::vector<std::size_t> borders(std::size_t count, std::size_t runs, std::mt19937_64& random) {
  std::vector<std::size_t> begins = {0, count};
  while (begins.size() <= runs) {
    const std::size_t near = begins[random() % begins.size()];
    begins.push_back(random() % 4 == 0 ? std::min(count, near + random() % 3)
                                       : random() % (count + 1));
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

// Sorts the records, and turns them round if the run is to be read backwards.
template <typename T>
detail::Run<T> make_run(std::span<T> records, bool descending) {
  std::stable_sort(records.begin(), records.end(), by_key);
  if (!descending || records.empty()) return {records.data(), records.size()};
  std::reverse(records.begin(), records.end());
  return {records.data() + records.size() - 1, records.size(), -1};
}

struct KeyOf {
  auto operator()(const auto& record) const noexcept { return key_of(record); }
};

template <typename T>
class RunMergeTest : public testing::Test {};
using MergedTypes = testing::Types<std::uint32_t, std::uint64_t, Pair64>;
TYPED_TEST_SUITE(RunMergeTest, MergedTypes);

// Equal records of a run that is read backwards are expected as they lie there.
TYPED_TEST(RunMergeTest, LikeStableSort) {
  using Merge = detail::RunMerge<TypeParam, KeyOf>;
  auto random = test::test_random();
  const std::size_t most = test::kShadowMemory ? 100000 : 500000;
  for (const unsigned threads : {1u, 2u, 7u}) {
    detail::ThreadTeam team(threads);
    for (const std::size_t count : {1ul, 2ul, 700ul, 32768ul, 32769ul, 65536ul, most}) {
      for (const std::size_t runs : {1, 2, 5, 16}) {
        for (const std::uint64_t keys : {3ul, ~0ul}) {
          auto records = random_records<TypeParam>(count, keys, random);
          std::vector<detail::Run<TypeParam>> made;
          std::vector<TypeParam> expected;
          const auto begins = borders(count, runs, random);
          for (std::size_t i = 0; i < runs; ++i) {
            made.push_back(
                make_run(std::span(records).subspan(begins[i], begins[i + 1] - begins[i]),
                         random() % 3 == 0));
            for (std::size_t k = 0; k < made.back().count; ++k) expected.push_back(made.back()[k]);
          }
          std::stable_sort(expected.begin(), expected.end(), by_key);
          Merge(records.data(), made, KeyOf{}, team).merge();
          ASSERT_TRUE(test::same_bytes(records, expected))
              << count << " records, " << runs << " runs, " << threads << " threads";
        }
      }
    }
  }
}

template <typename T>
class NaturalRunsTest : public testing::Test {};
using SortedTypes = testing::Types<std::uint32_t, std::uint64_t, double, Pair64>;
TYPED_TEST_SUITE(NaturalRunsTest, SortedTypes);

TYPED_TEST(NaturalRunsTest, SortedLikeByStableSort) {
  auto random = test::test_random();
  std::vector<std::size_t> counts = {511, 512, 4096, 65537, 100000};
  if (!test::kShadowMemory) counts.push_back((std::size_t{2} << 20) + 77);
  test::Turns large(random, 4);
  for (const std::size_t count : counts) {
    for (const std::size_t runs : {1, 2, 7, 17}) {
      for (const bool rest : {false, true}) {
        if (count > 1000000 && large.leave_out()) continue;
        auto records =
            random_records<TypeParam>(count, random() % 2 == 0 ? 1000000 : count, random);
        const std::size_t ordered = rest ? count - 1 - random() % (count / 3) : count;
        for (std::size_t i = 0; i < runs; ++i) {
          const std::size_t begin = ordered * i / runs, end = ordered * (i + 1) / runs;
          make_run(std::span(records).subspan(begin, end - begin), random() % 3 == 0);
        }
        const SortOptions options{
            .order = random() % 2 == 0 ? Order::kAscending : Order::kDescending,
            .stable = true,
            .threads = std::array{1u, 2u, 7u}[random() % 3]};
        auto expected = records;
        std::stable_sort(expected.begin(), expected.end(), [&](const auto& a, const auto& b) {
          return options.order == Order::kAscending ? by_key(a, b) : by_key(b, a);
        });
        sort(std::span(records), options);
        ASSERT_TRUE(test::same_bytes(records, expected))
            << count << " records, " << runs << " runs, rest " << rest << ", " << options.threads;
      }
    }
  }
}

}  // namespace

}  // namespace vortex::record_moves_test

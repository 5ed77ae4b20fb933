// Sorts of arrays by chains of chunks, and by several threads: the same bytes as by one.
#include "vortex/detail/radix/parallel_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "tests/array/chain_sort.h"
#include "tests/array/nested_outliers.h"
#include "tests/array/number_order.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/detail/radix/team_stripes.h"
#include "vortex/sort.h"

namespace vortex::parallel_sort_test { namespace {

using namespace detail;

// Records that know where they were.
template <typename K, std::size_t bytes>
struct TaggedRecord {
  using Key = K;
  K key;
  std::uint32_t index;
  char rest[bytes - sizeof(K) - 4];
};

struct KeyOfTagged {
  template <typename R>
  auto operator()(const R& record) const noexcept {
    return record.key;
  }
};

template <typename R>
std::vector<R> tagged_records(const std::vector<typename R::Key>& keys) {
  std::vector<R> records(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    records[i].key = keys[i];
    records[i].index = static_cast<std::uint32_t>(i);
    std::memset(records[i].rest, static_cast<int>(i % 251), sizeof records[i].rest);
  }
  return records;
}

// How many threads sort an array: one of the teams, by turns.
std::vector<unsigned> teams() {
  static auto random = test::test_random(1);
  return test::some_of({1U, 2U, 7U}, 1, random);
}

template <typename K, std::size_t bytes>
using Tagged = TaggedRecord<K, bytes>;

template <typename R, typename KeyOf>
void sort_by_team(std::vector<R>& records, const SortRules<R, KeyOf>& rules, unsigned threads) {
  ThreadTeam team(threads);
  ASSERT_EQ(team.threads(), threads);
  const NoCodec<R> codec;
  ParallelSort<R, KeyOf, NoCodec<R>>(records.data(), records.size(), rules, codec, team).sort();
}

// Kinds of keys, in bits: 64 of them, of which narrow keys take the upper ones.
struct Kind {
  const char* name;
  std::uint64_t (*key)(std::uint64_t word, std::size_t i, std::size_t count);
};
constexpr Kind kKinds[] = {
    {"uniform", [](std::uint64_t word, std::size_t, std::size_t) { return word; }},
    {"equal", [](std::uint64_t, std::size_t, std::size_t) { return std::uint64_t{7} << 32; }},
    {"two", [](std::uint64_t word, std::size_t, std::size_t) { return word << 63; }},
    {"few", [](std::uint64_t word, std::size_t, std::size_t) { return word % 100 << 57 | 5; }},
    {"ascending",
     [](std::uint64_t, std::size_t i, std::size_t count) { return ~std::uint64_t{0} / count * i; }},
    {"descending", [](std::uint64_t, std::size_t i,
                      std::size_t count) { return ~std::uint64_t{0} / count * (count - i); }},
    {"halves changed",
     [](std::uint64_t, std::size_t i, std::size_t count) {
       return ~std::uint64_t{0} / count * ((i + count / 2) % count);
     }},
    {"one key among others",
     [](std::uint64_t word, std::size_t, std::size_t) {
       return word % 10 != 0 ? std::uint64_t{0x123456789} << 30 : word;
     }},
    {"one bucket",
     [](std::uint64_t word, std::size_t, std::size_t) {
       return word % 500 == 0 ? word : 0x7700000000000000 | word >> 12;
     }},
    {"one bit",
     [](std::uint64_t word, std::size_t, std::size_t) { return std::uint64_t{1} << word % 64; }},
    {"outside the sample",
     [](std::uint64_t word, std::size_t, std::size_t) {
       return word % 5000 == 0 ? word : 0x5555 | word << 63;
     }},
};

template <typename R>
class SortOf : public testing::Test {
 protected:
  using Key = typename R::Key;
  using Sorter = ChainSorter<R, KeyOfTagged>;
  static constexpr std::size_t kLeast = Sorter::Dense::kMax + 1;

  // Enough for chains to be worth while, and some more.
  static std::size_t count(std::size_t more) { return kLeast + more; }
  // Counts that do and do not fill the last chunk; the larger ones have buckets that get passes of
  // their own.
  static std::vector<std::size_t> counts() { return {kLeast, 2 * kLeast - 1, 12 * kLeast + 64}; }
};

// By one thread.
template <typename R>
class ChainSorterOf : public SortOf<R> {
 protected:
  static void expect_sorted(const std::vector<typename R::Key>& keys) {
    ASSERT_GE(keys.size(), SortOf<R>::kLeast);
    std::vector<R> records = tagged_records<R>(keys);
    const std::vector<R> expected = test::stably_sorted_by(records, KeyOfTagged{});
    const test::ChainSortChunks chunks = test::sort_by_chains(std::span<R>(records), KeyOfTagged{});
    ASSERT_TRUE(test::same_bytes(records, expected));
    // ChainSorter's comment promises a free chunk, with all lists open and a chunk taken.
    ASSERT_GE(chunks.least_free, 1u);
    ASSERT_LE(chunks.least_free, chunks.spare);
    least_free_ = std::min(least_free_, chunks.least_free);
  }

  static inline std::size_t least_free_ = static_cast<std::size_t>(-1);
};
using Records =
    test::TypesOf<testing::Types<Tagged<std::uint64_t, 16>, Tagged<std::uint64_t, 24>,
                                 Tagged<std::uint64_t, 104>, Tagged<std::uint32_t, 12>,
                                 Tagged<std::uint32_t, 100>, Tagged<std::uint64_t, 1000>>,
                  testing::Types<Tagged<std::uint64_t, 16>, Tagged<std::uint32_t, 100>,
                                 Tagged<std::uint64_t, 1000>>>;
TYPED_TEST_SUITE(ChainSorterOf, Records);

// By teams.
template <typename R>
class ParallelSortOf : public SortOf<R> {
 protected:
  static void expect_sorted(const std::vector<typename R::Key>& keys) {
    ASSERT_GE(keys.size(), SortOf<R>::kLeast);
    const std::vector<R> records = tagged_records<R>(keys);
    const std::vector<R> expected = test::stably_sorted_by(records, KeyOfTagged{});
    for (const unsigned threads : teams()) {
      std::vector<R> sorted = records;
      sort_by_team(sorted, SortRules<R, KeyOfTagged>{{}}, threads);
      ASSERT_TRUE(test::same_bytes(sorted, expected))
          << threads << " threads, " << keys.size() << " records";
    }
  }
};
using SharedRecords =
    test::TypesOf<testing::Types<Tagged<std::uint64_t, 16>, Tagged<std::uint64_t, 104>,
                                 Tagged<std::uint32_t, 12>, Tagged<std::uint32_t, 256>>,
                  testing::Types<Tagged<std::uint64_t, 16>, Tagged<std::uint32_t, 256>>>;
TYPED_TEST_SUITE(ParallelSortOf, SharedRecords);

TYPED_TEST(ParallelSortOf, AllKindsOfKeys) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  test::Turns turns(random, 3);
  for (const std::size_t count : this->counts()) {
    for (const Kind& kind : kKinds) {
      if (turns.leave_out()) continue;
      SCOPED_TRACE(kind.name);
      std::vector<Key> keys(count);
      for (std::size_t i = 0; i < count; ++i) {
        keys[i] = static_cast<Key>(kind.key(random(), i, count) >> (64 - 8 * sizeof(Key)));
      }
      ASSERT_NO_FATAL_FAILURE(this->expect_sorted(keys));
    }
  }
}

TYPED_TEST(ParallelSortOf, NestedOutliers) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  const int turns = test::long_tests() ? 300 : 12;
  for (int turn = 0; turn < turns; ++turn) {
    const auto levels =
        turn < 3 ? test::outliers_at_every_byte<Key>() : test::random_nesting(random);
    const std::size_t count = this->counts()[turn % 3] + random() % 1000;
    ASSERT_NO_FATAL_FAILURE(this->expect_sorted(
        test::nested_keys<Key>(levels, count, random, static_cast<test::NestedOrder>(turn % 3))));
  }
}

// Each level halves what is left: the deepest passes that there are.
TYPED_TEST(ParallelSortOf, PowersOfTwo) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  for (const bool down : {false, true}) {
    std::vector<Key> keys(this->counts().back());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<Key>(Key{1} << random() % std::numeric_limits<Key>::digits);
      if (i % 64 != 0) keys[i] = static_cast<Key>(random() % 4);
      if (down) keys[i] = static_cast<Key>(~keys[i]);
    }
    ASSERT_NO_FATAL_FAILURE(this->expect_sorted(keys));
  }
}

TYPED_TEST_OF_ONE_THREAD(ChainSorterOf, OutliersAtEveryByte) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  for (const std::size_t ends : {0, 1, 60, 250, 1000}) {
    auto levels = test::outliers_at_every_byte<Key>();
    for (test::NestedLevel& level : levels) level.at_ends = ends;
    ASSERT_NO_FATAL_FAILURE(
        this->expect_sorted(test::nested_keys<Key>(levels, this->count(15000), random)));
  }
}

TYPED_TEST_OF_ONE_THREAD(ChainSorterOf, RandomNestings) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  const int turns = test::long_tests() ? 3000 : test::kShadowMemory ? 15 : 40;
  for (int turn = 0; turn < turns; ++turn) {
    const auto levels = test::random_nesting(random);
    const auto order = static_cast<test::NestedOrder>(random() % 3);
    ASSERT_NO_FATAL_FAILURE(this->expect_sorted(
        test::nested_keys<Key>(levels, this->count(random() % 20000), random, order)));
  }
  this->RecordProperty("least_free_chunks", static_cast<int>(this->least_free_));
}

// Each level halves what is left: more levels than any other keys have.
TYPED_TEST_OF_ONE_THREAD(ChainSorterOf, PowersOfTwo) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  for (const bool down : {false, true}) {
    std::vector<Key> keys(this->count(15000));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const int bit = static_cast<int>(i % std::numeric_limits<Key>::digits);
      keys[i] = static_cast<Key>(Key{1} << bit) | static_cast<Key>(random() >> (64 - bit / 2 - 1));
      if (down) keys[i] = static_cast<Key>(~keys[i]);
    }
    ASSERT_NO_FATAL_FAILURE(this->expect_sorted(keys));
  }
}

TEST_OF_ONE_THREAD(ChunkArena, CountsItsFreeChunks) {
  constexpr std::size_t kP = ChunkArena<std::uint64_t>::kChunkRecords;
  std::vector<std::uint64_t> array(3 * kP), spare(4 * kP);
  ChunkArena<std::uint64_t> arena(array.data(), 3, spare.data(), 4);
  const std::uint32_t a = arena.take(), b = arena.take();
  EXPECT_EQ(arena.least_free_chunks(), 2u);
  arena.give(0);  // of the array
  arena.give(a);
  arena.give(b);
  EXPECT_EQ(arena.least_free_chunks(), 2u);
  // Five are free. The result takes one of them, and the place of two that are moved to others.
  arena.claim(3 * kP);
  EXPECT_EQ(arena.least_free_chunks(), 2u);
  arena.take();
  EXPECT_EQ(arena.least_free_chunks(), 1u);
}

TEST_OF_ONE_THREAD(ChunkArenaDeathTest, EndsTheProcessWhereNoChunkIsFree) {
  constexpr std::size_t kP = ChunkArena<std::uint64_t>::kChunkRecords;
  std::vector<std::uint64_t> spare(2 * kP);
  ChunkArena<std::uint64_t> arena(nullptr, 0, spare.data(), 2);
  arena.take();
  arena.take();
  EXPECT_EQ(arena.least_free_chunks(), 0u);
  EXPECT_DEATH(arena.take(), "more spare chunks than it has set aside");
}

// The kernel for pairs leaves those with equal keys in any order: it is the same order still.
TEST(ParallelSort, PairsWithEqualKeysLieAsAfterASortByOneThread) {
  auto random = test::test_random();
  const SortRules<Pair64, detail::KeyOfPair> rules{{}, small_sort_for<Pair64>(best_isa())};
  for (const Kind& kind : kKinds) {
    for (const std::size_t count : {40000u, 200001u}) {
      SCOPED_TRACE(kind.name);
      std::vector<Pair64> pairs(count);
      for (std::size_t i = 0; i < count; ++i) {
        // A few records of each key.
        pairs[i] = {kind.key(random(), i, count) & ~std::uint64_t{0} << 49, i};
      }
      std::vector<Pair64> expected = pairs;
      InPlaceSort<Pair64, detail::KeyOfPair>::run(expected.data(), count, rules);
      for (const unsigned threads : teams()) {
        std::vector<Pair64> sorted = pairs;
        sort_by_team(sorted, rules, threads);
        ASSERT_TRUE(test::same_bytes(sorted, expected)) << threads << " threads";
      }
    }
  }
}

TEST(ParallelSort, BareKeys) {
  auto random = test::test_random();
  const SortRules<std::uint64_t, detail::KeyOfWord> rules{
      {}, small_sort_for<std::uint64_t>(best_isa())};
  test::Turns turns(random, 3);
  for (const Kind& kind : kKinds) {
    for (const std::size_t count : {24577u, 400003u}) {
      if (turns.leave_out()) continue;
      SCOPED_TRACE(kind.name);
      std::vector<std::uint64_t> keys(count);
      for (std::size_t i = 0; i < count; ++i) keys[i] = kind.key(random(), i, count);
      const std::vector<std::uint64_t> expected = test::sorted(keys);
      for (const unsigned threads : teams()) {
        std::vector<std::uint64_t> sorted = keys;
        sort_by_team(sorted, rules, threads);
        ASSERT_EQ(sorted, expected) << threads << " threads";
      }
    }
  }
}

// As users call it, with codes for keys and orders, and with enough records for two threads.
TEST(ParallelSort, TheSameForAnyNumberOfThreads) {
  auto random = test::test_random();
  const std::size_t count = (std::size_t{1} << (test::kShadowMemory ? 20 : 22)) + 77;
  for (const Order order : test::some_of({Order::kAscending, Order::kDescending}, 1, random)) {
    std::vector<double> numbers(count);
    std::vector<KeyValue<std::int32_t, std::uint32_t>> half_pairs(count);
    std::vector<std::uint64_t> keys(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t word = random();
      numbers[i] = static_cast<double>(static_cast<std::int64_t>(word));
      half_pairs[i] = {static_cast<std::int32_t>(word >> 48), static_cast<std::uint32_t>(i)};
      keys[i] = word >> 44;
    }
    const auto records = tagged_records<Tagged<std::uint64_t, 24>>(keys);
    auto by_one = std::tuple(numbers, half_pairs, records);
    const auto sort_all = [&](auto& arrays, unsigned threads) {
      const SortOptions options{.order = order, .threads = threads};
      sort(std::span(std::get<0>(arrays)), options);
      sort(std::span(std::get<1>(arrays)), options);
      sort(std::span(std::get<2>(arrays)), &Tagged<std::uint64_t, 24>::key, options);
    };
    sort_all(by_one, 1);
    EXPECT_TRUE(order == Order::kAscending
                    ? std::is_sorted(std::get<0>(by_one).begin(), std::get<0>(by_one).end())
                    : std::is_sorted(std::get<0>(by_one).rbegin(), std::get<0>(by_one).rend()));
    for (const unsigned threads : test::some_of({2u, 7u, 0u}, 2, random)) {
      auto by_many = std::tuple(numbers, half_pairs, records);
      sort_all(by_many, threads);
      EXPECT_TRUE(test::same_bytes(std::get<0>(by_one), std::get<0>(by_many))) << threads;
      EXPECT_TRUE(test::same_bytes(std::get<1>(by_one), std::get<1>(by_many))) << threads;
      EXPECT_TRUE(test::same_bytes(std::get<2>(by_one), std::get<2>(by_many))) << threads;
    }
  }
}

// Chunks that change places in cycles, which arrays at random hardly lead to.
TEST(ChunkMovers, FollowsPathsAndCycles) {
  constexpr std::size_t kP = ChunkLayout<std::uint64_t>::kChunkRecords;
  constexpr std::size_t kChunks = 10, kExtra = 4, kStored = 2;
  std::vector<std::uint64_t> array(kChunks * kP), extra(kExtra * kP);
  for (std::size_t i = 0; i < array.size(); ++i) array[i] = i / kP;
  for (std::size_t i = 0; i < extra.size(); ++i) extra[i] = kChunks + i / kP;
  ChunkMovers<std::uint64_t> movers(array.data(), kChunks, extra.data(), kStored);
  movers.reserve();
  movers.start(0, kChunks, kStored);
  movers.stays(0);
  // A path from a spare chunk to the store, and two cycles.
  const std::pair<unsigned, unsigned> moves[] = {{12, 3}, {3, 5}, {5, 10}, {1, 2}, {2, 1},
                                                 {4, 6},  {6, 8}, {8, 4},  {7, 9}};
  for (const auto& [from, to] : moves) movers.moves(from, to);
  movers.move_along_paths(0, kChunks);
  movers.move_along_paths(movers.store(0), movers.store(kStored));
  const std::size_t cycles = movers.find_cycles();
  EXPECT_EQ(cycles, 2u);
  std::vector<std::uint64_t> room(kP);
  for (std::size_t i = cycles; i-- > 0;) movers.move_along_cycles(i, i + 1, room.data());
  for (const auto& [from, to] : moves) {
    const std::uint64_t* const at = movers.at(to);
    EXPECT_EQ(at[0], from) << "to " << to;
    EXPECT_EQ(at[kP - 1], from) << "to " << to;
    EXPECT_EQ(movers.place_of(at), to);
  }
  EXPECT_EQ(array[0], 0u);
}

constexpr std::size_t kLeastHelp = 40;

// What each stripe has had, by its number.
struct Taken {
  std::vector<std::size_t> chunks;
};

// Each chunk once, in order: those of one stripe behind those of another.
void expect_all_in_order(const TeamStripes& stripes, const std::vector<Taken>& taken,
                         std::size_t chunks) {
  std::size_t next = 0, last = TeamStripes::kNone;
  stripes.for_each_made([&](std::size_t i) {
    EXPECT_FALSE(taken[i].chunks.empty());
    for (const std::size_t chunk : taken[i].chunks) EXPECT_EQ(chunk, next++);
    last = i;
  });
  EXPECT_EQ(next, chunks);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i].chunks.empty()) {
      EXPECT_EQ(stripes.is_last(i), i == last) << i;
    }
  }
}

TEST(TeamStripes, AreAsLongAsEachOther) {
  for (const unsigned threads : {1U, 2U, 7U, 128U}) {
    for (const std::size_t chunks : {1U, 16U, 1000U}) {
      TeamStripes stripes(threads);
      stripes.start(chunks);
      std::size_t at = 0;
      for (unsigned i = 0; i < threads; ++i) {
        const auto [begin, end] = stripes.whole(i);
        EXPECT_EQ(begin, at);
        EXPECT_LE(end - begin, chunks / threads + 1);
        EXPECT_GE(end - begin, chunks / threads);
        at = end;
      }
      EXPECT_EQ(at, chunks);
    }
  }
}

// One thread stands for all, in any order of their steps.
TEST(TeamStripes, HaveEveryChunkOnceWhoeverIsLate) {
  auto random = test::test_random();
  std::size_t helped = 0;
  for (int round = 0; round < 300; ++round) {
    const auto threads = static_cast<unsigned>(1 + random() % 9);
    const std::size_t chunks = 1 + random() % 3000;
    TeamStripes stripes(threads);
    stripes.start(chunks);
    std::vector<Taken> taken(TeamStripes::most(threads));
    std::vector<std::size_t> index_of(threads, TeamStripes::kNone);
    std::vector<bool> has_ended(threads, false);
    const std::size_t late = random() % threads;  // is hardly ever there
    std::size_t begun = 0;
    for (std::size_t ended = 0; ended < threads;) {
      const std::size_t thread = random() % threads;
      if (has_ended[thread] || (thread == late && random() % 16 != 0)) continue;
      std::size_t& index = index_of[thread];
      if (index == TeamStripes::kNone) {
        index = thread;
        stripes.begin(thread, static_cast<std::uint32_t>(100 * thread));
        ++begun;
        continue;
      }
      const auto [begin, end] = stripes.take(index);
      for (std::size_t chunk = begin; chunk < end; ++chunk) taken[index].chunks.push_back(chunk);
      if (begin != end) {
        // The nodes are those of the thread whose stripe it was at first.
        const auto [first, behind] = stripes.whole(stripes.shift(index) / 100);
        EXPECT_GE(begin, first);
        EXPECT_LE(end, behind);
        continue;
      }
      const std::size_t next = stripes.help(thread, kLeastHelp);
      has_ended[thread] = next == TeamStripes::kNone;
      ended += has_ended[thread] ? 1 : 0;
      if (has_ended[thread]) continue;
      EXPECT_EQ(begun, threads);
      ASSERT_GE(next, threads);
      ASSERT_LT(next, taken.size());
      index = next;
      ++helped;
    }
    expect_all_in_order(stripes, taken, chunks);
    for (std::size_t i = threads; i < taken.size(); ++i) {
      if (!taken[i].chunks.empty()) {
        EXPECT_GE(taken[i].chunks.size(), kLeastHelp / 4);
      }
    }
  }
  EXPECT_GT(helped, 100U);
}

// Threads that begin together, two of which let others go before them: they compete for what those
// have left.
TEST(TeamStripes, HaveEveryChunkOnceForThreads) {
  auto random = test::test_random();
  std::size_t helped = 0;
  for (int round = 0; round < (test::kShadowMemory ? 10 : 40); ++round) {
    const auto threads = static_cast<unsigned>(2 + random() % 30);
    const std::size_t chunks = 20'000 + random() % 100'000, late = random() % threads;
    TeamStripes stripes(threads);
    stripes.start(chunks);
    std::vector<Taken> taken(TeamStripes::most(threads));
    std::vector<std::thread> team;
    std::barrier all_begin(threads);
    for (unsigned thread = 0; thread < threads; ++thread) {
      team.emplace_back([&, thread] {
        all_begin.arrive_and_wait();
        stripes.begin(thread, thread);
        for (std::size_t index = thread; index != TeamStripes::kNone;
             index = stripes.help(thread, kLeastHelp)) {
          for (;;) {
            const auto [begin, end] = stripes.take(index);
            if (begin == end) break;
            for (std::size_t chunk = begin; chunk < end; ++chunk)
              taken[index].chunks.push_back(chunk);
            if (thread / 2 == late / 2) std::this_thread::yield();
          }
        }
      });
    }
    for (std::thread& thread : team) thread.join();
    expect_all_in_order(stripes, taken, chunks);
    for (std::size_t i = threads; i < taken.size(); ++i) helped += taken[i].chunks.empty() ? 0 : 1;
  }
  RecordProperty("helped", static_cast<int>(helped));
  EXPECT_GT(helped, 0U);
}

}  // namespace

}  // namespace vortex::parallel_sort_test

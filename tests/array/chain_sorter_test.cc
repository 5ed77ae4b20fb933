#include "vortex/detail/radix/chain_sorter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/array/chain_sort.h"
#include "tests/array/nested_outliers.h"
#include "tests/array/tagged_record.h"
#include "tests/support/random_seed.h"

namespace vortex { namespace {

using namespace detail;

template <typename K, std::size_t bytes>
using Record = test::TaggedRecord<K, bytes>;

template <typename R>
class ChainSorterOf : public testing::Test {
 protected:
  using Key = typename R::Key;
  struct KeyOf {
    Key operator()(const R& record) const noexcept { return record.key; }
  };
  using Sorter = ChainSorter<R, KeyOf>;

  static void expect_sorted(const std::vector<Key>& keys) {
    ASSERT_GT(keys.size(), Sorter::Dense::kMax);
    std::vector<R> records(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      records[i].key = keys[i];
      records[i].index = static_cast<std::uint32_t>(i);
      std::memset(records[i].rest, static_cast<int>(i % 251), sizeof records[i].rest);
    }
    std::vector<R> expected = records;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const R& a, const R& b) { return a.key < b.key; });
    const test::ChainSortChunks chunks = test::sort_by_chains(std::span<R>(records), KeyOf{});
    ASSERT_EQ(std::memcmp(static_cast<const void*>(records.data()), expected.data(),
                          records.size() * sizeof(R)),
              0);
    // ChainSorter's comment promises a free chunk, with all lists open and a chunk taken.
    ASSERT_GE(chunks.least_free, 1u);
    ASSERT_LE(chunks.least_free, chunks.spare);
    least_free_ = std::min(least_free_, chunks.least_free);
  }

  // Enough for chains to be worth while, and some more.
  static std::size_t count(std::size_t more) { return Sorter::Dense::kMax + 1 + more; }

  static inline std::size_t least_free_ = static_cast<std::size_t>(-1);
};

using Records = testing::Types<Record<std::uint64_t, 16>, Record<std::uint64_t, 24>,
                               Record<std::uint64_t, 104>, Record<std::uint32_t, 12>,
                               Record<std::uint32_t, 100>, Record<std::uint64_t, 1000>>;
TYPED_TEST_SUITE(ChainSorterOf, Records);

TYPED_TEST(ChainSorterOf, OutliersAtEveryByte) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  for (const std::size_t ends : {0, 1, 60, 250, 1000}) {
    auto levels = test::outliers_at_every_byte<Key>();
    for (test::NestedLevel& level : levels) level.at_ends = ends;
    ASSERT_NO_FATAL_FAILURE(
        this->expect_sorted(test::nested_keys<Key>(levels, this->count(15000), random)));
  }
}

TYPED_TEST(ChainSorterOf, RandomNestings) {
  using Key = typename TypeParam::Key;
  auto random = test::test_random();
  const int turns = test::long_tests() ? 3000 : 40;
  for (int turn = 0; turn < turns; ++turn) {
    const auto levels = test::random_nesting(random);
    const auto order = static_cast<test::NestedOrder>(random() % 3);
    ASSERT_NO_FATAL_FAILURE(this->expect_sorted(
        test::nested_keys<Key>(levels, this->count(random() % 20000), random, order)));
  }
  this->RecordProperty("least_free_chunks", static_cast<int>(this->least_free_));
}

// Each level halves what is left: more levels than any other keys have.
TYPED_TEST(ChainSorterOf, PowersOfTwo) {
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

TEST(ChunkArena, CountsItsFreeChunks) {
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

TEST(ChunkArenaDeathTest, EndsTheProcessWhereNoChunkIsFree) {
  constexpr std::size_t kP = ChunkArena<std::uint64_t>::kChunkRecords;
  std::vector<std::uint64_t> spare(2 * kP);
  ChunkArena<std::uint64_t> arena(nullptr, 0, spare.data(), 2);
  arena.take();
  arena.take();
  EXPECT_EQ(arena.least_free_chunks(), 0u);
  EXPECT_DEATH(arena.take(), "more spare chunks than it has set aside");
}

}  // namespace

}  // namespace vortex

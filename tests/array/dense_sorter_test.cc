// Records that fit the caches, sorted to an output: distributed without counting where there is
// room and their range is known, and counted where that fails.
#include "vortex/detail/radix/dense_sorter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex::dense_sorter_test { namespace {

using namespace detail;

using Dense = DenseSorter<Pair64, KeyOfPair>;

// How the keys of a range lie in it.
enum class Spread { kEven, kAtOneEnd, kFew, kOne, kAtBothEnds, kDoubling, kHeavy };
constexpr Spread kAllSpreads[] = {Spread::kEven, Spread::kAtOneEnd,   Spread::kFew,
                                  Spread::kOne,  Spread::kAtBothEnds, Spread::kDoubling,
                                  Spread::kHeavy};

std::uint64_t key_in(const KeyRange<std::uint64_t>& range, Spread spread, std::mt19937_64& random) {
  const std::uint64_t span = range.high - range.low;
  const auto below = [&](std::uint64_t most) {
    return most == std::numeric_limits<std::uint64_t>::max() ? random() : random() % (most + 1);
  };
  switch (spread) {
    case Spread::kEven:
      return range.low + below(span);
    case Spread::kAtOneEnd:
      return range.high - below(span / 1000);
    case Spread::kFew:
      return range.low + span / 7 * (random() % 7);
    case Spread::kOne:
      return range.high;
    case Spread::kAtBothEnds:
      return random() % 2 == 0 ? range.low + below(span / 5000) : range.high - below(span / 5000);
    case Spread::kDoubling:
      return range.low + (below(span) >> (random() % 60));
    case Spread::kHeavy:
      return random() % 2 == 0 ? range.low + span / 3 : range.low + below(span);
  }
  return 0;
}

// Values are places, so that the oracle tells equal keys apart.
TEST(DenseSorter, SortsToAnOutput) {
  auto random = test::test_random();
  const SortRules<Pair64, KeyOfPair> rules{{}, stable_small_sort_of_pairs(isa_in_use())};
  const auto workspace = std::make_unique<Dense::Workspace>();
  const Dense dense(rules, *workspace);
  constexpr std::size_t kCounts[] = {1,    kMaxSmallSort,   kMaxSmallSort + 1,
                                     1000, Dense::kMax / 2, Dense::kMax};
  std::vector<Pair64> other(Dense::kSpacious);
  for (const std::size_t count : kCounts) {
    for (const Spread spread : kAllSpreads) {
      for (int turn = 0; turn < 16; ++turn) {
        KeyRange<std::uint64_t> range{random() >> random() % 64, 0};
        range.high = range.low + ((~std::uint64_t{0} - range.low) >> random() % 64);
        std::vector<Pair64> array(count);
        for (std::size_t i = 0; i < count; ++i) array[i] = {key_in(range, spread, random), i};
        std::vector<Pair64> expected = array;
        std::stable_sort(expected.begin(), expected.end(),
                         [](const Pair64& a, const Pair64& b) { return a.key < b.key; });
        const bool is_known = random() % 4 != 0;
        const bool in_place = random() % 2 == 0;
        const std::size_t room = count + random() % (Dense::kSpacious - count + 1);
        SCOPED_TRACE(testing::Message()
                     << count << " records, spread " << static_cast<int>(spread) << ", known "
                     << is_known << ", in place " << in_place << ", room " << room);
        // Nothing is written behind the room or the output.
        const Pair64 canary{random(), random()};
        std::fill(other.begin(), other.end(), canary);
        std::vector<Pair64> apart(in_place ? 0 : count);
        Pair64* const out = in_place ? array.data() : apart.data();
        dense.sort_to(array.data(), count, other.data(), room, out, is_known ? &range : nullptr);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(out[i].key, expected[i].key) << i;
          ASSERT_EQ(out[i].value, expected[i].value) << i;
        }
        for (std::size_t i = room; i < other.size(); ++i) {
          ASSERT_EQ(other[i].key, canary.key) << i;
        }
      }
    }
  }
}

}  // namespace

}  // namespace vortex::dense_sorter_test

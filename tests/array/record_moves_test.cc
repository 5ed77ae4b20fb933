// Records moved to their places, against a copy of them: permutations of one cycle, of many, and of
// none, of records of all sizes, by one thread and by several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/detail/array/sized_records.h"

namespace vortex { namespace {

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

}  // namespace

}  // namespace vortex

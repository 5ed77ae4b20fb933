// Records whose keys agree in their first bytes, sorted by many threads: what is for all of them,
// what is for one each, and what they make of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "capi/sort/tied_records.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/record_order.h"

namespace vortex::test::tied_records_test { namespace {

using namespace capi;

std::vector<unsigned> thread_counts() {
  return kShadowMemory ? std::vector{2U, 16U} : std::vector{2U, 7U, 16U, 64U, 128U};
}

// What sort_ties() makes of ranges of so many items.
struct Ties {
  std::vector<std::size_t> large;  // sizes, in their order
  std::size_t parts = 0;
  std::size_t longest_part = 0;
  std::vector<std::size_t> took_part;
};
Ties ties_of(const std::vector<std::size_t>& sizes, unsigned threads) {
  std::vector<std::size_t> ends(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  const auto range_of = [&](std::size_t i) {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
  };
  Ties ties;
  std::mutex mutex;
  std::vector<unsigned> sorted(sizes.size());
  const auto add = [&](std::size_t begin, std::size_t end) {
    EXPECT_TRUE(begin == 0 || range_of(begin - 1) != range_of(begin));
    for (std::size_t range = range_of(begin); begin < end; begin = ends[range++]) ++sorted[range];
    EXPECT_EQ(begin, end);
  };
  CountedTeam team(threads);
  sort_ties(
      ends.back(), team, range_of,
      [&](std::size_t begin, std::size_t end) {
        const std::lock_guard lock(mutex);
        add(begin, end);
        ++ties.parts;
        ties.longest_part = std::max(ties.longest_part, end - begin);
      },
      [&](std::size_t begin, std::size_t end) {
        ties.large.push_back(end - begin);
        add(begin, end);
      });
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_TRUE(sorted[i] == 1 || (sizes[i] == 1 && sorted[i] == 0)) << i << " of " << threads;
  ties.took_part = team.took_part();
  return ties;
}

constexpr std::size_t kItems = std::size_t{1} << 24;

TEST(TiedRecords, ManyRangesAreForAThreadEach) {
  for (const unsigned threads : thread_counts()) {
    for (const std::size_t ranges : {100U, 1000U}) {
      const Ties ties = ties_of(std::vector(ranges, kItems / ranges), threads);
      EXPECT_EQ(ties.large.size(), 0U) << ranges << " ranges, " << threads << " threads";
      EXPECT_LE(ties.longest_part, kItems / ranges + kItems / threads / 2);
      // One run of the team.
      if (ties.parts >= threads) {
        EXPECT_EQ(ties.took_part, std::vector<std::size_t>{threads});
      }
    }
  }
}

TEST(TiedRecords, FewRangesAreForAllThreads) {
  for (const unsigned threads : thread_counts()) {
    EXPECT_EQ(ties_of({kItems}, threads).large.size(), 1U) << threads;
    EXPECT_EQ(ties_of(std::vector(3, kItems / 3), threads).large.size(), threads < 7 ? 0U : 3U);
    // Too few for so many steps.
    EXPECT_EQ(ties_of({16}, threads).large.size(), 0U);
    // Items that are alone lie around the range.
    std::vector<std::size_t> sizes(20'001, 1);
    sizes[7000] = kItems;
    const Ties ties = ties_of(sizes, threads);
    EXPECT_EQ(ties.large, std::vector{kItems}) << threads;
    EXPECT_GE(ties.parts, 1U);
  }
}

TEST(TiedRecords, FewerRangesThanThreadsAreForAllOfThem) {
  auto random = test_random();
  for (const unsigned threads : thread_counts()) {
    for (int turn = 0; turn < (kShadowMemory ? 3 : 20); ++turn) {
      std::vector<std::size_t> sizes(1 + random() % 2000);
      for (std::size_t& size : sizes) size = std::size_t{1} << random() % 20;
      const Ties ties = ties_of(sizes, threads);
      EXPECT_LT(ties.large.size(), threads);
      EXPECT_TRUE(std::is_sorted(ties.large.rbegin(), ties.large.rend()));
    }
  }
}

// Records of 16 bytes, big-endian: the first 8 tell a range, the others decide in it.
struct Tied {
  std::uint64_t range, rest, place;
  const std::byte* bytes() const noexcept { return reinterpret_cast<const std::byte*>(this); }
};
std::uint64_t big_endian(std::uint64_t number) noexcept {
  return std::endian::native == std::endian::little ? __builtin_bswap64(number) : number;
}
std::vector<Tied> tied_records(std::size_t count, std::size_t ranges) {
  auto random = test_random(ranges);
  std::vector<Tied> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    records[i] = {big_endian(i * ranges / count), big_endian(random() % 5000), i};
  }
  return records;
}
bool same_places(const std::vector<Tied>& expected, const auto& place_at) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (place_at(i) != expected[i].place) return false;
  }
  return true;
}

TEST(TiedRecords, AreSortedInFewRunsOfTheTeam) {
  const RecordFormat format(sizeof(Tied), {{0, 16, {}, false}});
  constexpr std::size_t kCount = std::size_t{1} << 17;
  for (const std::size_t ranges : {1U, 2U, 100U, 1000U, 60'000U}) {
    const std::vector<Tied> records = tied_records(kCount, ranges);
    std::vector<Tied> expected = records;
    std::sort(expected.begin(), expected.end(), [](const Tied& a, const Tied& b) {
      const int order = std::memcmp(&a, &b, 16);
      return order != 0 ? order < 0 : a.place < b.place;
    });
    const OrderOfPlaces before(records.front().bytes(), format);
    for (const unsigned threads : thread_counts()) {
      std::vector<Pair64> pairs(kCount);
      std::vector<std::uint64_t> bits(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        bits[i] = format.leading_bits(records[i].bytes());
        pairs[i] = {bits[i], i};
      }
      CountedTeam counted(threads);
      sort_tied_places(std::span(pairs), before, counted);
      EXPECT_TRUE(same_places(expected, [&](std::size_t i) { return pairs[i].value; }));
      // Pieces, and two runs for each time that they are merged; then all ranges for a thread each.
      const auto merges = static_cast<std::size_t>(std::bit_width(8 * threads - 1));
      const std::size_t most = ranges <= 2 ? ranges * (1 + 2 * merges) + 1 : 1;
      EXPECT_LE(counted.took_part().size(), most) << ranges << " ranges, " << threads;
      for (const std::size_t took_part : counted.took_part()) EXPECT_EQ(took_part, threads);

      detail::ThreadTeam team(threads);
      std::vector<std::uint32_t> places(kCount);
      std::iota(places.begin(), places.end(), 0U);
      sort_tied_places(places.data(), kCount, bits.data(), before, team);
      EXPECT_TRUE(same_places(expected, [&](std::size_t i) { return places[i]; }));

      std::vector<Tied> moved = records;
      sort_tied_records(reinterpret_cast<std::byte*>(moved.data()), kCount, format, team);
      EXPECT_TRUE(same_places(expected, [&](std::size_t i) { return moved[i].place; }))
          << ranges << " ranges, " << threads;
    }
  }
}

}}  // namespace vortex::test::tied_records_test::

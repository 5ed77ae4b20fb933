#include "sort/memory/two_way_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"

namespace vortex::two_way_merge_test { namespace {

using detail::Isa;

struct Shape {
  const char* name;
  // The key of record `i` of an input, before that is sorted.
  std::uint64_t (*key)(std::uint64_t random, bool is_b);
};
constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
constexpr Shape kShapes[] = {
    {"random", [](std::uint64_t random, bool) { return random; }},
    {"few values", [](std::uint64_t random, bool) { return random % 5; }},
    {"equal", [](std::uint64_t, bool) { return ~std::uint64_t{0}; }},
    {"a in front of b",
     [](std::uint64_t random, bool is_b) { return random >> 1 | (is_b ? kHigh : 0); }},
    {"b in front of a",
     [](std::uint64_t random, bool is_b) { return random >> 1 | (is_b ? 0 : kHigh); }},
    {"b in the middle of a", [](std::uint64_t random, bool is_b) { return is_b ? kHigh : random; }},
};
constexpr std::size_t kCounts[] = {0,  1,  2,  7,  8,   9,   15,   16,  17,
                                   31, 33, 64, 65, 100, 255, 1000, 4099};

// Whether each record is there once.
template <typename Item>
bool have_same_records(std::vector<Item> one, std::vector<Item> other) {
  const auto less = [](const Item& left, const Item& right) {
    return std::memcmp(&left, &right, sizeof left) < 0;
  };
  std::ranges::sort(one, less);
  std::ranges::sort(other, less);
  if (one.size() != other.size() || one.empty()) return one.size() == other.size();
  return std::memcmp(one.data(), other.data(), one.size() * sizeof(Item)) == 0;
}

// The expected order is std::merge's, which is stable; inputs that are not sorted come in any.
// Arrays are as long as they are said to be, for a sanitizer to see what is read or written beyond.
template <typename Item, typename Make, typename Less>
void expect_merged(const Make& make, const Less& less) {
  auto random = test::test_random();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > detail::best_isa()) continue;
    const detail::TwoWayMerge<Item> merge = detail::two_way_merge_for<Item>(isa);
    for (const Shape& shape : kShapes) {
      for (const std::size_t of_a : kCounts) {
        for (const std::size_t of_b : kCounts) {
          SCOPED_TRACE(std::string(detail::isa_name(isa)) + ", " + shape.name + ": " +
                       std::to_string(of_a) + " and " + std::to_string(of_b));
          std::vector<Item> a, b;
          for (std::size_t i = 0; i < of_a; ++i) a.push_back(make(shape.key(random(), false), i));
          for (std::size_t i = 0; i < of_b; ++i)
            b.push_back(make(shape.key(random(), true), of_a + i));
          std::vector<Item> expected, merged(of_a + of_b);
          std::vector<Item> both = a;
          both.insert(both.end(), b.begin(), b.end());
          merge(a, b, merged.data());
          ASSERT_TRUE(have_same_records(merged, both)) << "not sorted";
          std::ranges::stable_sort(a, less);
          std::ranges::stable_sort(b, less);
          std::ranges::merge(a, b, std::back_inserter(expected), less);
          merge(a, b, merged.data());
          const auto same = [](const Item& left, const Item& right) {
            return std::memcmp(&left, &right, sizeof left) == 0;
          };
          ASSERT_TRUE(std::ranges::equal(merged, expected, same));
        }
      }
    }
  }
}

TEST(TwoWayMerge, WordsComeInOrder) {
  expect_merged<std::uint64_t>([](std::uint64_t key, std::uint64_t) { return key; },
                               std::ranges::less{});
}

TEST(TwoWayMerge, PairsOfEqualKeysKeepTheirOrder) {
  expect_merged<Pair64>(
      [](std::uint64_t key, std::uint64_t place) {
        return Pair64{key, place};
      },
      [](const Pair64& left, const Pair64& right) { return left.key < right.key; });
}

}}  // namespace vortex::two_way_merge_test

#include "sort/kernels/slice_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tests/array/instruction_sets.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/key.h"

namespace vortex::slice_sort_test { namespace {

using namespace detail;

enum class Shape {
  kUniform,
  kNormal,    // encoded floating-point numbers
  kDense,     // each slice has few keys that may be different
  kClusters,  // keys that crowd around some, many of them equal
  kOneSlice,  // all but a few
  kTied,      // 32 bits and more in common with others
  kOneBit,
  kEqual
};
constexpr Shape kShapes[] = {Shape::kUniform,  Shape::kNormal, Shape::kDense,  Shape::kClusters,
                             Shape::kOneSlice, Shape::kTied,   Shape::kOneBit, Shape::kEqual};

template <typename Bits>
Bits key_of(Shape shape, std::size_t count, std::mt19937_64& random) {
  constexpr int kDigits = 8 * sizeof(Bits);
  using Float = std::conditional_t<sizeof(Bits) == 4, float, double>;
  const auto word = static_cast<Bits>(random());
  switch (shape) {
    case Shape::kUniform:
      return word;
    case Shape::kNormal:
      return to_key_bits(static_cast<Float>(std::normal_distribution<double>()(random)));
    case Shape::kDense:
      return static_cast<Bits>(1000 + word % (3 * count));
    case Shape::kClusters:
      return static_cast<Bits>((word >> 8) % 500 * (~Bits{0} / 500) + word % 5);
    case Shape::kOneSlice:
      return static_cast<Bits>(word % 100 == 0 ? word : word >> (kDigits / 2));
    case Shape::kTied:
      return static_cast<Bits>(word % 4 == 0 ? word >> 8 << 8 | word % 3 : word);
    case Shape::kOneBit:
      return Bits{1} << word % kDigits;
    case Shape::kEqual:
      return Bits{77};
  }
  return 0;
}

template <typename Bits>
std::vector<Bits> keys_of(Shape shape, std::size_t count, std::mt19937_64& random) {
  std::vector<Bits> keys(count);
  for (Bits& key : keys) key = key_of<Bits>(shape, count, random);
  return keys;
}

std::vector<std::size_t> counts() {
  std::vector<std::size_t> counts = {kMinSliced, 4097, 8192, 20001};
  if (!test::kShadowMemory) counts.push_back(kMaxSliced);
  return counts;
}

// Slices of such keys are what they are sorted by, unless a sample misleads.
bool suits(Shape shape) { return shape == Shape::kUniform || shape == Shape::kDense; }

// How many of the arrays that suit were sorted so.
class Suited {
 public:
  void add(Shape shape, bool sorted) {
    if (!suits(shape)) return;
    ++all_;
    sorted_ += sorted ? 1 : 0;
  }
  void expect_most() const { ASSERT_GT(2 * sorted_, all_); }

 private:
  int all_ = 0;
  int sorted_ = 0;
};

// Exactly as much as is asked for, so that the address sanitizer sees what lies beyond.
template <typename Word>
std::vector<std::uint64_t> room_for(std::size_t count) {
  return std::vector<std::uint64_t>((SliceRoom::bytes<Word>(count) + 7) / 8);
}

template <typename Bits>
class SliceSortTest : public testing::Test {};
using Words = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(SliceSortTest, Words);

TYPED_TEST(SliceSortTest, LikeStdSortOrNotAtAll) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    Suited suited;
    for (const std::size_t count : counts()) {
      auto room = room_for<TypeParam>(count);
      for (const Shape shape : kShapes) {
        const auto keys = keys_of<TypeParam>(shape, count, random);
        auto expected = keys, words = keys;
        std::sort(expected.begin(), expected.end());
        const bool sorted = slice_sort(words.data(), count, {room.data(), shape == Shape::kNormal});
        ASSERT_TRUE(test::same_bytes(words, sorted ? expected : keys))
            << count << ", " << static_cast<int>(shape);
        suited.add(shape, sorted);
      }
    }
    suited.expect_most();
  });
}

TEST(SlicePlaces, LikeStableSortOfPlaces) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    Suited suited;
    for (const std::size_t count : counts()) {
      auto room = room_for<std::uint32_t>(count);
      for (const Shape shape : kShapes) {
        const auto keys = keys_of<std::uint64_t>(shape, count, random);
        std::vector<std::uint32_t> expected(count), places(count);
        std::iota(expected.begin(), expected.end(), 0u);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
        const bool sorted = slice_places(keys.data(), count, places.data(), room.data());
        if (sorted) {
          ASSERT_TRUE(test::same_bytes(places, expected))
              << count << ", " << static_cast<int>(shape);
        }
        suited.add(shape, sorted);
      }
    }
    suited.expect_most();
  });
}

}}  // namespace vortex::slice_sort_test

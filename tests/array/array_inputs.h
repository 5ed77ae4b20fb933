// Arrays of numbers that calls on arrays are tried with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tests/array/number_order.h"
#include "tests/support/cases.h"

namespace vortex::test {

// All types of numbers, but for those that are made like one of these.
using NumberTypes =
    TypesOf<testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                           std::int32_t, float, std::uint64_t, std::int64_t, double>,
            testing::Types<std::uint8_t, std::int32_t, double>>;

enum class ArrayShape {
  kUniform,  // all bits at random, NaNs of both signs among them
  kEqual,
  kFew,   // seven values
  kZipf,  // ranks, hashed: many equal ones in a wide range
  kSorted,
  kReversed,  // no two equal
  kNearlySorted,
  kNarrow,   // few bits differ, not the lowest
  kLateLow,  // equal but for a few less ones at the end
  kPrefix,   // the upper bits agree in large groups, the lower ones do not
};
inline constexpr ArrayShape kArrayShapes[] = {
    ArrayShape::kUniform, ArrayShape::kEqual,    ArrayShape::kFew,          ArrayShape::kZipf,
    ArrayShape::kSorted,  ArrayShape::kReversed, ArrayShape::kNearlySorted, ArrayShape::kNarrow,
    ArrayShape::kLateLow, ArrayShape::kPrefix};

template <typename T>
T from_low_bits(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// A rank up to `count` from 64 random bits. The density of rank r falls as 1/r, by octaves.
inline std::uint64_t zipf_rank(std::uint64_t word, std::size_t count) {
  const std::uint64_t octave = std::uint64_t{1} << (word >> 48) % std::bit_width(count + 1);
  return std::min<std::uint64_t>(octave | (word & (octave - 1)), count);
}

template <typename T, typename Random>
T number_of(ArrayShape shape, std::size_t i, std::size_t count, Random& random) {
  const std::uint64_t word = random();
  const auto plain = [](std::uint64_t n) { return static_cast<T>(n); };
  switch (shape) {
    case ArrayShape::kUniform:
      return from_low_bits<T>(word);
    case ArrayShape::kEqual:
      return plain(77);
    case ArrayShape::kFew:
      if constexpr (std::is_floating_point_v<T>) {
        constexpr T kValues[] = {T(-0.0),
                                 T(0.0),
                                 std::numeric_limits<T>::infinity(),
                                 -std::numeric_limits<T>::infinity(),
                                 std::numeric_limits<T>::quiet_NaN(),
                                 -std::numeric_limits<T>::quiet_NaN(),
                                 T(1.5)};
        return kValues[word % 7];
      }
      return plain(word % 7 * 0x2492492492492492);
    case ArrayShape::kZipf:
      return from_low_bits<T>(zipf_rank(word, count) * 0x9e3779b97f4a7c15);
    case ArrayShape::kSorted:
      return plain(i);
    case ArrayShape::kReversed:
      return plain(count - i);
    case ArrayShape::kNearlySorted:
      return plain(word % 20 == 0 ? word % (count + 1) : i);
    case ArrayShape::kNarrow:
      return from_low_bits<T>((word & 0x30) | 0x41);
    case ArrayShape::kLateLow:
      return plain(i + 5 > count ? i % 3 : 100);
    case ArrayShape::kPrefix:
      return from_low_bits<T>((word % 5 << (8 * sizeof(T) - 5)) | (word >> 32 & 0x3ff));
  }
  return T{};
}

// Every small size, and others.
inline std::vector<std::size_t> small_sizes_and(std::initializer_list<std::size_t> others) {
  std::vector<std::size_t> sizes(71);
  std::iota(sizes.begin(), sizes.end(), std::size_t{0});
  sizes.insert(sizes.end(), others);
  return sizes;
}

template <typename T, typename Random>
std::vector<T> numbers_of(ArrayShape shape, std::size_t count, Random& random) {
  std::vector<T> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = number_of<T>(shape, i, count, random);
  return numbers;
}

}  // namespace vortex::test

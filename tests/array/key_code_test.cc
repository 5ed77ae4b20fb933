// The encoder of numbers, when compiled for a type and when the kind is known at run time, against
// the order that the language gives.
#include "vortex/detail/record/key.h"

#include <gtest/gtest.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/array/number_order.h"
#include "tests/support/random_seed.h"

namespace vortex::key_code_test { namespace {

template <typename K>
using BitsOf = std::conditional_t<
    sizeof(K) == 1, std::uint8_t,
    std::conditional_t<sizeof(K) == 2, std::uint16_t,
                       std::conditional_t<sizeof(K) == 4, std::uint32_t, std::uint64_t>>>;

template <typename K>
class KeyCode : public ::testing::Test {};
using Numbers =
    ::testing::Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                     std::int32_t, std::uint64_t, std::int64_t, float, double>;
TYPED_TEST_SUITE(KeyCode, Numbers);

// Bits at the edges of every kind (zeros, infinities, NaNs, the largest and the smallest), and
// random ones.
template <typename K>
std::vector<K> numbers() {
  auto random = test::test_random();
  using Bits = BitsOf<K>;
  std::vector<K> result;
  const auto add = [&](std::uint64_t bits) {
    result.push_back(std::bit_cast<K>(static_cast<Bits>(bits)));
  };
  for (int bit = 0; bit < std::numeric_limits<Bits>::digits; ++bit) {
    add(std::uint64_t{1} << bit);
    add((std::uint64_t{1} << bit) - 1);
    add(~(std::uint64_t{1} << bit));
  }
  if constexpr (std::floating_point<K>) {
    using Limits = std::numeric_limits<K>;
    for (const K value : {K{0}, Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                          Limits::denorm_min(), Limits::min()}) {
      result.push_back(value);
      result.push_back(-value);
    }
  }
  for (int i = 0; i < 100; ++i) add(random());
  return result;
}

TYPED_TEST(KeyCode, EncodesTheOrderOfNumbers) {
  using K = TypeParam;
  const std::vector<K> values = numbers<K>();
  constexpr int kBits = 8 * sizeof(K);
  const KeyEncoder<std::uint64_t> up(key_code<K>(Order::kAscending), kBits);
  const KeyEncoder<std::uint64_t> down(key_code<K>(Order::kDescending), kBits);
  const auto word = [](K value) {
    return std::uint64_t{std::bit_cast<BitsOf<K>>(value)} << (64 - kBits);
  };
  for (const K a : values) {
    ASSERT_EQ(up.decode(up.encode(word(a))), word(a));
    ASSERT_EQ(down.decode(down.encode(word(a))), word(a));
    if constexpr (kBits < 64) {
      ASSERT_EQ(up.encode(word(a)) << kBits, 0U) << "bits beside the key have changed";
      ASSERT_EQ(down.encode(word(a)) << kBits, 0U) << "bits beside the key have changed";
    }
    ASSERT_EQ(std::bit_cast<BitsOf<K>>(test::from_key_bits<K>(to_key_bits(a))),
              std::bit_cast<BitsOf<K>>(a));
    for (const K b : values) {
      ASSERT_EQ(up.encode(word(a)) < up.encode(word(b)), test::belongs_before(a, b))
          << a << " and " << b;
      ASSERT_EQ(down.encode(word(a)) < down.encode(word(b)), test::belongs_before(b, a))
          << a << " and " << b;
      ASSERT_EQ(to_key_bits(a) < to_key_bits(b), test::belongs_before(a, b)) << a << " and " << b;
      ASSERT_EQ(to_key_bits<Order::kDescending>(a) < to_key_bits<Order::kDescending>(b),
                test::belongs_before(b, a))
          << a << " and " << b;
    }
  }
}

}  // namespace

}  // namespace vortex::key_code_test

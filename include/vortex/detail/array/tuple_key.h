// Keys of several numbers, made one number or a string of bytes.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "vortex/detail/array/byte_key_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/key_code.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename Key, typename Places>
struct NumbersOfTuple;
template <typename Key, std::size_t... places>
struct NumbersOfTuple<Key, std::index_sequence<places...>> {
  template <std::size_t place>
  using Number = std::remove_cvref_t<std::tuple_element_t<place, Key>>;
  static constexpr bool kAllKeys = (RadixKey<Number<places>> && ...);
  static constexpr std::size_t kBytes = (sizeof(Number<places>) + ... + 0);
};
template <typename Key>
using NumbersOf = NumbersOfTuple<Key, std::make_index_sequence<std::tuple_size<Key>::value>>;

// std::tuple, std::pair and std::array of numbers; std::array of bytes is a string of bytes.
template <typename Key>
concept TupleKey = !ByteStringKey<Key> && requires {
  std::tuple_size<Key>::value;
}
&&(std::tuple_size<Key>::value > 0) && NumbersOf<Key>::kAllKeys;

// The bits of a number in its order, as many as it has, at the bottom of a word.
template <RadixKey K>
constexpr std::uint64_t narrow_bits(K key) noexcept {
  constexpr int kAbove = 64 - 8 * static_cast<int>(sizeof(K));
  constexpr KeyEncoder<std::uint64_t> kEncoder(key_code<K>(Order::kAscending), 64 - kAbove);
  std::uint64_t word = 0;
  if constexpr (std::floating_point<K>) {
    word = std::bit_cast<KeyBits<K>>(key);
  } else {
    word = static_cast<std::uint64_t>(key);
  }
  return kEncoder.encode(word << kAbove) >> kAbove;
}

// A key of several numbers as one: a number where 8 bytes hold them, or a std::array of bytes.
template <typename T, typename KeyFunction>
class PackedKey {
  using Tuple = std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>;
  static constexpr std::size_t kBytes = NumbersOf<Tuple>::kBytes;

 public:
  explicit PackedKey(KeyFunction key) : key_(std::move(key)) {}

  auto operator()(const T& record) const noexcept {
    return std::apply([](const auto&... numbers) { return pack(numbers...); },
                      Tuple(std::invoke(key_, record)));
  }

 private:
  template <typename... Numbers>
  static auto pack(const Numbers&... numbers) noexcept {
    if constexpr (kBytes <= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      // One number of 8 bytes is shifted by nothing, and all others by less.
      ((word = (kBytes == sizeof(Numbers) ? 0 : word << 8 * (sizeof(Numbers) % 8)) |
               narrow_bits(numbers)),
       ...);
      return word;
    } else {
      std::array<unsigned char, kBytes> bytes;
      std::size_t at = 0;
      const auto append = [&](std::uint64_t bits, std::size_t count) {
        for (std::size_t i = count; i-- > 0;)
          bytes[at++] = static_cast<unsigned char>(bits >> 8 * i);
      };
      (append(narrow_bits(numbers), sizeof(Numbers)), ...);
      return bytes;
    }
  }

  [[no_unique_address]] KeyFunction key_;
};

}}}  // namespace vortex::v0::detail

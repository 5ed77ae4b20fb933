// What tells keys their slices, and what goes there.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Equal slices of a range of keys. The lower half of a product tells where in its slice a key lies.
template <typename Bits>
class EqualSlices {
 public:
  // There are more keys than slices in the range.
  EqualSlices(const KeyRange<Bits>& range, std::size_t slices) noexcept : low_(range.low) {
    const int width = std::bit_width(static_cast<Bits>(range.high - range.low));
    up_ = std::max(32 - width, 0);
    down_ = std::max(width - 32, 0);
    factor_ = static_cast<std::uint32_t>((std::uint64_t{slices} << 32) /
                                         (std::uint64_t{scaled(range.high)} + 1));
  }
  std::uint64_t product(Bits key) const noexcept { return std::uint64_t{scaled(key)} * factor_; }
  std::uint32_t digit(Bits key) const noexcept {
    return static_cast<std::uint32_t>(product(key) >> 32);
  }
  // Whether keys that differ have products that differ above so many of the lowest bits.
  bool tell_all(int lowest) const noexcept {
    return down_ == 0 && (std::uint64_t{factor_} << up_) >> lowest != 0;
  }

 private:
  // 32 bits of the distance, of which the greatest key has the first.
  std::uint32_t scaled(Bits key) const noexcept {
    return static_cast<std::uint32_t>(static_cast<Bits>(key - low_) << up_ >> down_);
  }

  Bits low_;
  int up_;
  int down_;
  std::uint32_t factor_;
};

// The same of the values of encoded floating-point numbers.
template <typename Bits>
struct ValueSlices {
  LinearDigit<Bits> numbers;

  std::uint64_t product(Bits key) const noexcept {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(numbers.scaled(key) * 0x1p32));
  }
  std::uint32_t digit(Bits key) const noexcept { return numbers(key); }
  bool tell_all(int) const noexcept { return false; }
};

constexpr std::size_t kBatch = 128;
using Digits = std::array<std::uint16_t, kBatch>;

// What goes to the slices: the words themselves,
template <typename Bits>
struct WordItems {
  using Key = Bits;
  using Word = Bits;
  static constexpr int kGroup = 16;
  const Key* keys;

  template <typename Slices>
  const Word* make(const Slices& slices, int, std::size_t begin, std::size_t count, Digits& digits,
                   Word*) const noexcept {
    for (std::size_t i = 0; i < count; ++i)
      digits[i] = static_cast<std::uint16_t>(slices.digit(keys[begin + i]));
    return keys + begin;
  }
};
// or where a key lies in its slice, or in 2^group of them, as exactly as there is room for above
// its place.
struct PlaceItems {
  using Key = std::uint64_t;
  using Word = std::uint32_t;
  static constexpr int kGroup = 4;
  const Key* keys;
  Word place_mask;

  template <typename Slices>
  const Word* make(const Slices& slices, int group, std::size_t begin, std::size_t count,
                   Digits& digits, Word* words) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t product = slices.product(keys[begin + i]);
      digits[i] = static_cast<std::uint16_t>(product >> 32);
      words[i] = (static_cast<Word>(product >> group) & ~place_mask) | static_cast<Word>(begin + i);
    }
    return words;
  }
};

}}}  // namespace vortex::v0::detail

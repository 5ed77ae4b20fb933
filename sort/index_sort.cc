#include "sort/index_sort.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace vortex {
namespace {

constexpr int kMostDigitBits = 11;
constexpr std::size_t kMostDigits = std::size_t{1} << kMostDigitBits;

bool key_less(const Pair64& a, const Pair64& b) noexcept { return a.key < b.key; }

// The highest bits in which keys differ, so many that about 32 pairs share a digit. Every digit but
// the last has 4 bits or more, so that the recursions below are at most 16 deep.
struct Digit {
  Digit(const Pair64* pairs, std::size_t count) noexcept {
    std::uint64_t differing = 0;
    for (std::size_t i = 1; i < count; ++i) differing |= pairs[i].key ^ pairs[0].key;
    const int width = 64 - std::countl_zero(differing);
    const int bits =
        std::min(width, std::clamp(static_cast<int>(std::bit_width(count)) - 5, 4, kMostDigitBits));
    shift = width - bits;
    digits = std::size_t{1} << bits;
  }
  std::size_t operator()(const Pair64& pair) const noexcept {
    return pair.key >> shift & (digits - 1);
  }
  int shift;
  std::size_t digits;  // 1: all keys are equal
};

// Counts, and makes the counts the first place of each digit.
void count_digits(const Pair64* pairs, std::size_t count, const Digit& digit_of,
                  std::uint32_t* begins) noexcept {
  std::fill_n(begins, digit_of.digits, 0u);
  for (std::size_t i = 0; i < count; ++i) ++begins[digit_of(pairs[i])];
  std::uint32_t begin = 0;
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    begin += std::exchange(begins[digit], begin);
  }
}

// One pass to `spare`, and small parts sorted back to where they came from, larger ones by another
// pass.
void sort_with_spare(Pair64* pairs, std::size_t count, Pair64* spare,
                     SmallSort<Pair64> small) noexcept {
  const Digit digit_of(pairs, count);
  if (digit_of.digits == 1) return;
  std::uint32_t ends[kMostDigits];
  count_digits(pairs, count, digit_of, ends);
  for (std::size_t i = 0; i < count; ++i) spare[ends[digit_of(pairs[i])]++] = pairs[i];
  std::uint32_t begin = 0;
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    const std::size_t size = ends[digit] - begin;
    if (size > kSmallSortMost) {
      std::memcpy(static_cast<void*>(pairs + begin), spare + begin, size * sizeof(Pair64));
      sort_with_spare(pairs + begin, size, spare + begin, small);
    } else if (size != 0) {
      small(spare + begin, size, pairs + begin);
    }
    begin = ends[digit];
  }
}

// The same without spare room: pairs change places along cycles.
void sort_in_place(Pair64* pairs, std::size_t count, SmallSort<Pair64> small) noexcept {
  if (count <= kSmallSortMost) {
    small(pairs, count, pairs);
    return;
  }
  const Digit digit_of(pairs, count);
  if (digit_of.digits == 1) return;
  std::uint32_t fronts[kMostDigits], begins[kMostDigits + 1];
  count_digits(pairs, count, digit_of, begins);
  begins[digit_of.digits] = static_cast<std::uint32_t>(count);
  std::copy_n(begins, digit_of.digits, fronts);
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    while (fronts[digit] != begins[digit + 1]) {
      Pair64 held = pairs[fronts[digit]];
      for (std::size_t to = digit_of(held); to != digit; to = digit_of(held)) {
        std::swap(held, pairs[fronts[to]++]);
      }
      pairs[fronts[digit]++] = held;
    }
  }
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    const std::size_t size = begins[digit + 1] - begins[digit];
    if (size > 1) sort_in_place(pairs + begins[digit], size, small);
  }
}

}  // namespace

void sort_index_pairs(Pair64* pairs, std::size_t count, Pair64* spare) noexcept {
  if (std::is_sorted(pairs, pairs + count, key_less)) return;
  const SmallSort<Pair64> small = small_sort_for<Pair64>(isa_in_use());
  if (spare != nullptr && count > kSmallSortMost) {
    sort_with_spare(pairs, count, spare, small);
  } else {
    sort_in_place(pairs, count, small);
  }
}

}  // namespace vortex

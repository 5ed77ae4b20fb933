#include "sort/kernels/index_sort.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

constexpr int kMaxDigitBits = 11;
constexpr std::size_t kMaxDigits = std::size_t{1} << kMaxDigitBits;

std::uint64_t key_of(const Pair64& pair) noexcept { return pair.key; }
std::uint64_t key_of(std::uint64_t key) noexcept { return key; }

// The highest bits in which keys differ; about 32 items share a digit. Every digit but
// the last has 4 bits or more, so that the recursions below are at most 16 deep.
struct Digit {
  template <typename T>
  Digit(const T* items, std::size_t count) noexcept {
    std::uint64_t differing = 0;
    for (std::size_t i = 1; i < count; ++i) differing |= key_of(items[i]) ^ key_of(items[0]);
    const int width = 64 - std::countl_zero(differing);
    const int bits =
        std::min(width, std::clamp(static_cast<int>(std::bit_width(count)) - 5, 4, kMaxDigitBits));
    shift = width - bits;
    digits = std::size_t{1} << bits;
  }
  template <typename T>
  std::size_t operator()(const T& item) const noexcept {
    return key_of(item) >> shift & (digits - 1);
  }
  int shift;
  std::size_t digits;  // 1: all keys are equal
};

// Counts, and makes the counts the first place of each digit.
template <typename T>
void count_digits(const T* items, std::size_t count, const Digit& digit_of,
                  std::uint32_t* begins) noexcept {
  std::fill_n(begins, digit_of.digits, 0u);
  for (std::size_t i = 0; i < count; ++i) ++begins[digit_of(items[i])];
  std::uint32_t begin = 0;
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    begin += std::exchange(begins[digit], begin);
  }
}

// One pass to `spare`, and small parts sorted back to where they came from, larger ones by another
// pass.
template <typename T>
void sort_with_spare(T* items, std::size_t count, T* spare, detail::SmallSort<T> small) noexcept {
  const Digit digit_of(items, count);
  if (digit_of.digits == 1) return;
  std::uint32_t ends[kMaxDigits];
  count_digits(items, count, digit_of, ends);
  for (std::size_t i = 0; i < count; ++i) spare[ends[digit_of(items[i])]++] = items[i];
  std::uint32_t begin = 0;
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    const std::size_t size = ends[digit] - begin;
    if (size > detail::kMaxSmallSort) {
      std::memcpy(static_cast<void*>(items + begin), spare + begin, size * sizeof(T));
      sort_with_spare(items + begin, size, spare + begin, small);
    } else if (size != 0) {
      small(spare + begin, size, items + begin);
    }
    begin = ends[digit];
  }
}

// The same without spare room: items change places along cycles.
template <typename T>
void sort_in_place(T* items, std::size_t count, detail::SmallSort<T> small) noexcept {
  if (count <= detail::kMaxSmallSort) {
    small(items, count, items);
    return;
  }
  const Digit digit_of(items, count);
  if (digit_of.digits == 1) return;
  std::uint32_t fronts[kMaxDigits], begins[kMaxDigits + 1];
  count_digits(items, count, digit_of, begins);
  begins[digit_of.digits] = static_cast<std::uint32_t>(count);
  std::copy_n(begins, digit_of.digits, fronts);
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    while (fronts[digit] != begins[digit + 1]) {
      T held = items[fronts[digit]];
      for (std::size_t to = digit_of(held); to != digit; to = digit_of(held)) {
        std::swap(held, items[fronts[to]++]);
      }
      items[fronts[digit]++] = held;
    }
  }
  for (std::size_t digit = 0; digit < digit_of.digits; ++digit) {
    const std::size_t size = begins[digit + 1] - begins[digit];
    if (size > 1) sort_in_place(items + begins[digit], size, small);
  }
}

template <typename T>
void sort_items(T* items, std::size_t count, T* spare) noexcept {
  const auto less = [](const T& a, const T& b) { return key_of(a) < key_of(b); };
  if (std::is_sorted(items, items + count, less)) return;
  const detail::SmallSort<T> small = detail::small_sort_for<T>(detail::isa_in_use());
  if (spare != nullptr && count > detail::kMaxSmallSort) {
    sort_with_spare(items, count, spare, small);
  } else {
    sort_in_place(items, count, small);
  }
}

}  // namespace

void sort_index_pairs(Pair64* pairs, std::size_t count, Pair64* spare) noexcept {
  sort_items(pairs, count, spare);
}

void sort_bits(std::uint64_t* bits, std::size_t count, std::uint64_t* spare) noexcept {
  sort_items(bits, count, spare);
}

}}  // namespace vortex::v0

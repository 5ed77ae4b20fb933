#include "sort/index_sort.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace vortex {
namespace {

constexpr int kMostDigitBits = 11;

bool key_less(const Pair64& a, const Pair64& b) noexcept { return a.key < b.key; }

// One pass of counting by the highest bits in which the keys differ, into parts of about 32 pairs;
// those are sorted back to where they came from, larger ones by another pass. Every pass but the
// last takes 4 bits or more, so that the recursion is at most 16 deep.
void sort_by_digits(Pair64* pairs, std::size_t count, Pair64* spare,
                    SmallSort<Pair64> small) noexcept {
  if (count <= kSmallSortMost) {
    small(pairs, count, pairs);
    return;
  }
  std::uint64_t differing = 0;
  for (std::size_t i = 1; i < count; ++i) differing |= pairs[i].key ^ pairs[0].key;
  if (differing == 0) return;
  const int width = 64 - std::countl_zero(differing);
  const int digit_bits =
      std::min(width, std::clamp(static_cast<int>(std::bit_width(count)) - 5, 4, kMostDigitBits));
  const int shift = width - digit_bits;
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;

  std::uint32_t ends[std::size_t{1} << kMostDigitBits];
  std::fill_n(ends, mask + 1, 0u);
  for (std::size_t i = 0; i < count; ++i) ++ends[pairs[i].key >> shift & mask];
  std::uint32_t begin = 0;
  for (std::size_t digit = 0; digit <= mask; ++digit) {
    const std::uint32_t size = ends[digit];
    ends[digit] = begin;
    begin += size;
  }
  for (std::size_t i = 0; i < count; ++i) spare[ends[pairs[i].key >> shift & mask]++] = pairs[i];

  begin = 0;
  for (std::size_t digit = 0; digit <= mask; ++digit) {
    const std::size_t size = ends[digit] - begin;
    if (size <= kSmallSortMost) {
      if (size != 0) small(spare + begin, size, pairs + begin);
    } else {
      std::memcpy(static_cast<void*>(pairs + begin), spare + begin, size * sizeof(Pair64));
      sort_by_digits(pairs + begin, size, spare + begin, small);
    }
    begin = ends[digit];
  }
}

}  // namespace

void sort_index_pairs(Pair64* pairs, std::size_t count, Pair64* spare) noexcept {
  if (std::is_sorted(pairs, pairs + count, key_less)) return;
  if (spare == nullptr) {
    std::sort(pairs, pairs + count, key_less);
  } else {
    sort_by_digits(pairs, count, spare, small_sort_for<Pair64>(isa_in_use()));
  }
}

}  // namespace vortex

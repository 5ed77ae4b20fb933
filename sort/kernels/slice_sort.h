// Words, or places of keys, that the caches hold, distributed once to slices that the base case
// sorts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "vortex/detail/array/small_sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Fewer words are sorted as fast by quick_sort(); slices of more begin in more cache lines than the
// second-level cache holds.
inline constexpr std::size_t kMinSliced = std::size_t{1} << 12;
inline constexpr std::size_t kMaxSliced = std::size_t{1} << 17;
constexpr bool can_slice(std::size_t count) noexcept {
  return count >= kMinSliced && count <= kMaxSliced;
}

// Fewer words are sorted faster without slices.
template <typename Bits>
std::size_t least_words_to_slice() noexcept {
  return sizeof(Bits) == 4 && isa_in_use() == Isa::kAvx2 ? 4 * kMinSliced : kMinSliced;
}

// More words are cut by quick_sort() before, where the processor waits for stores to slices that
// begin in more lines than its first-level cache has. Intel's do, AMD's do not.
std::size_t most_words_to_slice() noexcept;

// What sorting words takes.
struct SliceRoom {
  void* memory = nullptr;  // at a cache line
  bool floats = false;     // the words are encoded floating-point numbers

  // So many bytes for `count` words of `Bits`. slice_places() takes those of 32-bit words.
  template <typename Bits>
  static VORTEX_EXPORT std::size_t bytes(std::size_t count) noexcept;
};

// Sorts words where they are, in ascending order, if can_slice(count). Returns false where another
// sort is faster, and nothing has changed.
VORTEX_EXPORT bool slice_sort(std::uint32_t* words, std::size_t count,
                              const SliceRoom& room) noexcept;
VORTEX_EXPORT bool slice_sort(std::uint64_t* words, std::size_t count,
                              const SliceRoom& room) noexcept;

// Which key comes where: places[i] becomes that of the i-th in order, and equal keys keep their
// order. The same otherwise; other keys than encoded numbers may be cut as if they were such.
VORTEX_EXPORT bool slice_places(const std::uint64_t* keys, std::size_t count, std::uint32_t* places,
                                void* room) noexcept;

}}}  // namespace vortex::v0::detail

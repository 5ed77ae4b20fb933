#include "vortex/detail/small_sort.h"

#include <bit>
#include <cstring>

#include "sort/memory/small_sort_kernels.h"
#include "vortex/detail/small_sort_portable.h"

namespace vortex::inline v0::detail {
namespace {

template <typename Key>
void small_sort_keys_portable(const Key* in, std::size_t count, Key* out) noexcept {
  small_sort_stable(in, count, out, [](Key key) { return key; });
}

void small_sort_pair64_portable(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  small_sort_stable(in, count, out, [](const Pair64& record) { return record.key; });
}

#if defined(__x86_64__)
// Stable: sorts words of a key, counted from the smallest, and the place of its pair below it. Keys
// that lie too far apart for that go the portable way; slices of a sort hardly ever hold any.
template <SmallSort<std::uint64_t> kSortWords>
void small_sort_pair64_by_place(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  constexpr int kPlaceBits = std::bit_width(kMaxSmallSort - 1);
  constexpr std::uint64_t kPlace = (std::uint64_t{1} << kPlaceBits) - 1;
  if (count == 0) return;  // no record, no pointer
  std::uint64_t low = in[0].key;
  std::uint64_t high = low;
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint64_t key = in[i].key;
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  if ((high - low) >> (64 - kPlaceBits) != 0) return small_sort_pair64_portable(in, count, out);
  std::uint64_t words[kMaxSmallSort];
  for (std::size_t i = 0; i < count; ++i) words[i] = (in[i].key - low) << kPlaceBits | i;
  kSortWords(words, count, words);
  Pair64 held[kMaxSmallSort];
  if (in == out) {
    std::memcpy(held, in, count * sizeof(Pair64));
    in = held;
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = in[words[i] & kPlace];
}
#endif

}  // namespace

template <>
SmallSort<std::uint32_t> small_sort_for<std::uint32_t>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_u32_avx512;
  if (isa == Isa::kAvx2) return &small_sort_u32_avx2;
#endif
  return &small_sort_keys_portable<std::uint32_t>;
}

template <>
SmallSort<std::uint64_t> small_sort_for<std::uint64_t>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_u64_avx512;
  if (isa == Isa::kAvx2) return &small_sort_u64_avx2;
#endif
  return &small_sort_keys_portable<std::uint64_t>;
}

template <>
SmallSort<Pair64> small_sort_for<Pair64>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_pair64_avx512;
#endif
  return stable_small_sort_of_pairs(isa);
}

SmallSort<Pair64> stable_small_sort_of_pairs([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_pair64_by_place<&small_sort_u64_avx512>;
  if (isa == Isa::kAvx2) return &small_sort_pair64_by_place<&small_sort_u64_avx2>;
#endif
  return &small_sort_pair64_portable;
}

}  // namespace vortex::inline v0::detail

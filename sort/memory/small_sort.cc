#include "vortex/detail/array/small_sort.h"

#include "sort/memory/small_sort_avx512.h"
#include "vortex/detail/array/small_sort_by_place.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

template <typename Key>
void small_sort_keys_portable(const Key* in, std::size_t count, Key* out) noexcept {
  small_sort_stable(in, count, out, [](Key key) { return key; });
}

// Stable.
template <SmallSort<std::uint64_t> kSortWords>
void small_sort_pair64_by_place(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  small_sort_by_place(
      in, count, out, [](const Pair64& pair) { return pair.key; }, kSortWords);
}

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
  return &small_sort_pair64_by_place<&small_sort_keys_portable<std::uint64_t>>;
}

}}}  // namespace vortex::v0::detail

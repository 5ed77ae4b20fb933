#include "sort/memory/small_sort.h"

#include "sort/memory/small_sort_kernels.h"
#include "sort/memory/small_sort_portable.h"

namespace vortex::inline v0 {
namespace {

template <typename Key>
void small_sort_keys_portable(const Key* in, std::size_t count, Key* out) noexcept {
  small_sort_stable(in, count, out, [](Key key) { return key; });
}

void small_sort_pair64_portable(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  small_sort_stable(in, count, out, [](const Pair64& record) { return record.key; });
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
  return &small_sort_pair64_portable;
}

}  // namespace vortex::inline v0

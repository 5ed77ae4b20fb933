// Loops whose vectors are as wide as the instructions in use have them.
#pragma once

#include "vortex/detail/array/small_sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

#if defined(__x86_64__)

template <typename Work>
[[gnu::flatten, gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] auto with_avx512(
    const Work& work) noexcept {
  return work();
}

template <typename Work>
[[gnu::flatten, gnu::target("avx2")]] auto with_avx2(const Work& work) noexcept {
  return work();
}

#endif

// Returns work(), which becomes code of its own for each set of instructions, with all that it
// calls and that may be inlined. `work` must not throw.
template <typename Work>
auto with_wide_loops(const Work& work) noexcept {
  switch (isa_in_use()) {
#if defined(__x86_64__)
    case Isa::kAvx512:
      return with_avx512(work);
    case Isa::kAvx2:
      return with_avx2(work);
#endif
    default:
      return work();
  }
}

}}}  // namespace vortex::v0::detail

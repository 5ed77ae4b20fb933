#include "sort/kernels/quick_sort.h"

#include <cstddef>
#include <cstdint>

#include "sort/kernels/vector_sorts.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

template <typename Bits>
bool sort([[maybe_unused]] Bits* words, [[maybe_unused]] std::size_t count,
          [[maybe_unused]] int levels, [[maybe_unused]] const SliceRoom& room) noexcept {
  switch (isa_in_use()) {
#if defined(__x86_64__)
    case Isa::kAvx512:
      return quick_sort_avx512(words, count, levels, room);
    case Isa::kAvx2:
      return quick_sort_avx2(words, count, levels, room);
#endif
    default:
      return false;
  }
}

}  // namespace

bool quick_sort(std::uint32_t* words, std::size_t count, int levels,
                const SliceRoom& room) noexcept {
  return sort(words, count, levels, room);
}
bool quick_sort(std::uint64_t* words, std::size_t count, int levels,
                const SliceRoom& room) noexcept {
  return sort(words, count, levels, room);
}

}}}  // namespace vortex::v0::detail

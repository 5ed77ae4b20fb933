// Sorts of arrays of numbers and of pairs.
#include <cstddef>
#include <cstdint>
#include <span>

#include "capi/sort/sort_options.h"
#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

template <typename T>
int sort_array(T* array, std::size_t count, const vtx_sort_options* options) noexcept {
  return answer(thread_error(), [&] {
    expect_array(array, count, sizeof(T), "the records to sort");
    sort(std::span(array, count), sort_options_of(options));
  });
}

template <typename Pair>
int sort_pairs(Pair* pairs, std::size_t count, const vtx_sort_options* options) noexcept {
  using Sorted = KeyValue<decltype(Pair::key), decltype(Pair::value)>;
  static_assert(sizeof(Pair) == sizeof(Sorted) && offsetof(Pair, value) == offsetof(Sorted, value));
  return sort_array(reinterpret_cast<Sorted*>(pairs), count, options);
}

}  // namespace

}}}  // namespace vortex::v0::capi

// The sorts of a type of keys.
#define DEFINE_SORTS(Key, name)                                                   \
  int vtx_sort_##name(Key* keys, size_t count, const vtx_sort_options* options) { \
    return vortex::capi::sort_array(keys, count, options);                        \
  }                                                                               \
  int vtx_sort_pairs_##name(vtx_pair_##name* pairs, size_t count,                 \
                            const vtx_sort_options* options) {                    \
    return vortex::capi::sort_pairs(pairs, count, options);                       \
  }

DEFINE_SORTS(int32_t, i32)
DEFINE_SORTS(uint32_t, u32)
DEFINE_SORTS(float, f32)
DEFINE_SORTS(int64_t, i64)
DEFINE_SORTS(uint64_t, u64)
DEFINE_SORTS(double, f64)

void vtx_release_sort_memory(void) { vortex::release_sort_memory(); }

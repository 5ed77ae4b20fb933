// Sorts of arrays of numbers and of pairs.
#include <cstddef>
#include <cstdint>
#include <span>

#include "capi/handle.h"
#include "capi/sort_options.h"
#include "vortex/c.h"
#include "vortex/sort.h"

namespace vortex::inline v0::capi {
namespace {

template <typename T>
int sort_numbers(T* keys, std::size_t count, const vtx_sort_options* options) noexcept {
  return answer(thread_error(), [&] { sort(std::span(keys, count), sort_options_of(options)); });
}

template <typename Key, typename Value, typename Pair>
int sort_pairs(Pair* pairs, std::size_t count, const vtx_sort_options* options) noexcept {
  using Sorted = KeyValue<Key, Value>;
  static_assert(sizeof(Pair) == sizeof(Sorted) && offsetof(Pair, value) == offsetof(Sorted, value));
  return answer(thread_error(), [&] {
    sort(std::span(reinterpret_cast<Sorted*>(pairs), count), sort_options_of(options));
  });
}

}  // namespace
}  // namespace vortex::inline v0::capi

using vortex::capi::sort_numbers;
using vortex::capi::sort_pairs;

int vtx_sort_i32(int32_t* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}
int vtx_sort_u32(uint32_t* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}
int vtx_sort_f32(float* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}
int vtx_sort_i64(int64_t* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}
int vtx_sort_u64(uint64_t* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}
int vtx_sort_f64(double* keys, size_t count, const vtx_sort_options* options) {
  return sort_numbers(keys, count, options);
}

int vtx_sort_pairs_i32(vtx_pair_i32* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<std::int32_t, std::uint32_t>(pairs, count, options);
}
int vtx_sort_pairs_u32(vtx_pair_u32* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<std::uint32_t, std::uint32_t>(pairs, count, options);
}
int vtx_sort_pairs_f32(vtx_pair_f32* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<float, std::uint32_t>(pairs, count, options);
}
int vtx_sort_pairs_i64(vtx_pair_i64* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<std::int64_t, std::uint64_t>(pairs, count, options);
}
int vtx_sort_pairs_u64(vtx_pair_u64* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<std::uint64_t, std::uint64_t>(pairs, count, options);
}
int vtx_sort_pairs_f64(vtx_pair_f64* pairs, size_t count, const vtx_sort_options* options) {
  return sort_pairs<double, std::uint64_t>(pairs, count, options);
}

void vtx_release_sort_memory(void) { vortex::release_sort_memory(); }

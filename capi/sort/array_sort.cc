// Sorts of arrays of numbers and of pairs; orders, selections and sorts of arrays of numbers whose
// type is told when the program runs.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/sort/array_arguments.h"
#include "capi/sort/sort_fields.h"
#include "capi/sort/sort_options.h"
#include "capi/stream/handle.h"
#include "sort/arrays/numbers.h"
#include "vortex/array_calls.h"
#include "vortex/c.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/error.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace capi {

detail::NumberForm number_form_of(int number, bool descending) {
  if (number < VTX_U8 || number > VTX_F64) {
    throw Error(EINVAL, "the type of numbers is " + std::to_string(number) +
                            "; the last one that there is, VTX_F64, is " + std::to_string(VTX_F64));
  }
  if (number >= VTX_F32) return {number == VTX_F32 ? 4U : 8U, {KeyKind::kFloat, descending}};
  return {std::size_t{1} << number % 4,
          {number < VTX_I8 ? KeyKind::kUnsigned : KeyKind::kSigned, descending}};
}

namespace {

template <typename T>
int sort_array(T* array, std::size_t count, const vtx_sort_options* options) noexcept {
  return answer(thread_error(), [&] {
    expect_array(array, count, sizeof(T), "the records to sort");
    sort(std::span(array, count), options_of<SortOptions>(options));
  });
}

template <typename Pair>
int sort_pairs(Pair* pairs, std::size_t count, const vtx_sort_options* options) noexcept {
  using Sorted = KeyValue<decltype(Pair::key), decltype(Pair::value)>;
  static_assert(sizeof(Pair) == sizeof(Sorted) && offsetof(Pair, value) == offsetof(Sorted, value));
  return sort_array(reinterpret_cast<Sorted*>(pairs), count, options);
}

// Calls use(form, options) with what the caller has said of an array of numbers.
template <typename Use>
int with_numbers(const void* numbers, std::size_t count, int number, const vtx_sort_options* given,
                 const Use& use) noexcept {
  return answer(thread_error(), [&] {
    const auto options = options_of<SortOptions>(given);
    const detail::NumberForm form = number_form_of(number, options.order == Order::kDescending);
    expect_array(numbers, count, form.bytes, "the numbers");
    use(form, options);
  });
}

detail::Selection selection_of(void* numbers, std::size_t count, const detail::NumberForm& form,
                               const SortOptions& options) {
  return {numbers, form.bytes,     count, detail::keys_of_numbers(numbers, form),
          &form,   options.threads};
}

std::vector<detail::Column> columns_of(const vtx_column* columns, std::size_t column_count,
                                       std::size_t count) {
  expect_array(columns, column_count, sizeof *columns, "the columns");
  std::vector<detail::Column> values;
  for (std::size_t i = 0; i < column_count; ++i) {
    if (columns[i].bytes == 0)
      throw Error(EINVAL, "the values of column " + std::to_string(i) + " have 0 bytes");
    expect_array(columns[i].values, count, columns[i].bytes, "the values of a column");
    values.push_back({columns[i].values, columns[i].bytes});
  }
  return values;
}

// The bits of numbers are in the order of the numbers, and as different.
template <typename Bits>
std::size_t first_of_each(void* numbers, std::size_t count, unsigned threads) {
  return detail::first_of_each(
      static_cast<Bits*>(numbers), count, [](Bits bits) { return bits; }, threads);
}

}  // namespace

}}}  // namespace vortex::v0::capi

using namespace vortex::capi;

int vtx_argsort(const void* keys, size_t count, int number, void* places, size_t place_bytes,
                const vtx_sort_options* options) {
  return with_numbers(keys, count, number, options, [&](const auto& form, const auto& wanted) {
    with_places(places, place_bytes, count, [&](auto* to) {
      argsort_to(vortex::detail::keys_of_numbers(keys, form), count, to, wanted.threads);
    });
  });
}

int vtx_sort_by_key(void* keys, size_t count, int number, const vtx_column* columns,
                    size_t column_count, const vtx_sort_options* options) {
  return with_numbers(keys, count, number, options, [&](const auto& form, const auto& wanted) {
    vortex::detail::sort_by_key(keys, form, count, columns_of(columns, column_count, count),
                                wanted.threads);
  });
}

int vtx_select(void* numbers, size_t count, int number, size_t k, const vtx_sort_options* options) {
  return with_numbers(numbers, count, number, options, [&](const auto& form, const auto& wanted) {
    vortex::detail::select(selection_of(numbers, count, form, wanted), k);
  });
}

int vtx_partial_sort(void* numbers, size_t count, int number, size_t k,
                     const vtx_sort_options* options) {
  return with_numbers(numbers, count, number, options, [&](const auto& form, const auto& wanted) {
    vortex::detail::partial_sort(selection_of(numbers, count, form, wanted), k);
  });
}

int vtx_sort_unique(void* numbers, size_t count, int number, size_t* kept,
                    const vtx_sort_options* options) {
  return with_numbers(numbers, count, number, options, [&](const auto& form, const auto& wanted) {
    expect_place(kept);
    vortex::detail::sort_numbers(numbers, form, count, wanted.threads);
    *kept = form.bytes == 1   ? first_of_each<std::uint8_t>(numbers, count, wanted.threads)
            : form.bytes == 2 ? first_of_each<std::uint16_t>(numbers, count, wanted.threads)
            : form.bytes == 4 ? first_of_each<std::uint32_t>(numbers, count, wanted.threads)
                              : first_of_each<std::uint64_t>(numbers, count, wanted.threads);
  });
}

int vtx_sort_chunks(const vtx_chunk* chunks, size_t chunk_count, int number,
                    const vtx_sort_options* options) {
  return with_numbers(nullptr, 0, number, options, [&](const auto& form, const auto& wanted) {
    std::size_t count = 0;
    const auto pieces = pieces_of(chunks, chunk_count, form.bytes, "numbers", count);
    vortex::detail::sort_joined(pieces, wanted.threads, [&](void* together) {
      vortex::detail::sort_numbers(together, form, count, wanted.threads);
    });
  });
}

// The sorts of a type of keys.
// NOLINTBEGIN(bugprone-macro-parentheses): Key is a type
#define DEFINE_SORTS(Key, name)                                                   \
  int vtx_sort_##name(Key* keys, size_t count, const vtx_sort_options* options) { \
    return vortex::capi::sort_array(keys, count, options);                        \
  }                                                                               \
  int vtx_sort_pairs_##name(vtx_pair_##name* pairs, size_t count,                 \
                            const vtx_sort_options* options) {                    \
    return vortex::capi::sort_pairs(pairs, count, options);                       \
  }
// NOLINTEND(bugprone-macro-parentheses)

DEFINE_SORTS(int32_t, i32)
DEFINE_SORTS(uint32_t, u32)
DEFINE_SORTS(float, f32)
DEFINE_SORTS(int64_t, i64)
DEFINE_SORTS(uint64_t, u64)
DEFINE_SORTS(double, f64)

void vtx_release_sort_memory(void) { vortex::release_sort_memory(); }

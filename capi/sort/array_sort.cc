// Sorts of arrays of numbers, of pairs and of records; orders, selections and sorts of arrays of
// numbers whose type is told when the program runs.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/sort/sort_options.h"
#include "capi/stream/handle.h"
#include "sort/arrays/numbers.h"
#include "vortex/array_calls.h"
#include "vortex/c.h"
#include "vortex/detail/array/sized_records.h"
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

// Sorts each range of places whose leading bits are equal.
void sort_ties(std::span<Pair64> places, const std::byte* records, const RecordFormat& format) {
  const auto before = [&](const Pair64& a, const Pair64& b) {
    const int order = format.compare(records + a.value * format.record_bytes(),
                                     records + b.value * format.record_bytes());
    return order != 0 ? order < 0 : a.value < b.value;
  };
  for (auto begin = places.begin(); begin != places.end();) {
    const auto end = std::find_if(begin, places.end(),
                                  [&](const Pair64& place) { return place.key != begin->key; });
    if (end - begin > 1) std::sort(begin, end, before);
    begin = end;
  }
}

// The first bits of records' keys, as a number. `format` must live as long.
detail::SortKey leading_key(const RecordFormat& format) noexcept {
  return {
      .function = &format,
      .bits_of =
          [](const void* by, const void* record) noexcept {
            return static_cast<const RecordFormat*>(by)->leading_bits(
                static_cast<const std::byte*>(record));
          },
      .take_bits =
          [](const void* by, const void* records, std::size_t count, std::uint64_t* bits) noexcept {
            const auto& format = *static_cast<const RecordFormat*>(by);
            const auto* record = static_cast<const std::byte*>(records);
            for (std::size_t i = 0; i < count; ++i, record += format.record_bytes())
              bits[i] = format.leading_bits(record);
          }};
}

// Sorts records that are in the order of their leading bits by all of their keys.
void sort_tied_records(std::byte* records, std::size_t count, const RecordFormat& format) {
  const std::size_t bytes = format.record_bytes();
  const std::unique_ptr<std::byte[]> held(new std::byte[detail::moving_bytes(bytes)]);
  std::vector<Pair64> places;
  std::uint64_t next = count == 0 ? 0 : format.leading_bits(records);
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t here = next;
    std::byte* const begin = records + i * bytes;
    places.clear();
    do {
      places.push_back({here, places.size()});
    } while (++i < count && (next = format.leading_bits(records + i * bytes)) == here);
    if (places.size() == 1) continue;
    sort_ties(places, begin, format);
    detail::move_to_places(begin, bytes, places.data(), places.size(), held.get());
  }
}

// The only key of records, where it is a number as this machine has them.
const vtx_key* only_number(const vtx_record_format* format) noexcept {
  if (format->key_count != 1) return nullptr;
  const vtx_key& key = format->keys[0];
  const bool here = (key.big_endian != 0) == (std::endian::native == std::endian::big);
  const bool word = key.length == 4 || key.length == 8;
  return key.kind != VTX_KEY_BYTES && here && word ? &key : nullptr;
}

// Whether records are moved with their keys: a number of records of a size that has code of its own
// takes a tenth of the time that one visit to each, in the order of their places, takes. Any other
// key would be made anew at every level, which takes two to three times as long as that visit.
bool are_carried(std::size_t record_bytes, const vtx_key* number) noexcept {
  return number != nullptr &&
         std::find(detail::kCompiledSizes.begin(), detail::kCompiledSizes.end(), record_bytes) !=
             detail::kCompiledSizes.end();
}

detail::SortKey sort_key_of(const vtx_key& number, bool descending) noexcept {
  const KeyKind kind = number.kind == VTX_KEY_UNSIGNED ? KeyKind::kUnsigned
                       : number.kind == VTX_KEY_SIGNED ? KeyKind::kSigned
                                                       : KeyKind::kFloat;
  detail::SortKey key;
  key.code = {kind, (number.descending != 0) != descending};
  key.place = {static_cast<int>(number.offset), static_cast<int>(number.length)};
  return key;
}

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
std::size_t first_of_each(void* numbers, std::size_t count) {
  return detail::first_of_each(static_cast<Bits*>(numbers), count, [](Bits bits) { return bits; });
}

}  // namespace

}}}  // namespace vortex::v0::capi

using namespace vortex::capi;

int vtx_argsort(const void* keys, size_t count, int number, void* places, size_t place_bytes,
                const vtx_sort_options* options) {
  return with_numbers(keys, count, number, options, [&](const auto& form, const auto& wanted) {
    if (place_bytes != 4 && place_bytes != 8) {
      throw vortex::Error(EINVAL, "places have 4 or 8 bytes, not " + std::to_string(place_bytes));
    }
    expect_array(places, count, place_bytes, "the places");
    if (place_bytes == 4 && count > 0 && count - 1 > UINT32_MAX) {
      throw vortex::Error(EINVAL,
                          "the places of " + std::to_string(count) + " keys do not fit in 4 bytes");
    }
    const auto source = vortex::detail::keys_of_numbers(keys, form);
    if (place_bytes == 4) {
      vortex::detail::argsort_32(source, count, places, wanted.threads);
    } else {
      vortex::detail::argsort_64(source, count, places, wanted.threads);
    }
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
    *kept = form.bytes == 1   ? first_of_each<std::uint8_t>(numbers, count)
            : form.bytes == 2 ? first_of_each<std::uint16_t>(numbers, count)
            : form.bytes == 4 ? first_of_each<std::uint32_t>(numbers, count)
                              : first_of_each<std::uint64_t>(numbers, count);
  });
}

int vtx_sort_chunks(const vtx_chunk* chunks, size_t chunk_count, int number,
                    const vtx_sort_options* options) {
  return with_numbers(nullptr, 0, number, options, [&](const auto& form, const auto& wanted) {
    expect_array(chunks, chunk_count, sizeof *chunks, "the chunks");
    std::vector<vortex::detail::WholeChunk> pieces;
    std::size_t count = 0;
    for (std::size_t i = 0; i < chunk_count; ++i) {
      expect_array(chunks[i].numbers, chunks[i].count, form.bytes, "the numbers of a chunk");
      pieces.push_back({chunks[i].numbers, chunks[i].count * form.bytes});
      count = vortex::detail::saturating_sum(count, chunks[i].count);
    }
    expect_array(pieces.data(), count, form.bytes, "the numbers of all chunks");
    vortex::detail::sort_joined(pieces, wanted.threads, [&](void* together) {
      vortex::detail::sort_numbers(together, form, count, wanted.threads);
    });
  });
}

int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                     const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    const bool descending = wanted.order == vortex::Order::kDescending;
    if (descending) by = by.reversed();
    const vtx_key* const number = vortex::capi::only_number(format);
    if (vortex::capi::are_carried(by.record_bytes(), number)) {
      vortex::detail::sort_records(records, count, by.record_bytes(),
                                   vortex::capi::sort_key_of(*number, descending), wanted.threads);
      return;
    }
    const auto* const bytes = static_cast<const std::byte*>(records);
    // Places whose leading bits are equal are sorted by the keys, where the bits do not decide.
    vortex::detail::sort_by_places(
        records, by.record_bytes(), count, wanted.threads,
        [&](std::size_t i) { return by.leading_bits(bytes + i * by.record_bytes()); },
        [&](vortex::Pair64* places) {
          if (!by.leading_bits_decide()) vortex::capi::sort_ties({places, count}, bytes, by);
        });
  });
}

int vtx_sort_records_into(const void* records, size_t count, const vtx_record_format* format,
                          void* sorted, const vtx_sort_options* options) {
  return answer(thread_error(), [&] {
    const auto wanted = options_of<vortex::SortOptions>(options);
    vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    expect_array(sorted, count, by.record_bytes(), "the room for sorted records");
    const bool descending = wanted.order == vortex::Order::kDescending;
    if (descending) by = by.reversed();
    const vtx_key* const number = vortex::capi::only_number(format);
    vortex::detail::sort_records_into(records, count, by.record_bytes(),
                                      number != nullptr
                                          ? vortex::capi::sort_key_of(*number, descending)
                                          : vortex::capi::leading_key(by),
                                      sorted, wanted.threads);
    if (number == nullptr && !by.leading_bits_decide())
      vortex::capi::sort_tied_records(static_cast<std::byte*>(sorted), count, by);
  });
}

int vtx_sort_unique_records(void* records, size_t count, const vtx_record_format* format,
                            size_t* kept, const vtx_sort_options* options) {
  int error = 0;
  const int refused = answer(thread_error(), [&] {
    expect_place(kept);
    // Before the sort: behind it nothing may fail.
    const vortex::RecordFormat by = record_format_of(format);
    error = vtx_sort_records(records, count, format, options);
    if (error != 0) return;
    const std::size_t bytes = by.record_bytes();
    const auto at = [&](std::size_t i) { return static_cast<std::byte*>(records) + i * bytes; };
    *kept = std::min<std::size_t>(count, 1);
    for (std::size_t i = 1; i < count; ++i) {
      if (by.compare(at(*kept - 1), at(i)) == 0) continue;
      if (*kept != i) std::memcpy(at(*kept), at(i), bytes);
      ++*kept;
    }
  });
  return refused != 0 ? refused : error;
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

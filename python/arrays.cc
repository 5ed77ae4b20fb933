// Arrays in memory: numbers in numpy's order, byte strings and records.
#include <vortex/array_calls.h>
#include <vortex/c.h>
#include <vortex/error.h>
#include <vortex/sort.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include "module.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

// Beside the vtx_numbers: int64 of which the least is NaT.
constexpr int kTime = VTX_F64 + 1;

struct Time {
  std::int64_t value;
};

int number_of(int kind) { return kind == kTime ? VTX_I64 : kind; }

// Calls use(T{}) with the type of a kind.
template <typename Use>
auto with_type(int kind, const Use& use) {
  switch (kind) {
    case VTX_U8:
      return use(std::uint8_t{});
    case VTX_U16:
      return use(std::uint16_t{});
    case VTX_U32:
      return use(std::uint32_t{});
    case VTX_U64:
      return use(std::uint64_t{});
    case VTX_I8:
      return use(std::int8_t{});
    case VTX_I16:
      return use(std::int16_t{});
    case VTX_I32:
      return use(std::int32_t{});
    case VTX_I64:
      return use(std::int64_t{});
    case VTX_F32:
      return use(float{});
    case VTX_F64:
      return use(double{});
    case kTime:
      return use(Time{});
    default:
      throw std::invalid_argument("no such kind of number");
  }
}

// What numpy puts behind everything else.
template <typename T>
bool is_missing(T value) noexcept {
  if constexpr (std::floating_point<T>) {
    return value != value;
  } else if constexpr (std::same_as<T, Time>) {
    return value.value == std::numeric_limits<std::int64_t>::min();
  } else {
    return false;
  }
}

template <typename T>
constexpr bool kHasMissing = std::floating_point<T> || std::same_as<T, Time>;

void check(int result) {
  if (result == -ENOMEM) throw std::bad_alloc();
  if (result != 0) throw vortex::Error(-result, vtx_strerror(nullptr));
}

vtx_sort_options options_of(bool descending, unsigned threads) {
  return {.descending = descending ? 1 : 0, .stable = 1, .threads = threads};
}

template <typename T>
std::span<T> elements(const Buffer& buffer) {
  return {reinterpret_cast<T*>(buffer.data()), buffer.bytes() / sizeof(T)};
}

// The total order of bits puts NaNs of one sign, and NaT, in front.
template <typename T>
void move_missing_behind(std::span<T> sorted) {
  const auto first = std::find_if_not(sorted.begin(), sorted.end(), is_missing<T>);
  std::rotate(sorted.begin(), first, sorted.end());
}

// Of sorted elements with different bits: those are equal that are missing, and zeros of both
// signs.
template <typename T>
std::size_t keep_one_of_equal(std::span<T> sorted, bool descending) {
  move_missing_behind(sorted);
  auto end = std::partition_point(sorted.begin(), sorted.end(),
                                  [](T value) { return !is_missing(value); });
  if (end != sorted.end()) ++end;
  if constexpr (std::floating_point<T>) {
    const auto zero = std::partition_point(
        sorted.begin(), end, [=](T value) { return descending ? value > 0 : value < 0; });
    if (end - zero > 1 && zero[0] == 0 && zero[1] == 0) end = std::move(zero + 2, end, zero + 1);
  }
  return static_cast<std::size_t>(end - sorted.begin());
}

template <typename T>
void sort_row(std::span<T> row, int kind, const vtx_sort_options& options) {
  const vtx_chunk chunk{row.data(), row.size()};
  check(vtx_sort_chunks(&chunk, 1, number_of(kind), &options));
  if constexpr (kHasMissing<T>) move_missing_behind(row);
}

void sort_rows(nb::handle array, int kind, std::size_t row, bool descending, unsigned threads) {
  const Buffer buffer(array, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  const vtx_sort_options options = options_of(descending, threads);
  with_type(kind, [&](auto sample) {
    const auto all = elements<decltype(sample)>(buffer);
    for (std::size_t at = 0; at < all.size(); at += row) {
      sort_row(all.subspan(at, row), kind, options);
    }
  });
}

// Bits whose order is numpy's: -0.0 equals 0.0, and what is missing comes last in either direction.
// Without a branch, so that the compiler makes vectors of a loop of them.
template <std::floating_point T>
std::uint64_t key_of(T value, bool descending) noexcept {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  constexpr auto kInfinite = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity());
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value) + 0.0);
  const std::uint64_t missing = 0 - ((kInfinite - (bits & ~kSign)) >> 63);
  const std::uint64_t encoded = bits ^ ((0 - (bits >> 63)) | kSign);
  return (encoded ^ (0 - std::uint64_t{descending})) | missing;
}
std::uint64_t key_of(Time time, bool descending) noexcept {
  if (is_missing(time)) return ~std::uint64_t{0};
  const std::uint64_t bits = (static_cast<std::uint64_t>(time.value) ^ std::uint64_t{1} << 63) - 1;
  return descending ? ~std::uint64_t{0} - 1 - bits : bits;
}

void argsort_rows(nb::handle array, int kind, std::size_t row, nb::handle places, bool descending,
                  unsigned threads) {
  const Buffer keys(array, Buffer::Use::kRead);
  const Buffer out(places, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  const auto to = elements<std::int64_t>(out);
  with_type(kind, [&](auto sample) {
    using T = decltype(sample);
    const auto all = elements<const T>(keys);
    if (to.size() < all.size()) throw std::invalid_argument("fewer places than keys");
    for (std::size_t at = 0; at < all.size(); at += row) {
      if constexpr (kHasMissing<T>) {
        vortex::argsort_into(all.subspan(at, row),
                             [=](const T& value) noexcept { return key_of(value, descending); },
                             to.subspan(at, row), {.threads = threads});
      } else {
        const vtx_sort_options options = options_of(descending, threads);
        check(vtx_argsort(&all[at], row, kind, &to[at], sizeof(std::int64_t), &options));
      }
    }
  });
}

vortex::SortOptions string_options(bool descending, unsigned threads) {
  return {.order = descending ? vortex::Order::kDescending : vortex::Order::kAscending,
          .stable = true,
          .threads = threads};
}

// Strings of so many bytes each.
void argsort_bytes(nb::handle array, std::size_t item, std::size_t row, nb::handle places,
                   bool descending, unsigned threads) {
  const Buffer keys(array, Buffer::Use::kRead);
  const Buffer out(places, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  const auto to = elements<std::int64_t>(out);
  const char* const bytes = reinterpret_cast<const char*>(keys.data());
  if (to.size() * item > keys.bytes()) throw std::invalid_argument("fewer keys than places");
  for (std::size_t at = 0; at < to.size(); at += row) {
    const char* const first = bytes + at * item;
    vortex::argsort_strings_into(
        row, [=](std::size_t place) { return std::string_view(first + place * item, item); },
        to.subspan(at, row), string_options(descending, threads));
  }
}

// Strings of any length, of which each ends where the next one begins.
void argsort_strings(nb::handle begins, nb::handle content, nb::handle places, bool descending,
                     unsigned threads) {
  const Buffer borders(begins, Buffer::Use::kRead);
  const Buffer text(content, Buffer::Use::kRead);
  const Buffer out(places, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  const auto at = elements<const std::int64_t>(borders);
  const auto to = elements<std::int64_t>(out);
  const auto length = static_cast<std::int64_t>(text.bytes());
  if (at.size() != to.size() + 1 || at.front() < 0 || at.back() > length ||
      !std::is_sorted(at.begin(), at.end())) {
    throw std::invalid_argument("strings lie outside their bytes");
  }
  const char* const bytes = reinterpret_cast<const char*>(text.data());
  vortex::argsort_strings_into(
      to.size(),
      [=](std::size_t i) {
        return std::string_view(bytes + at[i], static_cast<std::size_t>(at[i + 1] - at[i]));
      },
      to, string_options(descending, threads));
}

// Each row to `sorted`, which may be the array.
void sort_records(nb::handle array, std::size_t record, std::size_t row,
                  const std::vector<KeyTuple>& keys, nb::handle sorted, bool descending,
                  unsigned threads) {
  const bool apart = !sorted.is(array);
  const Buffer buffer(array, apart ? Buffer::Use::kRead : Buffer::Use::kChange);
  const Buffer out(sorted, Buffer::Use::kChange);
  if (out.bytes() != buffer.bytes()) throw std::invalid_argument("room for other records");
  const nb::gil_scoped_release released;
  std::vector<vtx_key> parts;
  for (const auto& [offset, length, kind, big, falling] : keys) {
    parts.push_back({offset, length, kind, big ? 1 : 0, falling ? 1 : 0});
  }
  const vtx_record_format format{record, parts.data(), parts.size()};
  const vtx_sort_options options = options_of(descending, threads);
  const std::size_t count = buffer.bytes() / record;
  for (std::size_t at = 0; at < count; at += row) {
    std::byte* const records = buffer.data() + at * record;
    check(apart ? vtx_sort_records_into(records, row, &format, out.data() + at * record, &options)
                : vtx_sort_records(records, row, &format, &options));
  }
}

// Whether the bits of these keys have another order than numpy's: then only argsort_rows() knows
// it.
bool needs_places(nb::handle array, int kind) {
  const Buffer keys(array, Buffer::Use::kRead);
  const nb::gil_scoped_release released;
  return with_type(kind, [&](auto sample) {
    using T = decltype(sample);
    const auto all = elements<const T>(keys);
    return std::any_of(all.begin(), all.end(), [](T value) {
      if constexpr (std::floating_point<T>) {
        return is_missing(value) || (value == 0 && std::signbit(value));
      } else {
        return is_missing(value);
      }
    });
  });
}

// An array, and how many bytes each of its values has.
using ColumnTuple = std::tuple<nb::object, std::size_t>;

void sort_by_key(nb::handle array, int kind, const std::vector<ColumnTuple>& values,
                 bool descending, unsigned threads) {
  const Buffer keys(array, Buffer::Use::kChange);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<vtx_column> columns;
  const std::size_t count =
      with_type(kind, [&](auto sample) { return elements<decltype(sample)>(keys).size(); });
  for (const auto& [object, bytes] : values) {
    buffers.push_back(std::make_unique<Buffer>(object, Buffer::Use::kChange));
    if (buffers.back()->bytes() != count * bytes) {
      throw std::invalid_argument("another number of values than of keys");
    }
    columns.push_back({buffers.back()->data(), bytes});
  }
  const nb::gil_scoped_release released;
  const vtx_sort_options options = options_of(descending, threads);
  check(vtx_sort_by_key(keys.data(), count, number_of(kind), columns.data(), columns.size(),
                        &options));
}

// Of each row: the element at place k, or with `sorted` the first k.
void select_rows(nb::handle array, int kind, std::size_t row, std::size_t k, bool sorted,
                 bool descending, unsigned threads) {
  const Buffer buffer(array, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  const vtx_sort_options options = options_of(descending, threads);
  with_type(kind, [&](auto sample) {
    using T = decltype(sample);
    const auto all = elements<T>(buffer);
    for (std::size_t at = 0; at < all.size(); at += row) {
      const auto some = all.subspan(at, row);
      std::size_t count = row;
      if constexpr (kHasMissing<T>) {
        const auto rest =
            std::partition(some.begin(), some.end(), [](T value) { return !is_missing(value); });
        count = static_cast<std::size_t>(rest - some.begin());
      }
      check((sorted ? vtx_partial_sort : vtx_select)(some.data(), count, number_of(kind), k,
                                                     &options));
    }
  });
}

// Sorts, and moves one of each to the front; returns how many these are.
std::size_t sort_unique(nb::handle array, int kind, bool descending, unsigned threads) {
  const Buffer buffer(array, Buffer::Use::kChange);
  const nb::gil_scoped_release released;
  return with_type(kind, [&](auto sample) {
    using T = decltype(sample);
    const auto all = elements<T>(buffer);
    const vtx_sort_options options = options_of(descending, threads);
    std::size_t kept = 0;
    check(vtx_sort_unique(all.data(), all.size(), number_of(kind), &kept, &options));
    if constexpr (kHasMissing<T>) return keep_one_of_equal(all.first(kept), descending);
    return kept;
  });
}

}  // namespace

void bind_arrays(nb::module_& module) {
  module.attr("TIME") = kTime;
  module.def("sort_rows", &sort_rows);
  module.def("argsort_rows", &argsort_rows);
  module.def("argsort_bytes", &argsort_bytes);
  module.def("argsort_strings", &argsort_strings);
  module.def("sort_records", &sort_records);
  module.def("needs_places", &needs_places);
  module.def("sort_by_key", &sort_by_key);
  module.def("select_rows", &select_rows);
  module.def("sort_unique", &sort_unique);
}

}  // namespace vortex_python

// Sorting, and one record of each key.
#pragma once

#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "vortex/detail/record/key.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace detail {

// Moves the first record of each key, which are in order, to the front; returns how many there are.
template <typename T, typename KeyOf>
std::size_t first_of_each(T* records, std::size_t count, const KeyOf& key_of) {
  if (count == 0) return 0;
  std::size_t kept = 1;
  auto before = key_of(records[0]);
  // Without a branch that equal keys would make hard to foresee.
  for (std::size_t i = 1; i < count; ++i) {
    const auto key = key_of(records[i]);
    records[kept] = records[i];
    kept += key != before ? 1 : 0;
    before = key;
  }
  return kept;
}

}  // namespace detail

// Sorts records and keeps the first of those with equal keys: they are the first of the array, in
// order, and the result is how many. What is behind them is unspecified. Records and keys are those
// of sort(); floating-point numbers are equal if their bits are, so -0.0 and +0.0 are two.
//
//   numbers.resize(vortex::sort_unique(numbers));
//   const std::size_t items_left = vortex::sort_unique(items, &Item::price);
//
// Memory, threads and errors are those of sort(), which is stable here; one more pass of one thread
// follows it.
template <detail::AnyArray Range, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Range>> std::size_t
sort_unique(Range&& range, KeyFunction key, SortOptions options = {}) {
  options.stable = true;
  const auto records = detail::span_of(range);
  sort(records, key, options);
  using T = std::ranges::range_value_t<Range>;
  return detail::first_of_each(records.data(), records.size(),
                               detail::OrderedKey<T, KeyFunction>(std::move(key), options.order));
}
template <detail::AnyArray Range>
requires detail::NumberOrPair<std::ranges::range_value_t<Range>> std::size_t sort_unique(
    Range&& range, SortOptions options = {}) {
  using T = std::ranges::range_value_t<Range>;
  if constexpr (RadixKey<T>) {
    const auto records = detail::span_of(range);
    sort(records, options);
    return detail::first_of_each(records.data(), records.size(),
                                 detail::OrderedKey<T, std::identity>({}, options.order));
  } else {
    return sort_unique(range, &T::key, options);
  }
}

}}  // namespace vortex::v0

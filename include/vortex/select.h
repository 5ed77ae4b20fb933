// The record that belongs at a place, and the first records, without sorting the others.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "vortex/detail/array/array_calls.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/key_source.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace detail {

// Calls use() with a Selection of the records, by `key`.
template <typename T, typename KeyFunction, typename Use>
void with_selection(std::span<T> records, KeyFunction key, const SortOptions& options,
                    const Use& use) {
  static_assert(std::is_trivially_copyable_v<T>,
                "records are moved as bytes: they must be trivially copyable");
  const RecordKeys<T, KeyFunction> keys(records.data(), std::move(key), options.order);
  use(Selection{records.data(), sizeof(T), records.size(), keys.source(), nullptr,
                options.threads});
}
template <typename T, typename Use>
void with_selection(std::span<T> records, const SortOptions& options, const Use& use) {
  if constexpr (RadixKey<T>) {
    const NumberForm form = number_form<T>(options.order);
    use(Selection{records.data(), sizeof(T), records.size(), keys_of_numbers(records.data(), form),
                  &form, options.threads});
  } else {
    with_selection(records, &T::key, options, use);
  }
}

}  // namespace detail

// Moves records so that the one at place k is the one that sort() would put there: none in front of
// it belongs behind it, and none behind it in front of it. As std::nth_element; k is from 0, and
// with k at the end or beyond nothing happens. Records are numbers, in the total order of RadixKey,
// pairs of KeyValue, or whatever may be moved as bytes, by `key(record)` or by the member that
// `key` points to:
//
//   vortex::select(times, times.size() / 2);  // times[times.size() / 2] is the median
//   vortex::select(items, 10, &Item::price, {.order = vortex::Order::kDescending});
//
// Every key is read about twice: once to find the one that is wanted, by all threads that pay as
// for sort(), and once to move what is on the wrong side, by one. The result is the same whatever
// the threads. Extra memory: a byte a record, 4 of fewer than 2^18. Throws std::bad_alloc with
// nothing moved. Thread-safe for different arrays. `key` must not throw, must give the same for the
// same record, and is called by all threads at once.
template <detail::AnyArray Range>
requires detail::NumberOrPair<std::ranges::range_value_t<Range>>
void select(Range&& range, std::size_t k, SortOptions options = {}) {
  detail::with_selection(detail::span_of(range), options,
                         [=](const auto& all) { detail::select(all, k); });
}
template <detail::AnyArray Range, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Range>>
void select(Range&& range, std::size_t k, KeyFunction key, SortOptions options = {}) {
  detail::with_selection(detail::span_of(range), std::move(key), options,
                         [=](const auto& all) { detail::select(all, k); });
}

// Puts the first k records in front, in order; the others follow in any order. As
// std::partial_sort; with k at the end or beyond all are sorted. Records and keys as for select().
//
// Up to a 64th of the records are found in one pass that reads the keys, by all threads that pay;
// records with equal keys are the first ones then, in their order, and the extra memory is 64 bytes
// for each of the k, for each thread, and the k records. Otherwise select() finds them and the
// extra memory is its own, and then what sort() takes of numbers, and of others 32 bytes and a
// record for each of the k (of all from half of them on); records with equal keys come in any
// order. Throws std::bad_alloc with the records all there, in any order.
template <detail::AnyArray Range>
requires detail::NumberOrPair<std::ranges::range_value_t<Range>>
void partial_sort(Range&& range, std::size_t k, SortOptions options = {}) {
  detail::with_selection(detail::span_of(range), options,
                         [=](const auto& all) { detail::partial_sort(all, k); });
}
template <detail::AnyArray Range, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Range>>
void partial_sort(Range&& range, std::size_t k, KeyFunction key, SortOptions options = {}) {
  detail::with_selection(detail::span_of(range), std::move(key), options,
                         [=](const auto& all) { detail::partial_sort(all, k); });
}

}}  // namespace vortex::v0

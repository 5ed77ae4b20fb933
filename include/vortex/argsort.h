// The order of keys without moving what they belong to, and the sort of several arrays by one.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/array/array_calls.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/key_source.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

// A type that places are told in.
template <typename T>
concept PlaceType =
    std::integral<T> && !std::same_as<T, bool> && (sizeof(T) == 4 || sizeof(T) == 8);

namespace detail {

template <PlaceType Place>
void argsort(const KeySource& keys, std::size_t count, std::span<Place> places, unsigned threads) {
  expect_places(places.size(), count,
                static_cast<std::uint64_t>(std::numeric_limits<Place>::max()));
  if constexpr (sizeof(Place) == 4) {
    argsort_32(keys, count, places.data(), threads);
  } else {
    argsort_64(keys, count, places.data(), threads);
  }
}

}  // namespace detail

// Puts the places of the keys into their order: keys[places[0]] belongs first. Equal keys keep
// their order, always. The keys, which are integers or floating-point numbers in the total order of
// RadixKey, stay as they are; `places` has room for as many integers of 4 or 8 bytes, and what is
// behind that stays.
//
// Extra memory: what the sort of an array takes (sort.h), and 8 bytes a key where places have 4
// bytes. Where keys of 64 bits do not fit into a word with their places, and many agree in the part
// that does, it is 16 bytes a key more. Throws std::bad_alloc, with `places` in any state, and
// std::invalid_argument for less room than keys or for more keys than the type of places can tell.
// Thread-safe where places and keys are others. Threads as for sort().
template <RadixKey Key, PlaceType Place>
void argsort_into(std::span<const Key> keys, std::span<Place> places, SortOptions options = {}) {
  detail::argsort(detail::keys_of_numbers(keys.data(), detail::number_form<Key>(options.order)),
                  keys.size(), places, options.threads);
}

// The same for records by `key(record)`, or by the member that `key` points to. `key` must not
// throw, must give the same for the same record, and is called by all threads at once.
template <typename T, typename KeyFunction, PlaceType Place>
requires detail::NumberKeyOf<KeyFunction, T>
void argsort_into(std::span<const T> records, KeyFunction key, std::span<Place> places,
                  SortOptions options = {}) {
  const detail::RecordKeys<T, KeyFunction> keys(records.data(), std::move(key), options.order);
  detail::argsort(keys.source(), records.size(), places, options.threads);
}

// The same for whatever is one array in memory, with the places as a new vector:
//
//   std::vector<std::size_t> order = vortex::argsort(prices);
//   auto order = vortex::argsort<std::uint32_t>(items, &Item::price, {.stable = true});
template <PlaceType Place = std::size_t, std::ranges::contiguous_range Keys>
requires RadixKey<std::ranges::range_value_t<Keys>> std::vector<Place> argsort(
    const Keys& keys, SortOptions options = {}) {
  std::vector<Place> places(std::ranges::size(keys));
  using Key = std::ranges::range_value_t<Keys>;
  argsort_into(std::span<const Key>(std::ranges::data(keys), places.size()), std::span(places),
               options);
  return places;
}
template <PlaceType Place = std::size_t, std::ranges::contiguous_range Records,
          typename KeyFunction>
requires std::invocable < KeyFunction&, const std::ranges::range_value_t<Records>
& > std::vector<Place> argsort(const Records& records, KeyFunction key, SortOptions options = {}) {
  std::vector<Place> places(std::ranges::size(records));
  using T = std::ranges::range_value_t<Records>;
  argsort_into(std::span<const T>(std::ranges::data(records), places.size()), std::move(key),
               std::span(places), options);
  return places;
}

// Sorts the keys, and brings the values of each array into the same order, where they are:
//
//   vortex::sort_by_key(times, prices, volumes);
//   vortex::sort_by_key({.order = vortex::Order::kDescending}, times, prices, volumes);
//
// Records of a table whose columns are arrays. Values of equal keys keep their order, always. Keys
// are as for argsort_into(), values of any type that may be moved as bytes, and there are as many
// of each.
//
// Values of 1, 2, 4 or 8 bytes, together of at most 8, are carried with their keys in 16 bytes of
// extra memory a record. Otherwise the extra memory is 8 bytes a record (16 more where
// argsort_into() says it) and the size of the array of the largest values. Both take what sorting
// takes. Throws std::bad_alloc and, where an array has another length than the keys,
// std::invalid_argument, with nothing moved. Thread-safe for different arrays. Threads as for
// sort().
template <std::ranges::contiguous_range Keys, std::ranges::contiguous_range... Values>
requires RadixKey<std::ranges::range_value_t<Keys>> &&(sizeof...(Values) > 0) &&
    (std::is_trivially_copyable_v<std::ranges::range_value_t<Values>> &&
     ...) void sort_by_key(SortOptions options, Keys&& keys, Values&&... values) {
  const std::size_t count = std::ranges::size(keys);
  detail::expect_lengths(std::array{std::size_t{std::ranges::size(values)}...}, count);
  const std::array<detail::Column, sizeof...(Values)> columns = {
      detail::Column{std::ranges::data(values), sizeof(std::ranges::range_value_t<Values>)}...};
  detail::sort_by_key(std::ranges::data(keys),
                      detail::number_form<std::ranges::range_value_t<Keys>>(options.order), count,
                      columns, options.threads);
}
template <std::ranges::contiguous_range Keys, std::ranges::contiguous_range... Values>
requires RadixKey<std::ranges::range_value_t<Keys>> &&
    (sizeof...(Values) > 0) void sort_by_key(Keys&& keys, Values&&... values) {
  sort_by_key(SortOptions{}, keys, values...);
}

}}  // namespace vortex::v0

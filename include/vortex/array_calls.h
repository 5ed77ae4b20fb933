// Calls on arrays beside the plain sort: the order of keys as places, several arrays sorted by one,
// the record at one place, the first records, one sequence in several arrays, one record of each
// key; and which thread of a sort calls.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/array/compiled_calls.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The number of the calling thread in its sort, for functions of the program (keys, comparators,
// keys of lines) that keep something for each thread that calls them: 0 to `threads` - 1, as
// SortOptions or SortResources say (with 0, as many as there are processors). Threads that are in
// functions of one sort at the same time have different numbers, for sorts in memory and of files,
// but for RecordKeys::append_whole(), which threads beside call, too;
// a thread may have another one in its next call. 0 outside sorts. Of a sort that such a function
// calls itself the numbers mean nothing; behind it the function has its own again. Takes
// nanoseconds; any thread may ask, inside a fault too.
VORTEX_EXPORT unsigned sort_thread() noexcept;

// A type that places are told in.
template <typename T>
concept PlaceType =
    std::integral<T> && !std::same_as<T, bool> && (sizeof(T) == 4 || sizeof(T) == 8);

namespace detail {

// An array with room for places.
template <typename Range>
concept PlaceArray = AnyArray<Range> && PlaceType<std::ranges::range_value_t<Range>>;

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
template <detail::AnyArray Keys, detail::PlaceArray Places>
requires RadixKey<std::ranges::range_value_t<Keys>>
void argsort_into(Keys&& keys, Places&& places, SortOptions options = {}) {
  using Key = std::ranges::range_value_t<Keys>;
  detail::argsort(
      detail::keys_of_numbers(std::ranges::data(keys), detail::number_form<Key>(options.order)),
      std::ranges::size(keys), detail::span_of(places), options.threads);
}

// The same for records by `key(record)`, or by the member that `key` points to. `key` must not
// throw, must give the same for the same record, and is called by all threads at once.
template <detail::AnyArray Records, typename KeyFunction, detail::PlaceArray Places>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Records>>
void argsort_into(Records&& records, KeyFunction key, Places&& places, SortOptions options = {}) {
  using T = std::ranges::range_value_t<Records>;
  const detail::RecordKeys<T, KeyFunction> keys(std::ranges::data(records), std::move(key),
                                                options.order);
  detail::argsort(keys.source(), std::ranges::size(records), detail::span_of(places),
                  options.threads);
}

// The same for `count` strings, which string_of(place) tells, in the order of std::memcmp(), one
// that is the beginning of another before it. `string_of` returns what std::string_view is made
// from, whose bytes stay where they are; it must not throw, and is called by all threads at once.
//
// Extra memory: 16 bytes a string, and what sorting those takes. Threads work together from 2^16
// strings on, at most one for 2^15. Errors as above.
template <typename StringOf, detail::PlaceArray Places>
void argsort_strings_into(std::size_t count, const StringOf& string_of, Places&& to,
                          SortOptions options = {}) {
  const std::span places = detail::span_of(to);
  using Place = std::ranges::range_value_t<Places>;
  detail::expect_places(places.size(), count,
                        static_cast<std::uint64_t>(std::numeric_limits<Place>::max()));
  const detail::StringSource source{
      &string_of, [](const void* strings, std::size_t place) noexcept -> std::string_view {
        return (*static_cast<const StringOf*>(strings))(place);
      }};
  if constexpr (sizeof(Place) == 4) {
    detail::argsort_strings_32(source, count, places.data(), options);
  } else {
    detail::argsort_strings_64(source, count, places.data(), options);
  }
}

// The same for whatever is one array in memory, with the places as a new vector:
//
//   std::vector<std::size_t> order = vortex::argsort(prices);
//   auto order = vortex::argsort<std::uint32_t>(items, &Item::price);
template <PlaceType Place = std::size_t, std::ranges::contiguous_range Keys>
requires RadixKey<std::ranges::range_value_t<Keys>> std::vector<Place> argsort(
    const Keys& keys, SortOptions options = {}) {
  std::vector<Place> places(std::ranges::size(keys));
  argsort_into(std::span(std::ranges::data(keys), places.size()), places, options);
  return places;
}
template <PlaceType Place = std::size_t, std::ranges::contiguous_range Records,
          typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Records>> std::vector<Place>
argsort(const Records& records, KeyFunction key, SortOptions options = {}) {
  std::vector<Place> places(std::ranges::size(records));
  argsort_into(std::span(std::ranges::data(records), places.size()), std::move(key), places,
               options);
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
// Every key is read about twice: once to find the one that is wanted, and once to move what is on
// the wrong side, by all threads that pay as for sort(); several count that side before. The result
// is the same whatever the threads. Extra memory: one percent and 6 MiB at most. Throws
// std::bad_alloc with nothing moved. Thread-safe for different arrays. `key` must not throw, must
// give the same for the same record, and is called by all threads at once.
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
// Up to a 64th of the records are found by all threads that pay; records with equal keys are the
// first ones then, in their order. One pass reads the keys; where several threads look for more
// than 2^15 records, three passes do, the first of which takes what select() does. The extra memory
// is 33 bytes and a record for each of the k, which lie beside the array while they are put in
// order, what sort() takes of as many pairs, and a MiB for each of several threads. Otherwise
// select() finds them and the extra memory is its own, and then what sort() takes of numbers, and
// of others 32 bytes and a record for each of the k (of all from half of them on); records with
// equal keys come in any order. Throws std::bad_alloc with the records all there, in any order.
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

namespace detail {

template <typename Chunks>
using ChunkOf = std::ranges::range_reference_t<Chunks>;
template <typename Chunks>
using RecordOfChunks = std::ranges::range_value_t<ChunkOf<Chunks>>;
template <typename T>
concept ArrayChunks = std::ranges::input_range<T> && std::ranges::contiguous_range<ChunkOf<T>> &&
    std::ranges::borrowed_range<ChunkOf<T>> && std::ranges::sized_range<ChunkOf<T>> &&
    std::is_trivially_copyable_v<RecordOfChunks<T>>;

// Calls sort(std::span) with the records of all chunks.
template <ArrayChunks Chunks, typename Sort>
void sort_chunks_by(Chunks&& chunks, unsigned threads, const Sort& sort) {
  using T = RecordOfChunks<Chunks>;
  std::vector<WholeChunk> pieces;
  std::size_t count = 0;
  for (auto&& chunk : chunks) {
    const std::size_t size = std::ranges::size(chunk);
    pieces.push_back({std::ranges::data(chunk), size * sizeof(T)});
    count += size;
  }
  sort_joined(pieces, threads,
              [&](void* together) { sort(std::span(static_cast<T*>(together), count)); });
}

}  // namespace detail

// Sorts what lies in several arrays as if it were one: chunks keep their lengths, and the first of
// all records is the first of the first chunk that has any. Chunks are a range of arrays (a vector
// of spans or of vectors), records, options and keys those of sort():
//
//   std::vector<std::span<double>> chunks = ...;  // a chunked array of Arrow
//   vortex::sort_chunks(chunks);
//   vortex::sort_chunks(item_chunks, &Item::price, {.stable = true});
//
// The extra memory is as much as the chunks together, which are copied there and back by the
// threads that pay, and what sort() takes. Throws std::bad_alloc with nothing moved,
// or, for strings of bytes in one chunk, with the records in any order.
template <detail::ArrayChunks Chunks>
void sort_chunks(Chunks&& chunks, SortOptions options = {}) {
  detail::sort_chunks_by(chunks, options.threads, [&](auto records) { sort(records, options); });
}
template <detail::ArrayChunks Chunks, typename KeyFunction>
requires std::invocable < KeyFunction&, const detail::RecordOfChunks<Chunks>
& > void sort_chunks(Chunks&& chunks, KeyFunction key, SortOptions options = {}) {
  detail::sort_chunks_by(chunks, options.threads,
                         [&](auto records) { sort(records, std::move(key), options); });
}

namespace detail {

template <typename KeyFunction, typename Range>
using KeyOfRange = std::remove_cvref_t<
    std::invoke_result_t<KeyFunction, const std::ranges::range_value_t<Range>&>>;

// Moves the first record of each key, which are in order, to the front; returns how many there are.
template <typename T, typename KeyOf>
std::size_t first_of_each(T* records, std::size_t count, const KeyOf& key_of, unsigned threads) {
  const auto copy = [&](std::size_t begin, std::size_t end, void* room) {
    T* const to = static_cast<T*>(room);
    std::size_t kept = 1;
    auto before = key_of(records[begin]);
    to[0] = records[begin];
    // Without a branch that equal keys would make hard to foresee.
    for (std::size_t i = begin + 1; i < end; ++i) {
      const auto key = key_of(records[i]);
      to[kept] = records[i];
      kept += key != before ? 1 : 0;
      before = key;
    }
    return kept;
  };
  return keep_first_of_each(records, sizeof(T), count, std::cref(copy), threads);
}

}  // namespace detail

// Sorts records and keeps the first of those with equal keys: they are the first of the array, in
// order, and the result is how many. What is behind them is unspecified. Records and keys are those
// of sort(); floating-point numbers are equal if their bits are, so -0.0 and +0.0 are two.
//
//   numbers.resize(vortex::sort_unique(numbers));
//   const std::size_t items_left = vortex::sort_unique(items, &Item::price);
//
// Memory, threads and errors are those of sort(), which is stable here but for strings without a
// key; one more pass of all threads follows it, of which each has 2^20 records or 8 MiB and a MiB
// of memory, or two records if that is more.
template <detail::AnyArray Range, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, std::ranges::range_value_t<Range>> std::size_t
sort_unique(Range&& range, KeyFunction key, SortOptions options = {}) {
  options.stable = true;
  const auto records = detail::span_of(range);
  sort(records, key, options);
  using T = std::ranges::range_value_t<Range>;
  return detail::first_of_each(records.data(), records.size(),
                               detail::OrderedKey<T, KeyFunction>(std::move(key), options.order),
                               options.threads);
}
template <detail::AnyArray Range, typename KeyFunction>
requires detail::ByteStringKey<detail::KeyOfRange<KeyFunction, Range>> std::size_t sort_unique(
    Range&& range, KeyFunction key, SortOptions options = {}) {
  options.stable = true;
  const auto records = detail::span_of(range);
  sort(records, key, options);
  using T = std::ranges::range_value_t<Range>;
  const auto copy = [&](std::size_t begin, std::size_t end, void* room) {
    T* const to = static_cast<T*>(room);
    to[0] = records[begin];
    std::size_t kept = 1;
    for (std::size_t i = begin + 1; i < end; ++i) {
      // The key may lie in the record, which is still where it was.
      const auto& last = std::invoke(key, std::as_const(records[i - 1]));
      if (!std::ranges::equal(last, std::invoke(key, std::as_const(records[i])))) {
        to[kept++] = records[i];
      }
    }
    return kept;
  };
  return detail::keep_first_of_each(records.data(), sizeof(T), records.size(), std::cref(copy),
                                    options.threads);
}
template <detail::AnyArray Range, typename KeyFunction>
requires detail::TupleKey<detail::KeyOfRange<KeyFunction, Range>> std::size_t sort_unique(
    Range&& range, KeyFunction key, SortOptions options = {}) {
  using T = std::ranges::range_value_t<Range>;
  return sort_unique(range, detail::PackedKey<T, KeyFunction>(std::move(key)), options);
}
template <detail::AnyArray Range>
requires detail::NumberOrPair<std::ranges::range_value_t<Range>> std::size_t sort_unique(
    Range&& range, SortOptions options = {}) {
  using T = std::ranges::range_value_t<Range>;
  if constexpr (RadixKey<T>) {
    const auto records = detail::span_of(range);
    sort(records, options);
    return detail::first_of_each(records.data(), records.size(),
                                 detail::OrderedKey<T, std::identity>({}, options.order),
                                 options.threads);
  } else {
    return sort_unique(range, &T::key, options);
  }
}
template <detail::AnyArray Range>
requires detail::TextString<std::ranges::range_value_t<Range>> std::size_t sort_unique(
    Range&& range, SortOptions options = {}) {
  return detail::sort_strings(detail::span_of(range), options, true);
}
template <detail::AnyArray Range>
requires detail::FixedBytes<std::ranges::range_value_t<Range>> std::size_t sort_unique(
    Range&& range, SortOptions options = {}) {
  return sort_unique(range, std::identity{}, options);
}

}}  // namespace vortex::v0

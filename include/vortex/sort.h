// Sorts arrays in memory, in place. Order, RadixKey and KeyValue are in detail/record/key.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "vortex/detail/array/compound_keys.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/array/sort_mistakes.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct SortOptions {
  Order order = Order::kAscending;
  // KeyValue pairs and strings that are equal keep their order. Sorts by a key function always do.
  bool stable = false;
  // How many threads may work, the calling one among them, and no more than one for each core that
  // the process may use, by its affinity and by the quotas of its control groups; 0: that many. At
  // most 4096. The result is the same, to the byte.
  unsigned threads = 0;
};

namespace detail {

template <typename T>
inline constexpr bool kIsSpan = false;
template <typename T>
inline constexpr bool kIsSpan<std::span<T>> = true;

template <typename T>
inline constexpr bool kIsKeyValue = false;
template <typename K, typename V>
inline constexpr bool kIsKeyValue<KeyValue<K, V>> = true;

// A key of records of type T: a number that a function of one returns, or a member.
template <typename KeyFunction, typename T>
concept NumberKeyOf = RadixKey<std::remove_cvref_t<std::invoke_result_t<KeyFunction, const T&>>>;

// A key of any kind, of records that may be moved as bytes.
template <typename KeyFunction, typename T>
concept KeyOf = std::is_trivially_copyable_v<T> && std::invocable<KeyFunction&, const T&>;

// What has an order of its own.
template <typename T>
concept NumberOrPair = RadixKey<T> || kIsKeyValue<T>;

template <NumberOrPair T>
SortKey own_key(Order order, bool stable) noexcept {
  static_assert(std::is_trivially_copyable_v<T>,
                "radix sorting moves records as bytes: they must be trivially copyable");
  SortKey key;
  if constexpr (RadixKey<T>) {
    key = {.code = key_code<T>(order), .place = {0, sizeof(T)}};
  } else {
    key = sort_key_of_member<T>(&T::key, order);
  }
  key.stable = stable;
  return key;
}
template <NumberOrPair T>
constexpr std::size_t own_key_bytes() noexcept {
  if constexpr (RadixKey<T>) {
    return sizeof(T);
  } else {
    return sizeof(T::key);
  }
}

template <typename T>
concept TextString = std::same_as<T, std::string> || std::same_as<T, std::string_view>;

// What is moved with its bytes: std::array<char, 10>, say.
template <typename T>
concept FixedBytes = ByteStringKey<T> && !TextString<T> && std::is_trivially_copyable_v<T>;

// As sort() says. With `unique` the first of equal strings are in front, and what is behind them is
// unspecified; returns how many.
VORTEX_EXPORT std::size_t sort_strings(std::span<std::string_view> strings,
                                       const SortOptions& options, bool unique);
VORTEX_EXPORT std::size_t sort_strings(std::span<std::string> strings, const SortOptions& options,
                                       bool unique);

// Whatever is one array in memory.
template <typename Range>
concept AnyArray = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::ranges::borrowed_range<Range>;
template <AnyArray Range>
auto span_of(Range&& range) {
  return std::span(std::ranges::data(range), std::ranges::size(range));
}

// What may be a whole range: neither a span, which has sort() of its own, nor the first of two
// iterators.
template <typename T>
concept WholeRange =
    !kIsSpan<std::remove_cvref_t<T>> && !std::contiguous_iterator<std::remove_cvref_t<T>>;
template <typename Range>
concept ArrayRange = WholeRange<Range> && AnyArray<Range>;

// With code that is compiled once where there is some for records of this size.
template <std::size_t key_bytes, typename T>
void sort_structs(T* records, std::size_t count, const SortKey& key, const SortOptions& options) {
  static_assert(!std::is_const_v<T>,
                "vortex::sort() changes the array, which is const: sort a copy, or give "
                "sort_into() another array");
  constexpr std::size_t bytes = sizeof(T);
  if constexpr (has_compiled_sort<T>(key_bytes)) {
    sort_records(records, count, bytes, key, options.threads);
  } else {
    sort_sized<bytes>(records, count, key, options.threads);
  }
}

}  // namespace detail

// Sorts records by `key(record)`, an integer or floating-point number; always stable. The array is
// sorted where it is: up to 512 KiB of it with as much memory again (8 bytes a record at least), 32
// bytes a record and 28 KiB, beyond that with up to about 7 MiB of extra memory and 1% (for the
// lists of its chunks); with several threads, up to 9 MiB for each of up to 128, 1 MiB and
// 1%. Throws std::bad_alloc, with nothing moved. Thread-safe for different arrays. Takes at most 64
// KiB of the stack and 256 times the size of a record, whatever the keys. A VanishingArray is
// sorted by moving its blocks (radix_sort.h).
//
// A key that is a member of a record of 4, 8 or 16 bytes is sorted as fast as KeyValue is stably,
// wherever it lies. Other keys are taken once for each level of the sort. Records of 4 to 32
// (multiples of 4), 40, 48, 64 and 100 bytes are sorted by code that the library has compiled;
// those of other sizes compile it into the program. docs/arrays.md tells how fast which types
// are.
//
// Arrays of fewer than 2^20 records, or 2^21 of at most 8 bytes, are sorted on the calling thread,
// as all are with `options.threads` 1. Larger ones get more threads, which begin and end within the
// call, at most one for 2^19 or 2^20 records; with fewer records a thread costs about what it
// gains. Records of more than 256 bytes get them from 8 MiB on, and arrays by strings of bytes or
// several keys from 2^17 records or 8 MiB on. They block all signals but those that their own
// instructions raise, so no other handler of the program runs on them. Where the system refuses
// threads the others do their work.
//
// The thread keeps the extra memory of sorts of fewer than 2^20 records for its next sort, until it
// ends or calls release_sort_memory(): 1 to 2 MiB mostly, at most 8 MiB. No memory limit of the
// library counts this memory.
//
// `key` must not throw, must give the same for the same record, and is called by all threads at
// once, which sort_thread() (array_calls.h) numbers. Records of more than 256 bytes take 16 bytes
// of extra memory each instead, and for each thread 512 KiB or, if that is more, the size of one:
// their keys are sorted first, and then each record moves once.
template <typename T, typename KeyFunction>
requires std::is_trivially_copyable_v<T> && detail::NumberKeyOf<KeyFunction, T>
void sort(std::span<T> records, KeyFunction key, SortOptions options = {}) {
  detail::with_sort_key<T>(
      std::move(key), options.order, [&](auto key_bytes, const detail::SortKey& sort_key) {
        detail::sort_structs<key_bytes>(records.data(), records.size(), sort_key, options);
      });
}

// The same by keys that are strings of bytes, in the order of std::memcmp(), one that is the
// beginning of another before it:
//
//   vortex::sort(records, [](const Record& record) { return std::string_view(record.text, 10); });
//
// Eight bytes at a time, those that are equal by the next eight. When it throws std::bad_alloc the
// records are all there, in any order.
template <typename T, typename KeyFunction>
requires std::is_trivially_copyable_v<T> &&
    detail::ByteStringKey<std::remove_cvref_t<std::invoke_result_t<KeyFunction, const T&>>>
void sort(std::span<T> records, KeyFunction key, SortOptions options = {}) {
  detail::ByteKeySort<T, KeyFunction>(std::move(key), options.order)
      .run(records, options.threads, [&](std::span<T> some, const auto& number, unsigned threads) {
        SortOptions by_threads = options;
        by_threads.threads = threads;
        sort(some, number, by_threads);
      });
}

// The same by several numbers, which a std::tuple, a std::pair or a std::array holds: by the first,
// those that are equal by the second, and so on.
//
//   vortex::sort(items, [](const Item& item) { return std::tuple(item.shop, item.price); });
//
// Numbers of up to 8 bytes together are sorted at once; longer ones as strings of bytes are.
template <typename T, typename KeyFunction>
requires std::is_trivially_copyable_v<T> &&
    detail::TupleKey<std::remove_cvref_t<std::invoke_result_t<KeyFunction, const T&>>>
void sort(std::span<T> records, KeyFunction key, SortOptions options = {}) {
  sort(records, detail::PackedKey<T, KeyFunction>(std::move(key)), options);
}

// Sorts integers, floating-point numbers (in the total order of RadixKey) and KeyValue pairs, these
// by their keys. Keys of 4 and 8 bytes and pairs of 4+4 and 8+8 are sorted by code of their own,
// and pairs not stably unless `options.stable` asks for it; keys of 1 and 2 bytes are counted, with
// at most 512 KiB for each thread. As the other sort() otherwise.
template <typename T>
requires detail::NumberOrPair<T>
void sort(std::span<T> records, SortOptions options = {}) {
  detail::sort_structs<detail::own_key_bytes<T>()>(
      records.data(), records.size(), detail::own_key<T>(options.order, options.stable), options);
}

// Sorts strings in the order of std::memcmp(), one that is the beginning of another before it. By
// code that the library has compiled; std::array<char, 10> and the like as records by that key.
//
// Views take no memory but what sorting pairs of 16 bytes does, and 16 bytes for each of 65535
// bytes or more or at an address of more than 48 bits. `options.stable` asks that equal ones, which
// may lie in different places, keep their order: then all take 16 bytes each, and so do objects of
// std::string. Threads work together from 2^16 strings on, at most one for 2^15. Throws
// std::bad_alloc with the strings all there, in any order.
//
// While they are sorted, views are something else in the same memory, unless the sort is stable:
// where guarded() (error.h) leaves the call, since bytes of a stream cannot be had, they are lost.
template <detail::TextString T>
void sort(std::span<T> strings, SortOptions options = {}) {
  detail::sort_strings(strings, options, false);
}
template <detail::FixedBytes T>
void sort(std::span<T> strings, SortOptions options = {}) {
  sort(strings, std::identity{}, options);
}

// The same for whatever is one array in memory (a std::vector, an array, part of one between two
// pointers or iterators), with the same keys:
//
//   vortex::sort(numbers);
//   vortex::sort(items, &Item::price, {.order = vortex::Order::kDescending});
//   vortex::sort(numbers.begin(), numbers.begin() + 100);
template <detail::ArrayRange Range>
void sort(Range&& range, SortOptions options = {}) {
  sort(detail::span_of(range), options);
}
template <detail::ArrayRange Range, typename KeyFunction>
requires std::invocable<KeyFunction&, std::ranges::range_reference_t<Range>>
void sort(Range&& range, KeyFunction key, SortOptions options = {}) {
  sort(detail::span_of(range), std::move(key), options);
}
template <std::contiguous_iterator First, std::sized_sentinel_for<First> Last>
void sort(First first, Last last, SortOptions options = {}) {
  sort(std::span(first, last), options);
}
template <std::contiguous_iterator First, std::sized_sentinel_for<First> Last, typename KeyFunction>
requires std::invocable<KeyFunction&, std::iter_reference_t<First>>
void sort(First first, Last last, KeyFunction key, SortOptions options = {}) {
  sort(std::span(first, last), std::move(key), options);
}

namespace detail {

template <typename T, typename KeyFunction>
requires NumberKeyOf<KeyFunction, T>
void sort_into(std::span<const T> records, std::span<T> out, KeyFunction key,
               const SortOptions& options) {
  with_sort_key<T>(std::move(key), options.order, [&](auto, const SortKey& sort_key) {
    sort_records_into(records.data(), records.size(), sizeof(T), sort_key, out.data(),
                      options.threads);
  });
}
template <typename T, typename KeyFunction>
requires ByteStringKey<std::remove_cvref_t<std::invoke_result_t<KeyFunction, const T&>>>
void sort_into(std::span<const T> records, std::span<T> out, KeyFunction key,
               const SortOptions& options) {
  constexpr std::size_t kFew = 256;
  bool moved = records.size() <= kFew;
  if (moved) std::ranges::copy(records, out.begin());
  ByteKeySort<T, KeyFunction>(std::move(key), options.order)
      .run(out, options.threads, [&](std::span<T> some, const auto& number, unsigned threads) {
        SortOptions by_threads = options;
        by_threads.threads = threads;
        if (moved) return sort(some, number, by_threads);
        // All by their first bytes, before there are threads.
        moved = true;
        sort_into(records, out, number, by_threads);
      });
}
template <typename T, typename KeyFunction>
requires TupleKey<std::remove_cvref_t<std::invoke_result_t<KeyFunction, const T&>>>
void sort_into(std::span<const T> records, std::span<T> out, KeyFunction key,
               const SortOptions& options) {
  sort_into(records, out, PackedKey<T, KeyFunction>(std::move(key)), options);
}

}  // namespace detail

// Puts records into `out`, in order; they stay as they are. Keys and options are those of sort(),
// and equal ones keep their order. Each moves once, while sort() carries them through its levels:
// for a million records of 256 bytes one thread takes 0.83 of the processor time of sort(), for 24
// to 100 bytes 1.1 to 1.4 times as much, and for ten million up to twice.
//
//   std::vector<Item> sorted(items.size());
//   vortex::sort_into(items, sorted, &Item::price);
//
// Extra memory: 8 bytes a record and what sort() takes of words of 8 bytes; where keys of 64 bits
// do not fit into a word with their places, and many agree in the part that does, 16 bytes a record
// and what it takes of pairs. Up to 512 KiB of records, and smaller records, are copied and sorted
// as by sort(). Throws std::invalid_argument where `out` has less room than there are records, and
// std::bad_alloc, with `out` in any state. The arrays must not overlap. Threads as for sort(), at
// most one for 4 MiB.
template <detail::AnyArray Records, detail::AnyArray Out, typename KeyFunction>
requires detail::KeyOf<KeyFunction, std::ranges::range_value_t<Out>>
void sort_into(Records&& records, Out&& out, KeyFunction key, SortOptions options = {}) {
  using T = std::ranges::range_value_t<Out>;
  const std::span<const T> from(detail::span_of(records));
  const std::span<T> to(detail::span_of(out));
  detail::expect_room(to.size(), from.size());
  detail::sort_into(from, to.first(from.size()), std::move(key), options);
}

// Gives back what sort() has kept of memory for the calling thread's next sort: at most 8 MiB, and
// nothing where the thread has sorted nothing. The next sort allocates again.
VORTEX_EXPORT void release_sort_memory() noexcept;

// What fits none of the above is answered at compile time by a sentence that says what to write.
template <typename T>
void sort(std::span<T>, SortOptions = {}) {
  detail::explain_missing_key<T>();
}
template <typename T, typename KeyFunction>
void sort(std::span<T>, KeyFunction, SortOptions = {}) {
  detail::explain_wrong_key<T, KeyFunction>();
}
template <detail::WholeRange Range>
void sort(Range&&, SortOptions = {}) {
  detail::explain_no_array<Range>();
}
template <detail::WholeRange Range, typename KeyFunction>
void sort(Range&&, KeyFunction, SortOptions = {}) {
  if constexpr (std::ranges::contiguous_range<Range>) {
    detail::explain_wrong_key<std::ranges::range_value_t<Range>, KeyFunction>();
  } else {
    detail::explain_no_array<Range>();
  }
}
template <typename First, typename Last, typename KeyFunction>
void sort(First, Last, KeyFunction, SortOptions = {}) {
  if constexpr (std::contiguous_iterator<First>) {
    detail::explain_wrong_key<std::iter_value_t<First>, KeyFunction>();
  } else {
    detail::explain_no_array<First>();
  }
}

}}  // namespace vortex::v0

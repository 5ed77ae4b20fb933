// How records are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vortex/detail/array/small_sort_by_place.h"

namespace vortex { inline namespace v0 { namespace detail {

// How records are compared and how few of them are sorted.
//   KeyOf     record -> uint32_t or uint64_t, ascending
//   small     the base case; null: small_sort_by_place, with the kernel of words
template <typename Record, typename KeyOf>
struct SortRules {
  using Bits = decltype(std::declval<KeyOf>()(std::declval<const Record&>()));
  KeyOf key_of;
  SmallSort<Record> small = nullptr;
  SmallSort<std::uint64_t> sort_words =
      small != nullptr ? nullptr : small_sort_for<std::uint64_t>(isa_in_use());

  void sort_few(const Record* in, std::size_t count, Record* out) const noexcept {
    if (small != nullptr) {
      small(in, count, out);
    } else {
      small_sort_by_place(in, count, out, key_of, sort_words);
    }
  }

  // Returns a function that tells the bucket of a record: it passes the record's key to `digit`.
  template <typename Digit>
  auto on_record(Digit digit) const noexcept {
    return
        [digit, key_of = key_of](const Record& record) noexcept { return digit(key_of(record)); };
  }
};

}}}  // namespace vortex::v0::detail

// What habits of std::sort() are told when they meet vortex::sort(): one sentence that says what to
// write, in place of the list of all overloads.
#pragma once

#include <type_traits>

#include "vortex/detail/array/compound_keys.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

// False, but only once a caller's types are known.
template <typename...>
inline constexpr bool kNever = false;

// sort(array) whose records have no order of their own.
template <typename T>
constexpr void explain_missing_key() {
  if constexpr (std::is_trivially_copyable_v<T>) {
    static_assert(kNever<T>,
                  "vortex::sort() needs a key for records of this type: a member, as in "
                  "sort(items, &Item::price), or a function of one record that returns a number, "
                  "several in a std::tuple, or a std::string_view");
  } else {
    static_assert(kNever<T>,
                  "vortex::sort() moves records as bytes, so they must be trivially copyable: "
                  "instead of std::pair and std::tuple sort a struct, with a key; strings have "
                  "an order of their own, and no key");
  }
}

// sort(array, key) where `key` is none.
template <typename T, typename KeyFunction>
constexpr void explain_wrong_key() {
  if constexpr (!std::is_trivially_copyable_v<T>) {
    explain_missing_key<T>();
  } else if constexpr (std::is_invocable_v<KeyFunction&, const T&, const T&>) {
    static_assert(kNever<T>,
                  "vortex::sort() takes a key, not a comparator: instead of a function of two "
                  "records give a member, as in sort(items, &Item::price), or a function of one "
                  "record; the largest first is {.order = vortex::Order::kDescending}");
  } else if constexpr (!std::is_invocable_v<KeyFunction&, const T&>) {
    static_assert(kNever<T>,
                  "the key of vortex::sort() is a member of the records, as in "
                  "sort(items, &Item::price), or a function of one record");
  } else {
    static_assert(kNever<T>,
                  "the key of vortex::sort() is a number, a std::tuple of numbers or a "
                  "std::string_view");
  }
}

// sort(range) of something that is no array.
template <typename Range>
constexpr void explain_no_array() {
  static_assert(kNever<Range>,
                "vortex::sort() sorts what is one array in memory: a std::vector that has a name "
                "(std::vector<bool> is none), a std::span, an array, or two pointers; copy a std::deque or a std::list into a std::vector");
}

}}}  // namespace vortex::v0::detail

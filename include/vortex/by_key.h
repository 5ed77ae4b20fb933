// An order of records by a key of theirs, for the sorts that take comparators.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 {

// Orders records as sort(records, key) does, by a number that is a member of theirs or that a
// function of one record returns: integers, enumerations, and floating-point numbers in the total
// order of RadixKey. Sorts of files (external_sort(), Sorter) sort by the number then, which is
// faster than to compare records; to them, and to std::sort(), it is a comparator like any other.
//
//   vortex::Sorter<Item, vortex::ByKey<double Item::*>> sorter(resources, {&Item::price});
//   vortex::external_sort<Item>(options, vortex::ByKey(&Item::price, vortex::Order::kDescending));
//
// The key must not throw, must give the same for the same record, and is called by all threads of a
// sort at once.
template <typename KeyFunction>
class ByKey {
 public:
  ByKey(KeyFunction key, Order order = Order::kAscending)  // not explicit: see above
      : key_(std::move(key)), order_(order) {}

  template <typename T>
  requires RadixKey<std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>>
  bool operator()(const T& left, const T& right) const noexcept {
    const auto a = to_key_bits(detail::take_key(key_, left));
    const auto b = to_key_bits(detail::take_key(key_, right));
    return order_ == Order::kAscending ? a < b : b < a;
  }

  const KeyFunction& key() const noexcept { return key_; }
  Order order() const noexcept { return order_; }

 private:
  KeyFunction key_;
  Order order_;
};

}}  // namespace vortex::v0

// An order as the kernels of external sorts take it: inlined, by leading bits first, and compiled
// for the usual sizes of records.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

//   leading_bits(a)           if leading_bits(a) < leading_bits(b), then a belongs before b;
//   leading_bits_decide()     whether equal bits mean equal records;
//   less_of_equal_bits(a, b)  whether a belongs before b, where their bits are equal and do not
//                             decide.
// Together they are a strict weak order over whole records at any address. Immutable; the functions
// may be called by several threads at a time and must not throw.
template <typename R>
concept OrderRules = std::copy_constructible<R> &&
    requires(const R& rules, const std::byte* record) {
  { rules.record_bytes() }
  noexcept->std::same_as<std::size_t>;
  { rules.leading_bits(record) }
  noexcept->std::same_as<std::uint64_t>;
  { rules.leading_bits_decide() }
  noexcept->std::same_as<bool>;
  { rules.less_of_equal_bits(record, record) }
  noexcept->std::same_as<bool>;
};

// A record and its leading bits, which stay with it, so that they are made once.
struct KeyedRecord {
  std::uint64_t bits = 0;
  const std::byte* record = nullptr;
};

template <typename Rules>
KeyedRecord with_bits(const Rules& rules, const std::byte* record) noexcept {
  return {rules.leading_bits(record), record};
}

template <typename Rules>
bool less(const Rules& rules, const KeyedRecord& left, const KeyedRecord& right) noexcept {
  if (left.bits != right.bits) return left.bits < right.bits;
  return !rules.leading_bits_decide() && rules.less_of_equal_bits(left.record, right.record);
}

// Calls kernel(bytes) with the size of a record, as a constant where it is a usual one or the
// compiler knows it already.
template <OrderRules R, typename Kernel>
auto with_size_of(const R& rules, const Kernel& kernel) {
  if constexpr (requires { typename std::bool_constant<(R::kRecordBytes > 0)>; }) {
    return kernel(std::integral_constant<std::size_t, R::kRecordBytes>{});
  } else {
    return with_constant<4, 8, 12, 16, 24, 32, 64, 100, 128>(rules.record_bytes(), kernel);
  }
}

}}}  // namespace vortex::v0::detail

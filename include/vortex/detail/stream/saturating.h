// Arithmetic with numbers that callers give, whose results need not fit.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace vortex { inline namespace v0 { namespace detail {

// A sum or a product that does not fit is the largest number there is. No file, memory or address
// space is as large as that, so the limits that the result meets refuse it, where one that wraps
// would pass them.
template <std::unsigned_integral T>
constexpr T saturating_sum(T a, std::type_identity_t<T> b) noexcept {
  T sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<T>::max() : sum;
}

template <std::unsigned_integral T>
constexpr T saturating_product(T a, std::type_identity_t<T> b) noexcept {
  T product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<T>::max() : product;
}

// How many units, which are not 0, hold that much.
template <std::unsigned_integral T>
constexpr T units_for(T value, std::type_identity_t<T> unit) noexcept {
  return value / unit + (value % unit != 0 ? 1 : 0);
}

// The least whole number of units that holds that much; saturating.
template <std::unsigned_integral T>
constexpr T round_up(T value, std::type_identity_t<T> unit) noexcept {
  return saturating_product(units_for(value, unit), unit);
}

// The last address up to this one, and the first from it on, that is a multiple of the alignment, a
// power of two.
inline std::byte* align_down(std::byte* address, std::size_t alignment) noexcept {
  return address - (reinterpret_cast<std::uintptr_t>(address) & (alignment - 1));
}
inline std::byte* align_up(std::byte* address, std::size_t alignment) noexcept {
  return align_down(address + (alignment - 1), alignment);
}

}}}  // namespace vortex::v0::detail

// Kernels compiled for the usual sizes of records.
#pragma once

#include <cstddef>
#include <type_traits>

#include "vortex/detail/merge/order_rules.h"

namespace vortex { inline namespace v0 { namespace detail {

// Calls kernel(bytes) with the size of a record, as a constant where it is a usual one.
template <typename Kernel>
auto with_constant_size(std::size_t record_bytes, const Kernel& kernel) {
  switch (record_bytes) {
    case 4:
      return kernel(std::integral_constant<std::size_t, 4>{});
    case 8:
      return kernel(std::integral_constant<std::size_t, 8>{});
    case 12:
      return kernel(std::integral_constant<std::size_t, 12>{});
    case 16:
      return kernel(std::integral_constant<std::size_t, 16>{});
    case 24:
      return kernel(std::integral_constant<std::size_t, 24>{});
    case 32:
      return kernel(std::integral_constant<std::size_t, 32>{});
    case 64:
      return kernel(std::integral_constant<std::size_t, 64>{});
    case 100:
      return kernel(std::integral_constant<std::size_t, 100>{});
    case 128:
      return kernel(std::integral_constant<std::size_t, 128>{});
    default:
      return kernel(record_bytes);
  }
}

// The same for rules whose records have one size that the compiler knows already.
template <OrderRules R, typename Kernel>
auto with_size_of(const R& rules, const Kernel& kernel) {
  if constexpr (requires { typename std::bool_constant<(R::kRecordBytes > 0)>; }) {
    return kernel(std::integral_constant<std::size_t, R::kRecordBytes>{});
  } else {
    return with_constant_size(rules.record_bytes(), kernel);
  }
}

}}}  // namespace vortex::v0::detail

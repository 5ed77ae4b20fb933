// Enumerators and their names, for options and messages.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

template <typename E>
struct Named {
  E value;
  const char* name;
};
template <typename E>
Named(E, const char*) -> Named<E>;

// "?" for one that the table does not have.
template <typename E, std::size_t count>
constexpr const char* name_in(const std::array<Named<E>, count>& table, E value) noexcept {
  for (const Named<E>& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

// Throws Error(EINVAL) that lists the names there are; `what` is the kind of thing that is named.
template <typename E, std::size_t count>
E value_in(const std::array<Named<E>, count>& table, std::string_view name, const char* what) {
  std::string names;
  for (const Named<E>& entry : table) {
    if (entry.name == name) return entry.value;
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw Error(EINVAL,
              std::string("no ") + what + " \"" + std::string(name) + "\"; there are: " + names);
}

}}  // namespace vortex::v0

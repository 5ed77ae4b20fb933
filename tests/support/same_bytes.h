// Whether arrays hold the same bytes. In one call: under a sanitizer a loop over them takes as long
// as a sort.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace vortex::test {

template <typename T>
bool same_bytes(const T* left, const T* right, std::size_t count) {
  return count == 0 || std::memcmp(static_cast<const void*>(left), right, count * sizeof(T)) == 0;
}

template <typename T>
bool same_bytes(const std::vector<T>& left, const std::vector<T>& right) {
  return left.size() == right.size() && same_bytes(left.data(), right.data(), left.size());
}

}  // namespace vortex::test

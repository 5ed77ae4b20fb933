// What every call of the C interface returns, and what a guarded copy does.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

#include "vortex/c.h"

namespace vortex::test {

// 0 or a negative errno value with a text, that of the handle or of the thread. Returns whether it
// went well.
inline bool expect(int result, const void* handle = nullptr) {
  EXPECT_LE(result, 0);
  EXPECT_GT(result, -4096);
  if (result != 0) {
    EXPECT_STRNE(vtx_strerror(handle), "") << result;
  }
  return result == 0;
}

// Copies upwards within a guarded body, a byte at a time, and returns what that returned.
inline int guarded_copy(const void* from, void* to, std::size_t bytes) {
  struct Range {
    const volatile char* from;
    volatile char* to;
    std::size_t bytes;
  } range{static_cast<const char*>(from), static_cast<char*>(to), bytes};
  const auto copy = [](void* context) {
    const Range& all = *static_cast<const Range*>(context);
    for (std::size_t i = 0; i < all.bytes; ++i) all.to[i] = all.from[i];
  };
  return vtx_guarded(copy, &range);
}

}  // namespace vortex::test

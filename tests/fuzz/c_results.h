// What every call of the C interface returns.
#pragma once

#include <gtest/gtest.h>

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

}  // namespace vortex::test

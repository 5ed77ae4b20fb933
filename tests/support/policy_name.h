// What tests of a prefetch policy are called.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "vortex/sort_resources.h"

namespace vortex::test {

inline std::string policy_name(const ::testing::TestParamInfo<PrefetchKind>& info) {
  std::string name(prefetch_kind_name(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace vortex::test

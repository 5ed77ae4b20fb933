// In which ways the tests of files in any order run.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <tuple>

#include "tests/disk/test_disk.h"
#include "tests/vortex/placing.h"

namespace vortex::test {

using Setting = std::tuple<Placing, Backend, std::size_t>;  // and the blocks of a request

struct NameOfSetting {
  std::string operator()(const testing::TestParamInfo<Setting>& setting) const {
    const auto& [placing, backend, group] = setting.param;
    return name_of(placing) + name_of(backend) + (group == 1 ? "Blocks" : "Groups");
  }
};

}  // namespace vortex::test

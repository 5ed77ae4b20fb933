// The inputs that the searches (./dev fuzz NAME) begin with, and those that they have found.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/targets.h"
#include "tests/support/file_text.h"
#include "tests/support/sanitizers.h"

namespace vortex::test::fuzz_seeds_test { namespace {

class FuzzSeeds : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzSeeds, AreRight) {
  const std::string name = GetParam().name;
  if (kThreadSanitizer && (name == "c_inputs" || name == "c_streams")) {
    GTEST_SKIP() << "their callbacks fail, and throwing allocates, which the thread sanitizer "
                    "reports inside any signal handler";
  }
  const char* const seeds = std::getenv("VORTEX_FUZZ_SEEDS");
  ASSERT_NE(seeds, nullptr);
  std::size_t inputs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(seeds) / name)) {
    SCOPED_TRACE(entry.path());
    GetParam().look_at(file_text(entry.path().string()));
    ++inputs;
  }
  EXPECT_GE(inputs, 1U);
  GetParam().look_at({});
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeeds, testing::ValuesIn(kFuzzTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace

}  // namespace vortex::test::fuzz_seeds_test

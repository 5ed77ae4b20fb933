// All searches by libFuzzer in one program: --target=NAME says which.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace vortex::test { namespace {

const FuzzTarget* chosen = nullptr;

// What a target finds wrong ends the program, which libFuzzer takes for a finding.
class Abort : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) std::abort();
  }
};

void choose(std::string_view name) {
  for (const FuzzTarget& target : kFuzzTargets) {
    if (target.name == name) chosen = &target;
  }
}

}  // namespace

}  // namespace vortex::test

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using namespace vortex::test;
  constexpr std::string_view kTarget = "--target=";  // libFuzzer leaves such options alone
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument.starts_with(kTarget)) choose(argument.substr(kTarget.size()));
  }
  if (chosen == nullptr) {
    std::fputs("--target=NAME, of these:", stderr);
    for (const FuzzTarget& target : kFuzzTargets) std::fprintf(stderr, " %s", target.name);
    std::fputc('\n', stderr);
    std::exit(2);
  }
  testing::UnitTest::GetInstance()->listeners().Append(new Abort);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vortex::test::chosen->look_at({reinterpret_cast<const char*>(data), size});
  return 0;
}

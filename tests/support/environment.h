// The features of the machine that tests need, and must not go without in CI.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "vortex/os/names.h"

namespace vortex::test {

// A test that cannot have one of these here may skip on somebody's own machine. Where $CI is set,
// which every CI service does, it fails: nobody reads what was skipped there.
// tests/disk/environment_test.cc looks for each by itself.
enum class Environment {
  kUring,
  kDirectIo,
  kHugePages,
  kMounts,
  kLoopDevices,
  kUserfaultfd,
  kSeccomp
};

inline const char* name_of(Environment environment) {
  constexpr std::array kNames = {
      Named{Environment::kUring, "io_uring"},
      Named{Environment::kDirectIo, "direct I/O in the temporary folder"},
      Named{Environment::kHugePages, "transparent huge pages (madvise or always)"},
      Named{Environment::kMounts, "mounts in a namespace of the test's own (root)"},
      Named{Environment::kLoopDevices, "loop devices (root, losetup, mkfs.ext4)"},
      Named{Environment::kUserfaultfd, "userfaultfd that moves pages (Linux 6.8, permission)"},
      Named{Environment::kSeccomp, "seccomp(2) that refuses calls or asks about them (Linux 5.9)"},
  };
  return name_in(kNames, environment);
}

inline bool in_ci() {
  const char* const told = std::getenv("CI");
  return told != nullptr && *told != '\0' && std::string(told) != "false";
}

// Ends the test: it skips, or fails where the environment must not be missing.
// NOLINTBEGIN(bugprone-macro-parentheses): the reason is streamed
#define END_TEST_WITHOUT(environment, reason)                                            \
  do {                                                                                   \
    if (::vortex::test::in_ci()) {                                                       \
      GTEST_FAIL() << "CI has no " << ::vortex::test::name_of(environment)               \
                   << ", and tests that need it must not be left out there: " << reason; \
    }                                                                                    \
    GTEST_SKIP() << reason;                                                              \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)

// vm.overcommit_memory=2 while it lives, where it is so anyway, or where the machine is the test's
// own ($VORTEX_OWN_MACHINE): the setting is the whole machine's.
class StrictOvercommit {
 public:
  StrictOvercommit() : before_(mode()) {
    if (is_set_) set(kStrict);
  }
  ~StrictOvercommit() {
    if (is_set_) set(before_);
  }
  StrictOvercommit(const StrictOvercommit&) = delete;
  StrictOvercommit& operator=(const StrictOvercommit&) = delete;

  // Why it is not; empty: it is.
  static std::string refusal() {
    const int now = mode();
    return now == kStrict ? "" : "vm.overcommit_memory is " + std::to_string(now) + ", not 2";
  }

 private:
  static constexpr int kStrict = 2;
  static constexpr const char* kSetting = "/proc/sys/vm/overcommit_memory";

  static int mode() {
    int mode = 0;
    std::ifstream(kSetting) >> mode;
    return mode;
  }
  static void set(int mode) { std::ofstream(kSetting) << mode; }

  const int before_;
  const bool is_set_ = before_ != kStrict && std::getenv("VORTEX_OWN_MACHINE") != nullptr;
};

}  // namespace vortex::test

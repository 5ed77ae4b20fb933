// How blocks come to lie in streams, for tests that run in each way.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/fault/engine_suite.h"
#include "tests/support/environment.h"
#include "vortex/block_pool.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/os/names.h"

namespace vortex::test {

// The two kinds of pool of the engines by signals, and the engine that has a kind of its own.
enum class Placing { kMoves, kAliases, kUserfaultfd };

inline std::string name_of(Placing placing) {
  constexpr std::array kNames = {Named{Placing::kMoves, "Moves"},
                                 Named{Placing::kAliases, "Aliases"},
                                 Named{Placing::kUserfaultfd, "Userfaultfd"}};
  return name_in(kNames, placing);
}

inline constexpr std::array kAllPlacings = {Placing::kMoves, Placing::kAliases,
                                            Placing::kUserfaultfd};

struct NameOfPlacing {
  std::string operator()(const ::testing::TestParamInfo<Placing>& placing) const {
    return name_of(placing.param);
  }
};

inline PoolKind pool_kind(Placing placing) {
  return placing == Placing::kAliases ? PoolKind::kAliases : PoolKind::kMoves;
}

inline Engine signal_engine() {
  return FaultDispatcher::compiled_in(Engine::kLibsigsegv) ? Engine::kLibsigsegv : Engine::kNative;
}

// Has faults received by this engine, whatever the environment asks for, while it lives and where
// there is no reason in `refusal` against it. Pools and streams are younger.
class FaultsBy {
 public:
  explicit FaultsBy(Engine engine) : refusal(why_not(engine)) {
    if (!refusal.empty()) return;
    dispatcher().stop();
    dispatcher().start(engine);
  }
  explicit FaultsBy(Placing placing)
      : FaultsBy(placing == Placing::kUserfaultfd ? Engine::kUserfaultfd : signal_engine()) {}
  ~FaultsBy() {
    if (refusal.empty()) dispatcher().stop();
  }
  FaultsBy(const FaultsBy&) = delete;
  FaultsBy& operator=(const FaultsBy&) = delete;

  const std::string refusal;
};

// A test with a placing, or with another parameter that says which one it has.
#define END_TEST_IF_REFUSED(faults)                                                  \
  do {                                                                               \
    if (!(faults).refusal.empty()) {                                                 \
      END_TEST_WITHOUT(::vortex::test::Environment::kUserfaultfd, (faults).refusal); \
    }                                                                                \
  } while (false)

class PlacingTest : public ::testing::TestWithParam<Placing> {
 protected:
  void SetUp() override { END_TEST_IF_REFUSED(faults_); }

 private:
  const FaultsBy faults_{GetParam()};
};

// For a file whose tests are about signals, aliases or guards: whatever the environment asks for.
class BySignals : public ::testing::Environment {
 public:
  explicit BySignals(const char* file) : file_(file) {}

  void SetUp() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *all.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count(); ++j) {
        const testing::TestInfo& test = *suite.GetTestInfo(j);
        if (test.should_run() && test.file() == file_) unsetenv("VORTEX_ENGINE");
      }
    }
  }

 private:
  const std::string_view file_;
};

}  // namespace vortex::test

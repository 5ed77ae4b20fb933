// Random tests that can be repeated: the seed is printed when a test fails.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace vortex::test {

class SeedPrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit SeedPrinter(std::uint64_t seed) : seed_(seed) {}

  void OnTestEnd(const ::testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    std::printf("random seed: repeat with VORTEX_TEST_SEED=%llu --gtest_filter=%s.%s\n",
                static_cast<unsigned long long>(seed_), info.test_suite_name(), info.name());
  }

 private:
  std::uint64_t seed_;
};

// The seed of this run: VORTEX_TEST_SEED, or a random one. Every failing test of the program prints
// it from the first call on, so call it in the test and not in a thread of it.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* wanted = std::getenv("VORTEX_TEST_SEED");
    std::random_device device;
    const std::uint64_t value = wanted != nullptr ? std::strtoull(wanted, nullptr, 10)
                                                  : (std::uint64_t{device()} << 32 | device());
    ::testing::UnitTest::GetInstance()->listeners().Append(new SeedPrinter(value));
    return value;
  }();
  return seed;
}

// A generator for one use of randomness; `stream` keeps several in one test apart.
inline std::mt19937_64 test_random(std::uint64_t stream = 0) {
  return std::mt19937_64(test_seed() + 0x9e3779b97f4a7c15 * stream);
}

// Whether tests may take minutes (`./dev test --long`).
inline bool long_tests() { return std::getenv("VORTEX_LONG_TESTS") != nullptr; }

}  // namespace vortex::test

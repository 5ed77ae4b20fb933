// Pools and streams where the system promises no more memory than it has. The setting is the whole
// machine's, so no test changes it: set it and run this one again.
//
//   sysctl -w vm.overcommit_memory=2
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "vortex/block_pool.h"
#include "vortex/pipeline.h"

namespace vortex::overcommit_test { namespace {

class Overcommit : public testing::TestWithParam<PoolKind> {
 protected:
  void SetUp() override {
    if (const std::string refusal = strict_.refusal(); !refusal.empty()) GTEST_SKIP() << refusal;
  }

  BlockPoolOptions options(std::size_t pool_bytes) const {
    return {.pool_bytes = pool_bytes, .kind = GetParam()};
  }

 private:
  const test::StrictOvercommit strict_;
};
INSTANTIATE_TEST_SUITE_P(, Overcommit, testing::Values(PoolKind::kMoves, PoolKind::kAliases));

// Bytes that the system still promises.
std::uint64_t left() {
  std::ifstream file("/proc/meminfo");
  std::uint64_t limit = 0, committed = 0, kib = 0;
  std::string name, unit;
  while (file >> name >> kib) {
    std::getline(file, unit);
    if (name == "CommitLimit:") limit = kib * 1024;
    if (name == "Committed_AS:") committed = kib * 1024;
  }
  return limit > committed ? limit - committed : 0;
}

TEST_P(Overcommit, StreamsGoOn) {
  constexpr std::uint64_t kCount = std::uint64_t{64} << 17;  // of 8 bytes each: 64 MiB
  PipelineOptions pipe;
  pipe.pool_kind = GetParam();
  Pipeline<std::uint64_t> pipeline(pipe);
  auto writer = pipeline.writer();
  auto reader = pipeline.reader();
  std::uint64_t sum = 0;
  std::thread consumer([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) sum += reader.data()[i];
  });
  for (std::uint64_t i = 0; i < kCount; ++i) writer.data()[i] = i;
  writer.finish(kCount);
  consumer.join();
  EXPECT_EQ(sum, kCount / 2 * (kCount - 1));
}

// An error where the memory is asked for, and no signal where it is touched.
TEST_P(Overcommit, APoolThatIsTooLargeIsRefused) {
  auto too_large = options(left() + (std::size_t{4} << 30));
  too_large.warming = Warming::kEager;
  EXPECT_EQ(test::error_of([&] { BlockPool pool(too_large); }), ENOMEM);
}

}  // namespace

}  // namespace vortex::overcommit_test

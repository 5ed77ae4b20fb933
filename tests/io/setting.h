// In which ways the tests of files in any order run, and what they run on.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "tests/disk/test_disk.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/random_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/vortex/placing.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex::test {

inline constexpr std::size_t kBlock = kMinBlockBytes;

using Setting = std::tuple<Placing, Backend, std::size_t>;  // and the blocks of a request

struct NameOfSetting {
  std::string operator()(const testing::TestParamInfo<Setting>& setting) const {
    const auto& [placing, backend, group] = setting.param;
    return name_of(placing) + name_of(backend) + (group == 1 ? "Blocks" : "Groups");
  }
};

class SettingTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override { END_TEST_IF_REFUSED(faults); }
  Placing placing() const { return std::get<0>(GetParam()); }
  Backend backend() const { return std::get<1>(GetParam()); }
  std::size_t group() const { return std::get<2>(GetParam()); }

  std::string fill(std::size_t size) {
    std::string text = random_text(random, size);
    put_file_text(path, text);
    return text;
  }

  const FaultsBy faults{placing()};
  std::mt19937_64 random = test_random();
  TemporaryFolder folder;
  std::string path = folder.file("file");
};

// A file on a disk that may misbehave, with a pool that has more blocks than it may take.
template <typename File>
struct Bench {
  template <typename Options>
  Bench(const std::string& path, const Setting& setting, Options options,
        std::shared_ptr<FaultPlan> faults = nullptr)
      : disk(std::get<1>(setting), std::move(faults)),
        most(File::blocks_needed(options, kBlock)),
        pool({.pool_bytes = (most + 8) * kBlock,
              .block_bytes = kBlock,
              .warming = Warming::kOnDemand,
              .kind = pool_kind(std::get<0>(setting))}) {
    options.disk = disk.disk.get();
    options.pool = &pool;
    file = std::make_unique<File>(path, options);
  }
  ~Bench() {
    EXPECT_LE(pool.statistics().peak_blocks_in_use, most);
    file.reset();
    EXPECT_EQ(pool.statistics().blocks_in_use, pool.statistics().blocks_lost);
  }

  TestDisk disk;
  std::size_t most;
  BlockPool pool;
  std::unique_ptr<File> file;
};

inline std::uint64_t calls_left = 0;
inline os::MemoryCall refused_call = os::MemoryCall::kMove;

// Calls try_one(guarded) for each kind of call on memory, of which the kernel refuses one, a later
// one each time: guarded(body) runs the body meanwhile, which ends well or with ENOMEM.
template <typename TryOne>
void with_a_refusal(std::uint64_t most_calls, std::uint64_t most_step, std::mt19937_64& random,
                    TryOne try_one) {
  for (const os::MemoryCall call :
       {os::MemoryCall::kMove, os::MemoryCall::kAlias, os::MemoryCall::kVacate,
        os::MemoryCall::kProtect, os::MemoryCall::kPopulate}) {
    for (std::uint64_t k = 1; k < most_calls; k += 1 + random() % most_step) {
      SCOPED_TRACE(testing::Message() << "call " << k << " of kind " << static_cast<int>(call));
      try_one([&](auto body) {
        refused_call = call;
        calls_left = k;
        os::set_failure_hook(+[](os::MemoryCall made) noexcept {
          return made != refused_call || calls_left == 0 || --calls_left != 0 ? 0 : ENOMEM;
        });
        const Failure failure = guarded(body);
        os::set_failure_hook(nullptr);
        EXPECT_TRUE(failure.error == 0 || failure.error == ENOMEM) << failure.message();
        return failure;
      });
    }
  }
}

}  // namespace vortex::test

// The machine's memory and the limits of control groups, read from made-up files.
#include "vortex/sort_resources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "sort/plan/memory_limits.h"
#include "sort/plan/record_plan.h"
#include "tests/support/temporary_folder.h"
#include "vortex/os/map_budget.h"

namespace vortex::memory_limits_test { namespace {

class MemoryLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n");
  }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path().string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  MemoryLimits limits() const { return memory_limits(folder_.path().string()); }

  test::TemporaryFolder folder_;
};

TEST_F(MemoryLimitsTest, WithoutGroupsTheMachineIsTheLimit) {
  EXPECT_EQ(limits().machine_bytes, 1000U << 10);
  EXPECT_EQ(limits().available_bytes, 400U << 10);
  EXPECT_FALSE(limits().group_bytes);
  EXPECT_EQ(limits().usable_bytes(), 1000U << 10);
}

TEST_F(MemoryLimitsTest, TheLowestGroupOnTheWayUpCounts) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.max", "4096\n");
  write("/sys/fs/cgroup/a/memory.max", "8192\n");
  ASSERT_TRUE(limits().group_bytes);
  EXPECT_EQ(*limits().group_bytes, 4096U);
  EXPECT_TRUE(limits().group_file.ends_with("/sys/fs/cgroup/a/b/memory.max"));
  EXPECT_EQ(limits().usable_bytes(), 4096U);
}

TEST_F(MemoryLimitsTest, VersionOneAndItsWordForNoLimit) {
  write("/proc/self/cgroup", "5:cpu:/x\n4:memory:/jobs/7\n0::/\n");
  write("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(limits().group_bytes);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "12288\n");
  ASSERT_TRUE(limits().group_bytes);
  EXPECT_EQ(*limits().group_bytes, 12288U);
}

TEST_F(MemoryLimitsTest, ALimitBeyondTheMachineIsNoLimit) {
  write("/proc/self/cgroup", "0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  EXPECT_EQ(limits().usable_bytes(), 1000U << 10);
}

TEST_F(MemoryLimitsTest, ASortTakesHalfOfWhatIsFreeAndAGibibyteAtMost) {
  EXPECT_EQ(default_memory_bytes(limits()), 200U << 10);
  write("/proc/self/cgroup", "0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "102400\n");
  EXPECT_EQ(default_memory_bytes(limits()), 51200U);
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  write("/proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable: 32000000 kB\n");
  EXPECT_EQ(default_memory_bytes(limits()), std::uint64_t{1} << 30);
}

TEST(MemoryLimits, FillInWhatARequestLeavesOpen) {
  SortPlanRequest request;
  request.record_bytes = 8;
  limit_to_process(request, DiskBackend::kBest, 2);
  EXPECT_GT(request.memory_bytes, 0U);
  EXPECT_LE(request.memory_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(request.most_maps, MapBudget::available());
  (void)plan_sort(request);
  request.memory_bytes = 12345678;
  limit_to_process(request, DiskBackend::kBest, 2);
  EXPECT_EQ(request.memory_bytes, 12345678U);
}

TEST(MemoryLimits, OfThisMachineAgreeWithSysconf) {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(memory_limits().machine_bytes, pages * page_bytes);
}

}  // namespace

}  // namespace vortex::memory_limits_test

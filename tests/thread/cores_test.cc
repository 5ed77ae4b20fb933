// The cores that a process may use, with control groups read from made-up files.
#include "vortex/thread/control_groups.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"

namespace vortex::cores_test { namespace {

class CoresTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path().string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  unsigned cores() const { return usable_cores(folder_.path().string()); }

  static unsigned allowed() {
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return static_cast<unsigned>(CPU_COUNT(&set));
  }

  test::TemporaryFolder folder_;
};

TEST_F(CoresTest, WithoutGroupsThoseOnWhichItMayRun) { EXPECT_EQ(cores(), allowed()); }

TEST_F(CoresTest, OneWhereTheThreadIsBoundToOne) {
  test::run_together(1, [&](std::size_t) {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cores(), 1u);
  });
}

TEST_F(CoresTest, AQuotaOfAGroupOnTheWayUpCounts) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), allowed());
  write("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(CoresTest, TheGroupAtTheMountCounts) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(cores(), 1u) << "a fifth of a core is one";
}

TEST_F(CoresTest, APartOfACoreCountsAsOne) {
  if (allowed() < 2) GTEST_SKIP() << "one core: a quota of more is no limit";
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "100001 100000\n");
  EXPECT_EQ(cores(), 2u);
  write("/sys/fs/cgroup/cpu.max", "100000000 100000\n");
  EXPECT_EQ(cores(), allowed()) << "a quota beyond the machine is no limit";
}

TEST_F(CoresTest, VersionOneAndItsWordForNoQuota) {
  write("/proc/self/cgroup", "7:cpuset:/x\n5:cpu,cpuacct:/jobs/7\n0::/\n");
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), allowed());
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(CoresTest, LinesThatNameNoGroupAreLeftOut) {
  // Groups that such lines would have by mistake have no more than one.
  for (const char* group : {"", "/cpu", "/nonsense", "/3:cpu"}) {
    const std::string folder = std::string("/sys/fs/cgroup") + group;
    write(folder + "/cpu.max", "100000 100000\n");
    write(folder + "/cpu.cfs_quota_us", "100000\n");
    write(folder + "/cpu.cfs_period_us", "100000\n");
  }
  write("/proc/self/cgroup", "nonsense\n\n3:cpu\n");
  EXPECT_EQ(cores(), allowed());
}

}  // namespace

}  // namespace vortex::cores_test

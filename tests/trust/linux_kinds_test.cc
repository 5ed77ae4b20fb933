// Whole jobs where Linux is older, refuses what containers refuse, or has another file system. Each
// kind is a process of its own, so that what it has given up comes back.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "tests/trust/jobs/whole_jobs.h"

namespace vortex::test::linux_kinds_test { namespace {

// The status of a child that lacks an environment, which comes on top; jobs are fewer.
constexpr int kWithout = 77;
constexpr int kSkipped = 76;  // what it lacks may be missing anywhere

int without(Environment environment, const std::string& refusal) {
  std::fprintf(stderr, "%s\n", refusal.c_str());
  return kWithout + static_cast<int>(environment);
}

// In a child: 0, or how many jobs went wrong, which it tells. Half of all, by chance, unless tests
// may take long.
int do_jobs() {
  auto random = test_random();
  int wrong = 0;
  for (const std::string& name : job_names()) {
    if (!long_tests() && random() % 2 == 0) continue;
    std::string complaint;
    try {
      const WholeJob job = make_job(name, random);
      job.prepare();
      job.run();
      complaint = job.complaint(true, false);
    } catch (const std::exception& error) {
      complaint = error.what();
    }
    if (complaint.empty()) continue;
    std::fprintf(stderr, "%s: %s\n", name.c_str(), complaint.c_str());
    ++wrong;
  }
  return wrong;
}

void expect_jobs(const std::function<int()>& body) {
  if (kShadowMemory) GTEST_SKIP() << "sanitizers have calls of their own";
  const int status = in_child(body);
  if (status == kSkipped) GTEST_SKIP() << "what is refused here was told above";
  if (status >= kWithout) {
    END_TEST_WITHOUT(static_cast<Environment>(status - kWithout), "the reason was told above");
  }
  EXPECT_EQ(status, 0) << "seed " << test_seed();
}

// --- Kinds that refuse calls

constexpr unsigned kPopulateRead = 22, kPopulateWrite = 23;  // of madvise(2), Linux 5.14

bool refuse_calls(std::initializer_list<unsigned> numbers, int error) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](unsigned number) { return refuse_call(number, error); });
}
bool have_no_dontunmap() { return refuse_flags(SYS_mremap, 3, 4, EINVAL); }  // Linux 5.7
bool have_no_populate() {
  return refuse_call_with(SYS_madvise, 2, kPopulateRead, EINVAL) &&
         refuse_call_with(SYS_madvise, 2, kPopulateWrite, EINVAL);
}

struct Kind {
  const char* name;
  bool (*become)();
};
const Kind kKinds[] = {
    {"AsItIs", [] { return true; }},
    {"NoIoUring", [] { return refuse_call(SYS_io_uring_setup, ENOSYS); }},
    {"IoUringOfNoUse", [] { return refuse_call(SYS_io_uring_enter, EPERM); }},
    {"NoUserfaultfd", [] { return refuse_call(SYS_userfaultfd, ENOSYS); }},
    {"NoDontUnmap", have_no_dontunmap},
    {"NoPopulate", have_no_populate},
    {"NoNamelessFiles", refuse_nameless_files},
    // As vm.overcommit_memory=2, which is the whole machine's: all that may be written counts,
    // MAP_NORESERVE or not.
    {"PromisesNoMore",
     [] {
       const rlimit limit{std::uint64_t{1} << 30, std::uint64_t{1} << 30};
       return setrlimit(RLIMIT_DATA, &limit) == 0;
     }},
    {"NoHugePages", [] { return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0; }},
    // The profile of Docker.
    {"Container",
     [] {
       return refuse_calls({SYS_io_uring_setup, SYS_userfaultfd, SYS_mbind, SYS_set_mempolicy,
                            SYS_perf_event_open, SYS_ptrace, SYS_bpf, SYS_mount},
                           EPERM) &&
              refuse_calls({SYS_clone3}, ENOSYS);
     }},
    {"Debian10",
     [] {
       return refuse_calls({SYS_clone3, SYS_openat2, SYS_faccessat2, SYS_close_range,
                            SYS_process_madvise, SYS_io_uring_setup},
                           ENOSYS) &&
              have_no_dontunmap() && have_no_populate();
     }},
    {"LikeGvisor",
     [] {
       return refuse_calls({SYS_io_uring_setup, SYS_userfaultfd, SYS_statx, SYS_membarrier,
                            SYS_sync_file_range, SYS_preadv2, SYS_pwritev2, SYS_renameat2,
                            SYS_copy_file_range, SYS_close_range},
                           ENOSYS) &&
              refuse_call(SYS_fallocate, EOPNOTSUPP) && refuse_nameless_files() &&
              have_no_dontunmap();
     }},
};

class LinuxKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(LinuxKinds, DoAllJobs) {
  expect_jobs([] {
    if (GetParam().become()) return do_jobs();
    return without(Environment::kSeccomp,
                   std::string("it cannot be refused: ") + std::strerror(errno));
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinuxKinds, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

TEST(LinuxThatPromisesNoMore, DoesAllJobs) {
  const StrictOvercommit strict;
  if (const std::string refusal = strict.refusal(); !refusal.empty()) GTEST_SKIP() << refusal;
  expect_jobs(do_jobs);
}

// --- File systems

// Others are modules, have programs of their own, do not lie on each other, or take more room than
// the memory of a container has for files.
bool is_of_every_kernel(std::string_view type) {
  return type == "tmpfs" || type == "ramfs" || type == "ext4";
}

class FileSystems : public ::testing::TestWithParam<const char*> {};

TEST_P(FileSystems, HaveAllJobsFiles) {
  expect_jobs([] {
    const SmallFileSystem small(GetParam(), std::uint64_t{320} << 20, fast_folder());
    if (!small.refusal.empty()) {
      const int status = without(small.environment, small.refusal);
      return is_of_every_kernel(GetParam()) ? status : kSkipped;
    }
    folder_of_jobs() = small.root;
    return do_jobs();
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, FileSystems,
                         testing::Values("tmpfs", "ramfs", "overlay", "ext4", "xfs", "btrfs",
                                         "vfat", "exfat-fuse"),
                         [](const auto& type) {
                           return std::string(type.param, std::strcspn(type.param, "-"));
                         });

}  // namespace

}  // namespace vortex::test::linux_kinds_test

// The features that CI must have, each looked for with the system's own means.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/support/environment.h"
#include "tests/support/loop_device.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"

namespace vortex::test::environment_test { namespace {

TEST(Environments, IoUring) {
  io_uring_params parameters{};
  const auto ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
  if (ring < 0) END_TEST_WITHOUT(Environment::kUring, "io_uring_setup: " << std::strerror(errno));
  close(ring);
}

TEST(Environments, DirectIo) {
  const TemporaryFolder folder;
  const int file = open(folder.file("file").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  constexpr std::size_t kSector = 4096;
  void* const memory = std::aligned_alloc(kSector, kSector);
  ASSERT_NE(memory, nullptr);
  std::memset(memory, 'x', kSector);
  const bool written = file >= 0 && write(file, memory, kSector) == ssize_t{kSector};
  const int error = errno;
  std::free(memory);
  if (file >= 0) close(file);
  if (!written) {
    END_TEST_WITHOUT(Environment::kDirectIo,
                     "O_DIRECT in " << folder.path() << ": " << std::strerror(error));
  }
}

TEST(Environments, HugePages) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  void* const memory =
      mmap(nullptr, 2 * kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, 2 * kHugePage, MADV_HUGEPAGE);
  std::memset(memory, 1, 2 * kHugePage);
  std::ifstream maps("/proc/self/smaps_rollup");
  std::string found = "smaps_rollup tells nothing of them";
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("AnonHugePages:")) found = line;
  }
  munmap(memory, 2 * kHugePage);
  const std::size_t digit = found.find_first_of("123456789");
  if (digit == std::string::npos) END_TEST_WITHOUT(Environment::kHugePages, found);
}

TEST(Environments, Mounts) {
  const SmallFileSystem system("tmpfs", std::uint64_t{1} << 20);
  if (!system.refusal.empty()) END_TEST_WITHOUT(Environment::kMounts, system.refusal);
}

TEST(Environments, LoopDevices) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("image")) << std::string(1 << 20, 'x');
  const LoopDevice device(folder.file("image"));
  if (device.path().empty()) END_TEST_WITHOUT(Environment::kLoopDevices, LoopDevice::kRefusal);
  const SmallFileSystem system("ext4", std::uint64_t{8} << 20);
  if (!system.refusal.empty()) END_TEST_WITHOUT(Environment::kLoopDevices, system.refusal);
}

TEST(Environments, Userfaultfd) {
  const auto file = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  // The headers here may be older than the feature, which came with Linux 6.8.
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = std::uint64_t{1} << 16;
  const bool moves = file >= 0 && ioctl(file, UFFDIO_API, &api) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (!moves) END_TEST_WITHOUT(Environment::kUserfaultfd, "userfaultfd: " << std::strerror(error));
}

TEST(Environments, Seccomp) {
  const std::uint32_t asks = SECCOMP_RET_USER_NOTIF;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &asks) != 0) {
    END_TEST_WITHOUT(Environment::kSeccomp, "seccomp: " << std::strerror(errno));
  }
}

}  // namespace

}  // namespace vortex::test::environment_test

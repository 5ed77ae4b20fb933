// Tests that take the process, or something that it relies on, away and look at the rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/disk/thread_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/vortex/placing.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex::pulled_rug_test { namespace {

const testing::Environment* const by_signals =
    testing::AddGlobalTestEnvironment(new test::BySignals(__FILE__));

using test::error_of;
using test::in_child;
using test::refuse_call;
using test::refuse_nameless_files;

constexpr std::size_t kBlock = std::size_t{16} << 10;

// Writes and reads a file with the default settings; says what the disk says of itself.
int write_and_read(const std::string& path, std::string* told) {
  constexpr std::uint64_t kCount = 200'000;
  {
    FileWriter<std::uint64_t> out(path, {.block_bytes = kBlock});
    for (std::uint64_t i = 0; i < kCount; ++i) out.data()[i] = i * i;
    out.finish(kCount);
  }
  const FileReader<std::uint64_t> in(path, {.block_bytes = kBlock, .caching = Caching::kDirect});
  for (std::uint64_t i = 0; i < kCount; ++i) {
    if (in.data()[i] != i * i) return 1;
  }
  const DiskStatistics statistics = in.statistics().disks[0];
  *told = statistics.backend + "|" + statistics.fallback + "|" + statistics.registration;
  return in.size() == kCount ? 0 : 2;
}

bool told(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::cerr << "'" << part << "' is not in '" << text << "'\n";
  return false;
}

bool uring_works() { return open_disk()->statistics().fallback.empty(); }

bool refuse_io_uring(int error) { return refuse_call(SYS_io_uring_setup, error); }

TEST(PulledRug, WithoutIoUringThreadsServeAndSayWhy) {
  const test::TemporaryFolder folder;
  for (const int error : {EPERM, ENOSYS}) {
    test::expect_in_child([&] {
      if (!refuse_io_uring(error)) return 77;
      std::string text;
      if (write_and_read(folder.file("file"), &text) != 0) return 1;
      if (!told(text, "threads|") || !told(text, "io_uring")) return 2;
      return told(text, "seccomp") ? 0 : 3;
    });
  }
}

// As somebody who has neither the capability nor the device.
bool become_nobody() { return setgid(65534) == 0 && setuid(65534) == 0; }

// Why pools cannot have the engine that the environment asks for; empty: they can.
std::string refusal_of_userfaultfd() {
  setenv("VORTEX_ENGINE", "userfaultfd", 1);
  std::string why;
  const int error =
      error_of([] { BlockPool({.pool_bytes = kBlock, .block_bytes = kBlock}); }, &why);
  return error == 0 ? "" : std::to_string(error) + ": " + why;
}

TEST(PulledRug, WithoutUserfaultfdTheErrorSaysWhatToSet) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give its rights away";
  struct Case {
    const char* what;
    std::function<bool()> refuse;
    int error;
    std::vector<const char*> said;
  };
  const std::vector<Case> cases = {
      {"permission",
       [] { return refuse_call(SYS_userfaultfd, EPERM) && become_nobody(); },
       EPERM,
       {"vm.unprivileged_userfaultfd=1", "/dev/userfaultfd", "CAP_SYS_PTRACE", "seccomp"}},
      {"a kernel without it, or a profile that says so",
       [] { return refuse_call(SYS_userfaultfd, ENOSYS) && become_nobody(); },
       ENOSYS,
       {"CONFIG_USERFAULTFD", "seccomp", "VORTEX_ENGINE=signal"}},
      {"an old kernel",
       [] {
         const auto command = static_cast<unsigned>(UFFDIO_API);
         return test::refuse_call_with(SYS_ioctl, 1, command, EINVAL);
       },
       ENOSYS,
       {"Linux 6.8", "VORTEX_ENGINE=signal"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    test::expect_in_child([&] {
      if (!one.refuse()) return 77;
      const std::string refusal = refusal_of_userfaultfd();
      if (!told(refusal, std::to_string(one.error) + ": ")) return 1;
      for (const char* const part : one.said) {
        if (!told(refusal, part)) return 2;
      }
      return 0;
    });
  }
  test::expect_in_child([&] {
    if (!become_nobody()) return 77;
    setenv("VORTEX_ENGINE", "signals", 1);
    std::string why;
    error_of([] { BlockPool({.pool_bytes = kBlock, .block_bytes = kBlock}); }, &why);
    return told(why, "signal, libsigsegv, native or userfaultfd") ? 0 : 2;
  });
}

TEST(PulledRug, WhatWasAskedForByNameIsNotReplaced) {
  test::expect_in_child([] {
    if (!refuse_io_uring(EPERM)) return 77;
    return error_of([] { open_disk({.backend = DiskBackend::kUring}); }) == EPERM ? 0 : 1;
  });
}

// Without the privilege that overrides the limit.
bool limit_locked_memory(rlim_t bytes) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return false;
  for (auto& set : sets) set.effective = set.permitted = set.inheritable = 0;
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && syscall(SYS_capset, &header, sets.data()) == 0;
}

// Rings count, too, those that are gone only after a while: there must be room for some, and not
// for the blocks.
TEST(PulledRug, WithoutLockedMemoryRequestsGoUnregistered) {
  if (!uring_works()) END_TEST_WITHOUT(test::Environment::kUring, "io_uring is refused");
  const test::TemporaryFolder folder(std::filesystem::path("/dev/shm"));
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  test::expect_in_child([&] {
    if (!limit_locked_memory(1 << 20)) return 77;
    std::string text;
    if (write_and_read(folder.file("file"), &text) != 0) return 1;
    if (!told(text, "io_uring||")) return 2;
    return told(text, "RLIMIT_MEMLOCK") ? 0 : 3;
  });
}

// A disk that loses data it has taken says so when it is asked to sync. A writer that does not ask
// is not told.
TEST(PulledRug, AFailedSyncLeavesNothingUnderTheName) {
  const test::TemporaryFolder folder;
  for (const bool striped : {false, true}) {
    for (const bool sync : {true, false}) {
      EXPECT_EQ(in_child([&] {
                  if (!refuse_call(SYS_fsync, EIO)) return 77;
                  FileWriterOptions options;
                  options.block_bytes = kBlock;
                  options.sync = sync;
                  ThreadDisk disk;
                  StripedFileOptions striping;
                  striping.unit_bytes = kBlock;
                  StripedFile parted({{folder.file("part"), &disk}}, striping);
                  auto out = striped ? FileWriter<char>(parted.writing_layout(), options)
                                     : FileWriter<char>(folder.file("file"), options);
                  out.data()[0] = 'x';
                  return error_of([&] { out.finish(1); }) == (sync ? EIO : 0) ? 0 : 1;
                }),
                0)
          << striped << sync;
      EXPECT_EQ(folder.entries(), sync ? 0u : 1u);
      unlink(folder.file("file").c_str());
      unlink(folder.file("part").c_str());
    }
  }
}

// After a failed sync the kernel takes the data for written, and the next sync would succeed: an
// array fails all later ones. What it holds in memory can be read and written on.
TEST(PulledRug, AFailedSyncOfAnArrayIsNeverForgotten) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("array");
  test::expect_in_child([&] {
    FileArray<char> array(path, {.block_bytes = kBlock, .make = true});
    array.resize(3 * kBlock);
    array.flush();
    array.data()[kBlock] = 'x';
    if (!refuse_call(SYS_fsync, EIO)) return 77;
    for (int i = 0; i < 2; ++i) {
      std::string why;
      if (error_of([&] { array.flush(); }, &why) != EIO || !told(why, path)) return 2;
      if (i == 1 && !told(why, "an earlier sync failed")) return 3;
    }
    array.data()[0] = 'y';
    array.flush(Flush::kWritten);
    return array.data()[kBlock] == 'x' ? 0 : 4;
  });
  std::ifstream file(path);
  EXPECT_EQ(file.get(), 'y');
}

// There is a temporary name then, which goes away with the writer, and not with a forked child's
// copy of it.
TEST(PulledRug, WithoutNamelessFilesATemporaryNameServes) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  test::expect_in_child([&] {
    if (!refuse_nameless_files()) return 77;
    auto out = std::make_unique<FileWriter<char>>(path);
    out->data()[0] = 'x';
    if (folder.entries() != 1 || access(path.c_str(), F_OK) == 0) return 1;
    out.reset();
    if (folder.entries() != 0) return 2;
    out = std::make_unique<FileWriter<char>>(path);
    out->data()[0] = 'x';
    if (in_child([&] {
          out.reset();
          return 0;
        }) != 0) {
      return 3;
    }
    if (folder.entries() != 1) return 4;
    out->finish(1);
    if (folder.entries() != 1 || access(path.c_str(), F_OK) != 0) return 5;
    // Another one, while the first is there.
    out = std::make_unique<FileWriter<char>>(path, FileWriterOptions{.sync = true});
    out->finish(0);
    if (std::filesystem::file_size(path) != 0 || folder.entries() != 1) return 6;
    unlink(path.c_str());
    out = std::make_unique<FileWriter<char>>(path, FileWriterOptions{.replace = false});
    std::ofstream(path) << "other";
    if (error_of([&] { out->finish(0); }) != EEXIST) return 7;
    out.reset();
    return folder.entries() == 1 && std::filesystem::file_size(path) == 5 ? 0 : 9;
  });
}

// Whatever finish() needs is there from the beginning: nothing is lost at the end for want of it.
TEST(PulledRug, WithoutDescriptorsAtTheEndTheFileGetsItsName) {
  if (test::kShadowMemory) GTEST_SKIP() << "sanitizers need descriptors of their own";
  const test::TemporaryFolder folder;
  for (const bool replace : {false, true}) {
    EXPECT_EQ(in_child([&] {
                FileWriter<char> out(folder.file("file"), {.block_bytes = kBlock, .sync = true});
                out.data()[0] = 'x';
                const rlimit none{0, 0};
                if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 77;
                out.finish(1);
                return 0;
              }),
              0)
        << replace;
    EXPECT_EQ(folder.entries(), 1u);
    EXPECT_EQ(std::filesystem::file_size(folder.file("file")), 1u);
  }
}

// The other side of a pipe may take its time, also on kernels that cannot write without waiting.
TEST(PulledRug, APipeOfAnOldKernel) {
  test::expect_in_child([] {
    if (!refuse_call(SYS_pwritev2, EOPNOTSUPP)) return 77;
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return 78;
    std::thread reader([&] {
      std::array<char, 4096> part;
      for (std::uint64_t at = 0; ssize_t got = read(ends[0], part.data(), part.size());) {
        for (ssize_t i = 0; i < got; ++i, ++at) {
          if (part[static_cast<std::size_t>(i)] != static_cast<char>(at % 251)) _exit(3);
        }
      }
    });
    {
      FileWriter<char> out(ends[1], {.block_bytes = kBlock});
      for (std::size_t i = 0; i < 20 * kBlock; ++i) {
        out.data()[i] = static_cast<char>(i % 251);
      }
      out.finish(20 * kBlock);
    }
    close(ends[1]);
    reader.join();
    // And need not come at all.
    if (pipe(ends.data()) != 0 || write(ends[1], "x", 1) != 1) return 79;
    FileWriter<char> unread(ends[1], {.block_bytes = kBlock, .request_bytes = 32 * kBlock});
    for (std::size_t i = 0; i < 34 * kBlock; ++i) unread.data()[i] = 'x';
    // One page holds the byte from before, and the others get full.
    const int full = fcntl(ends[1], F_GETPIPE_SZ) - 4096 + 1;
    for (int held = 0; held < full; std::this_thread::yield()) {
      if (ioctl(ends[0], FIONREAD, &held) != 0) return 80;
    }
    return 0;
  });
}

// Room that cannot be reserved is no error; room that is refused is one.
TEST(PulledRug, FileSystemsThatCannotReserveRoom) {
  const test::TemporaryFolder folder;
  for (const int error : {EOPNOTSUPP, EIO}) {
    test::expect_in_child([&] {
      if (!refuse_call(SYS_fallocate, error)) return 77;
      const int refusal = error_of([&] {
        FileWriter<char>(folder.file("file"), {.block_bytes = kBlock, .expected_bytes = kBlock})
            .finish(0);
      });
      return refusal == (error == EIO ? EIO : 0) ? 0 : 1;
    });
  }
}

// The parent kills the child after a random number of blocks that the child says it has written.
TEST(PulledRug, KilledAtAnyMomentTheOldFileOrTheWholeIsThere) {
  auto random = test::test_random();
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  constexpr std::uint64_t kBlocks = 64;
  const int rounds = test::long_tests() ? 400 : 40;
  int finished = 0;
  std::uint64_t patience = 100;  // yields of the processor, for a child that has written all blocks
  for (int round = 0; round < rounds; ++round) {
    unlink(path.c_str());
    const std::string old = round % 2 == 0 ? "" : "old";
    if (!old.empty()) test::put_file_text(path, old);
    std::array<int, 2> progress{};
    ASSERT_EQ(pipe(progress.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(progress[0]);
      FileWriter<char> out(path, {.block_bytes = kBlock, .request_bytes = kBlock});
      for (std::uint64_t block = 0; block < kBlocks; ++block) {
        for (std::size_t i = 0; i < kBlock; ++i) out.data()[block * kBlock + i] = 'x';
        if (write(progress[1], "", 1) != 1) _exit(1);
      }
      out.finish(kBlocks * kBlock);
      _exit(0);
    }
    close(progress[1]);
    const bool all = round % 4 > 1;
    const std::uint64_t blocks = all ? kBlocks : random() % kBlocks;
    char byte = 0;
    for (std::uint64_t i = 0; i < blocks; ++i) ASSERT_EQ(read(progress[0], &byte, 1), 1);
    for (std::uint64_t i = all ? random() % patience : 0; i > 0; --i) std::this_thread::yield();
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    close(progress[0]);
    // All or what was there, whatever the moment was.
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.is_open() || old.empty());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text == old) {
      if (all) patience *= 2;
      continue;
    }
    ++finished;
    patience = patience * 3 / 4 + 1;
    ASSERT_TRUE(text == std::string(kBlocks * kBlock, 'x')) << text.size();
  }
  EXPECT_GT(finished, 0);
  EXPECT_LT(finished, rounds);
}

// A child that is forked with requests under way has the objects and not the requests: it can drop
// them, and the parent goes on.
TEST(PulledRug, ForkWithRequestsUnderWay) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  constexpr std::size_t kBlocks = 100;
  {
    auto out = std::make_unique<FileWriter<char>>(
        path, FileWriterOptions{.block_bytes = kBlock, .request_bytes = kBlock});
    for (std::size_t i = 0; i < kBlocks / 2 * kBlock; ++i) out->data()[i] = 'x';
    test::expect_in_child([&] {
      out.reset();
      return 0;
    });
    for (std::size_t i = kBlocks / 2 * kBlock; i < kBlocks * kBlock; ++i) out->data()[i] = 'x';
    out->finish(kBlocks * kBlock);
  }
  auto in = std::make_unique<FileReader<char>>(
      path, FileReaderOptions{
                .block_bytes = kBlock, .request_bytes = kBlock, .caching = Caching::kDirect});
  std::size_t count = 0;
  for (std::size_t i = 0; i < in->size(); ++i) {
    if (i == kBlocks / 2 * kBlock) {
      test::expect_in_child([&] {
        in.reset();
        return 0;
      });
    }
    count += in->data()[i] == 'x';
  }
  EXPECT_EQ(count, kBlocks * kBlock);
}

}  // namespace

}  // namespace vortex::pulled_rug_test

// Bare system calls on stream memory under the engine userfaultfd: the kernel's own faults are
// served. Calls that signals interrupt are in file_stream_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_source.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/thread/this_thread.h"

namespace vortex::test::system_calls_test { namespace {

// A buffered write touches up to 2 MiB before it copies them: windows hold 3 MiB.
constexpr std::size_t kBlock = std::size_t{256} << 10;
constexpr std::size_t kComeback = 11;
constexpr std::size_t kBytes = 40 * kBlock + 123;

// What the request that was prepared last comes to.
int outcome_of(io_uring& ring) {
  EXPECT_EQ(io_uring_submit(&ring), 1);
  io_uring_cqe* done = nullptr;
  EXPECT_EQ(io_uring_wait_cqe(&ring, &done), 0);
  const int result = done->res;
  io_uring_cqe_seen(&ring, done);
  return result;
}

class SystemCalls : public EngineTest<UserfaultfdEngine> {
 protected:
  void SetUp() override {
    EngineTest<UserfaultfdEngine>::SetUp();
    if (IsSkipped()) return;
    text_.resize(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) text_[i] = static_cast<char>(i * 2654435761U >> 13);
    file_ = open(folder_.file("file").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(file_, 0);
    source_path_ = folder_.file("source");
    std::FILE* const source = std::fopen(source_path_.c_str(), "w");
    ASSERT_EQ(std::fwrite(text_.data(), 1, kBytes, source), kBytes);
    std::fclose(source);
  }
  void TearDown() override {
    if (file_ >= 0) close(file_);
    EngineTest<UserfaultfdEngine>::TearDown();
  }

  FileReader<char> reader() const {
    return FileReader<char>(
        source_path_,
        {.block_bytes = kBlock, .comeback_blocks = kComeback, .order = ReadOrder::kForward});
  }
  std::string written() const {
    std::string bytes(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
  }

  // The file is the first `bytes` of the text.
  void expect_text(const std::string& path, std::size_t bytes = kBytes) const {
    const FileReader<char> back(path, {.block_bytes = kBlock});
    ASSERT_EQ(back.size(), bytes);
    EXPECT_EQ(std::memcmp(back.data(), text_.data(), bytes), 0);
  }

  const TemporaryFolder folder_;
  std::string source_path_;
  std::string text_;
  int file_ = -1;
};

TEST_F(SystemCalls, Write) {
  const FileReader<char> in = reader();
  ASSERT_EQ(write(file_, in.data(), kBytes), static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(written() == text_);
}

TEST_F(SystemCalls, WriteOfWhatACallbackMakes) {
  BlockPool pool({.pool_bytes = (kComeback + 1) * kBlock, .block_bytes = kBlock});
  const auto in = input_from_callback<char>(
      pool,
      [this](std::span<std::byte> block, std::uint64_t offset) {
        std::memcpy(block.data(), text_.data() + offset, block.size());
        return block.size();
      },
      {.name = "made", .comeback_blocks = kComeback}, kBytes);
  ASSERT_EQ(write(file_, in.data(), kBytes), static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(written() == text_);
}

// Pages that the device still reads cannot be moved: they stay with the transfer, which is longer
// than the window.
TEST_F(SystemCalls, DirectWrite) {
  const std::string path = folder_.file("direct");
  const int direct = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (direct < 0) END_TEST_WITHOUT(Environment::kDirectIo, "no direct I/O in " << folder_.path());
  const FileReader<char> in = reader();
  const std::size_t whole = kBytes / 4096 * 4096;
  ASSERT_EQ(write(direct, in.data(), whole), static_cast<ssize_t>(whole)) << std::strerror(errno);
  close(direct);
  expect_text(path, whole);
}

TEST_F(SystemCalls, ReadAndPreadIntoAWriter) {
  const std::string copy = folder_.file("copy");
  FileWriter<char> out(copy, {.block_bytes = kBlock, .comeback_blocks = 1});
  const int source = open(source_path_.c_str(), O_RDONLY);
  constexpr std::size_t kHalf = 20 * kBlock + 7;
  ASSERT_EQ(read(source, out.data(), kHalf), static_cast<ssize_t>(kHalf));
  ASSERT_EQ(pread(source, out.data() + kHalf, kBytes - kHalf, kHalf),
            static_cast<ssize_t>(kBytes - kHalf));
  close(source);
  out.finish(kBytes);
  expect_text(copy);
}

TEST_F(SystemCalls, Getrandom) {
  const std::string path = folder_.file("random");
  FileWriter<unsigned char> out(path, {.block_bytes = kBlock});
  for (std::size_t at = 0; at < kBytes;) {
    const ssize_t got = getrandom(out.data() + at, kBytes - at, 0);
    ASSERT_GT(got, 0) << std::strerror(errno);
    at += static_cast<std::size_t>(got);
  }
  out.finish(kBytes);
  const FileReader<unsigned char> back(path);
  std::array<std::size_t, 256> counts{};
  for (std::size_t i = 0; i < kBytes; ++i) ++counts[back.data()[i]];
  for (const std::size_t count : counts)
    EXPECT_NEAR(static_cast<double>(count), kBytes / 256.0, 3000);
}

TEST_F(SystemCalls, SendAndReceive) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::string got;
  std::thread receiver([&] {
    std::array<char, 8192> piece;
    for (ssize_t n; (n = recv(ends[1], piece.data(), piece.size(), 0)) > 0;) {
      got.append(piece.data(), static_cast<std::size_t>(n));
    }
  });
  const FileReader<char> in = reader();
  for (std::size_t at = 0; at < kBytes;) {
    const ssize_t sent = send(ends[0], in.data() + at, kBytes - at, 0);
    ASSERT_GT(sent, 0) << std::strerror(errno);
    at += static_cast<std::size_t>(sent);
  }
  close(ends[0]);
  receiver.join();
  close(ends[1]);
  EXPECT_TRUE(got == text_);
}

TEST_F(SystemCalls, ProcessVmReadv) {
  const FileReader<char> in = reader();
  std::string got(kBytes, '\0');
  const iovec local{got.data(), kBytes};
  const iovec remote{const_cast<char*>(in.data()), kBytes};
  ASSERT_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(got == text_);
}

// stdio hands large pieces straight to write().
TEST_F(SystemCalls, Stdio) {
  const std::string path = folder_.file("stdio");
  const FileReader<char> in = reader();
  std::FILE* const out = std::fopen(path.c_str(), "w");
  EXPECT_EQ(std::fwrite(in.data(), 1, kBytes, out), kBytes);
  std::fclose(out);
  expect_text(path);
}

// A pipe takes the pages' bytes; sendfile() moves them on.
TEST_F(SystemCalls, Sendfile) {
  const FileReader<char> in = reader();
  const int memory = memfd_create("middle", MFD_CLOEXEC);
  ASSERT_EQ(write(memory, in.data(), kBytes), static_cast<ssize_t>(kBytes));
  off_t offset = 0;
  while (offset < static_cast<off_t>(kBytes)) {
    ASSERT_GT(sendfile(file_, memory, &offset, kBytes), 0);
  }
  close(memory);
  EXPECT_TRUE(written() == text_);
}

TEST_F(SystemCalls, IoUringOfTheProgram) {
  io_uring ring{};
  if (io_uring_queue_init(4, &ring, 0) != 0) END_TEST_WITHOUT(Environment::kUring, "no io_uring");
  const FileReader<char> in = reader();
  for (std::size_t at = 0; at < kBytes;) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring);
    io_uring_prep_write(entry, file_, in.data() + at, static_cast<unsigned>(kBytes - at), at);
    const int result = outcome_of(ring);
    ASSERT_GT(result, 0) << std::strerror(-result);
    at += static_cast<std::size_t>(result);
  }
  io_uring_queue_exit(&ring);
  EXPECT_TRUE(written() == text_);
}

// ---- Memory that may be changed.

// Writes of the kernel are changes, and only they.
TEST_F(SystemCalls, ReadIntoAnArrayAndWriteOutOfIt) {
  const std::string path = folder_.file("array");
  const int source = open(source_path_.c_str(), O_RDONLY);
  {
    FileArray<char> array(path,
                          {.block_bytes = kBlock, .comeback_blocks = kComeback, .make = true});
    array.resize(2 * kBytes);
    ASSERT_EQ(pread(source, array.data() + 17, kBytes, 0), static_cast<ssize_t>(kBytes));
    array.flush(Flush::kWritten);
    const std::uint64_t written_bytes = array.statistics().sink.bytes;
    ASSERT_EQ(write(file_, array.data() + 17, kBytes), static_cast<ssize_t>(kBytes));
    array.flush(Flush::kWritten);
    EXPECT_EQ(array.statistics().sink.bytes, written_bytes);
  }
  close(source);
  EXPECT_TRUE(written() == text_);
  const FileReader<char> back(path, {.block_bytes = kBlock});
  EXPECT_EQ(std::memcmp(back.data() + 17, text_.data(), kBytes), 0);
  EXPECT_EQ(back.data()[16], '\0');
}

// The failure of a window that cannot go on, since its pages are pinned.
void expect_way_out(const Failure& failure) {
  EXPECT_EQ(failure.error, EBUSY) << failure.message();
  for (const char* const part : {"pinned", "fit in the window", "comeback_blocks"}) {
    EXPECT_TRUE(contains(failure.message(), part));
  }
}

// ---- Direct transfers into memory that may be changed.

// The kernel pins pages of a transfer before their bytes have come, and a window that goes on
// cannot take them along: what one transfer writes to must fit in it.
class DirectReads : public SystemCalls {
 protected:
  static constexpr std::size_t kWhole = kBytes / 4096 * 4096;

  void SetUp() override {
    SystemCalls::SetUp();
    if (IsSkipped()) return;
    direct_ = open(source_path_.c_str(), O_RDONLY | O_DIRECT);
    if (direct_ < 0)
      END_TEST_WITHOUT(Environment::kDirectIo, "no direct I/O in " << folder_.path());
  }
  void TearDown() override {
    if (direct_ >= 0) close(direct_);
    SystemCalls::TearDown();
  }
  ssize_t transfer(char* to, std::size_t bytes, std::size_t at) const {
    return pread(direct_, to, bytes, static_cast<off_t>(at));
  }
  // Likewise, by a ring of the program's.
  ssize_t transfer(io_uring& ring, char* to, std::size_t bytes, std::size_t at) const {
    io_uring_prep_read(io_uring_get_sqe(&ring), direct_, to, static_cast<unsigned>(bytes), at);
    return outcome_of(ring);
  }

  int direct_ = -1;
};

TEST_F(DirectReads, ThatFitInTheWindow) {
  io_uring ring{};
  if (io_uring_queue_init(4, &ring, 0) != 0) END_TEST_WITHOUT(Environment::kUring, "no io_uring");
  const std::string path = folder_.file("copy");
  FileWriter<char> out(path, {.block_bytes = kBlock, .comeback_blocks = 2});
  // Three blocks are in the window, and so much never touches a fourth.
  constexpr std::size_t kMax = 2 * kBlock + 4096;
  std::mt19937_64 random = test_random();
  for (std::size_t at = 0; at < kWhole;) {
    const std::size_t bytes = std::min(kWhole - at, (1 + random() % (kMax / 4096)) * 4096);
    char* const to = out.data() + at;
    ASSERT_EQ(random() % 2 == 0 ? transfer(to, bytes, at) : transfer(ring, to, bytes, at),
              static_cast<ssize_t>(bytes))
        << at;
    at += bytes;
  }
  io_uring_queue_exit(&ring);
  out.finish(kWhole);
  expect_text(path, kWhole);
}

TEST_F(DirectReads, LongerThanTheWindowAreAnErrorThatNamesTheWayOut) {
  FileWriter<char> out(folder_.file("copy"), {.block_bytes = kBlock, .comeback_blocks = 0});
  ssize_t result = 0;
  const Failure failure = guarded([&] { result = transfer(out.data(), 4 * kBlock, 0); });
  if (!failure && result == static_cast<ssize_t>(4 * kBlock)) {
    GTEST_SKIP() << "this file system has the pages brought before it pins some of them";
  }
  EXPECT_LT(result, static_cast<ssize_t>(4 * kBlock));
  expect_way_out(failure);
}

TEST_F(DirectReads, OfTheWholeFileIntoAWindowAsLong) {
  const std::string path = folder_.file("copy");
  FileWriter<char> out(path, {.block_bytes = kBlock, .comeback_blocks = kWhole / kBlock});
  ASSERT_EQ(transfer(out.data(), kWhole, 0), static_cast<ssize_t>(kWhole));
  out.finish(kWhole);
  expect_text(path, kWhole);
}

// ---- Pages that somebody has pinned for longer.

class PinnedPages : public SystemCalls {
 protected:
  void SetUp() override {
    SystemCalls::SetUp();
    if (IsSkipped()) return;
    if (io_uring_queue_init(4, &ring_, 0) != 0) {
      END_TEST_WITHOUT(Environment::kUring, "no io_uring");
    }
    has_ring_ = true;
  }
  void TearDown() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
    SystemCalls::TearDown();
  }
  void pin(const void* at, std::size_t bytes) {
    const iovec range{const_cast<void*>(at), bytes};
    ASSERT_EQ(io_uring_register_buffers(&ring_, &range, 1), 0);
  }

  io_uring ring_{};

 private:
  bool has_ring_ = false;
};

// The window of a reader goes on, and whoever has pinned its pages keeps them.
TEST_F(PinnedPages, StayWithThePinnerWhereTheyAreOnlyRead) {
  const FileReader<char> in = reader();
  (void)*static_cast<const volatile char*>(in.data());
  pin(in.data(), kBlock);
  EXPECT_EQ(std::memcmp(in.data(), text_.data(), kBytes), 0);
  io_uring_prep_write_fixed(io_uring_get_sqe(&ring_), file_, in.data(), kBlock, 0, 0);
  ASSERT_EQ(outcome_of(ring_), static_cast<int>(kBlock));
  EXPECT_TRUE(written() == text_.substr(0, kBlock));
}

// What a transfer may still write to is waited for.
TEST_F(PinnedPages, AreWaitedForWhereTheyAreWritten) {
  const std::string path = folder_.file("pinned");
  FileWriter<char> out(path, {.block_bytes = kBlock, .comeback_blocks = 0});
  out.data()[0] = text_[0];
  pin(out.data(), kBlock);
  const std::int32_t writer = current_thread_id();
  std::thread releaser([&] {
    while (!being_served(writer)) std::this_thread::yield();
    EXPECT_EQ(io_uring_unregister_buffers(&ring_), 0);
  });
  for (std::size_t at = 0; at < kBytes; ++at) out.data()[at] = text_[at];
  releaser.join();
  out.finish(kBytes);
  expect_text(path);
}

// And not for ever.
TEST_F(PinnedPages, AreAnErrorWhenTheyAreNotLetGo) {
  FileWriter<char> out(folder_.file("pinned"), {.block_bytes = kBlock, .comeback_blocks = 0});
  out.data()[0] = text_[0];
  pin(out.data(), kBlock);
  const Failure failure = guarded([&] { *static_cast<volatile char*>(out.data() + kBlock) = 'x'; });
  expect_way_out(failure);
  EXPECT_EQ(io_uring_unregister_buffers(&ring_), 0);
}

// ---- Failures.

// The call fails, the body goes on, and guarded() says why.
TEST_F(SystemCalls, AFailureEndsTheCall) {
  const FileReader<char> in = reader();
  ssize_t result = 0;
  int error = 0;
  bool went_on = false;
  const Failure failure = guarded([&] {
    result = write(file_, in.data() + kBytes + 2 * kBlock, 100);
    error = errno;
    went_on = true;
  });
  EXPECT_EQ(result, -1);
  EXPECT_EQ(error, EFAULT);
  EXPECT_TRUE(went_on);
  EXPECT_TRUE(fails(failure, ERANGE, "past the end"));
  // It is told once.
  EXPECT_FALSE(guarded([] {}));
}

TEST_F(SystemCalls, OutsideOfAGuardedScopeALineTellsOfTheFailure) {
  const test::FoldersWithin within(folder_);
  EXPECT_EXIT(
      {
        const FileReader<char> in = reader();
        _exit(write(file_, in.data() + kBytes + 2 * kBlock, 100) == -1 && errno == EFAULT ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "^vortex: stream .*past the end.*the system call that needed it fails with EFAULT\n$");
}

// In the guard behind a reservation nothing is ever placed.
TEST_F(SystemCalls, TheGuardBehindTheReservation) {
  for (const bool by_call : {true, false}) {
    FileReader<char> in = reader();
    const char* const behind = in.data() + in.stream().reserved_bytes() + 100;
    const Failure failure = guarded([&] {
      if (by_call) {
        EXPECT_EQ(write(file_, behind, 10), -1);
        EXPECT_EQ(errno, EFAULT);
      } else {
        (void)*static_cast<const volatile char*>(behind);
        ADD_FAILURE() << "the guard could be read";
      }
    });
    EXPECT_NE(failure.error, 0);
    EXPECT_EQ(failure.offset, in.stream().reserved_bytes() + 100);
  }
}

TEST_F(SystemCalls, WhatCannotWorkIsRefused) {
  std::string message;
  EXPECT_EQ(
      error_of(
          [] {
            BlockPool({.pool_bytes = kBlock, .block_bytes = kBlock, .kind = PoolKind::kAliases});
          },
          &message),
      ENOTSUP);
  EXPECT_TRUE(contains(message, "VORTEX_ENGINE=signal"));
}

// A stream that goes ends the calls that wait for its data.
TEST_F(SystemCalls, AStreamIsDestroyedUnderCalls) {
  constexpr std::size_t kThreads = 3;
  BlockPool pool({.pool_bytes = 2 * kBlock, .block_bytes = kBlock});
  for (int round = 0; round < 20; ++round) {
    auto script = std::make_shared<SourceScript>();
    script->wait_at = 0;
    auto stream = std::make_unique<InputStream<char>>(
        std::make_unique<MemorySource>(pool, 2, std::vector<std::byte>(2 * kBlock), script),
        InputStreamOptions{.comeback_blocks = 0});
    const char* const data = stream->data();
    std::array<std::atomic<std::int32_t>, kThreads> ids{};
    std::vector<std::thread> callers;
    for (std::size_t i = 0; i < kThreads; ++i) {
      callers.emplace_back([&, i] {
        // A file of its own: one lets a single writer in.
        const int file = memfd_create("file", MFD_CLOEXEC);
        EXPECT_EQ(guarded([&] {
                    ids[i] = current_thread_id();
                    EXPECT_EQ(write(file, data + i, 100), -1);
                    EXPECT_EQ(errno, EFAULT);
                  }).error,
                  ECANCELED);
        close(file);
      });
    }
    for (const std::atomic<std::int32_t>& id : ids) {
      while (id == 0 || !being_served(id)) std::this_thread::yield();
    }
    stream.reset();
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
  }
}

// ---- Several threads, and the rest of the process.

// All meet the same blocks for the first time, half of them inside calls.
TEST_F(SystemCalls, ThreadsThatTouchTheSameBlocks) {
  constexpr std::size_t kThreads = 6;
  const FileReader<char> in(source_path_, {.block_bytes = kBlock, .read_ahead = 1});
  SpinBarrier barrier(kThreads);
  std::atomic<std::size_t> wrong{0};
  run_together(kThreads, [&](std::size_t thread) {
    std::vector<char> copy(kBlock);
    for (std::size_t at = 0; at + kBlock <= kBytes; at += kBlock) {
      barrier.arrive_and_wait();
      if (thread % 2 == 0) {
        const off_t to = static_cast<off_t>(thread * kBlock);
        wrong += pwrite(file_, in.data() + at, kBlock, to) != static_cast<ssize_t>(kBlock);
        wrong += pread(file_, copy.data(), kBlock, to) != static_cast<ssize_t>(kBlock);
      } else {
        std::memcpy(copy.data(), in.data() + at, kBlock);
      }
      wrong += std::memcmp(copy.data(), text_.data() + at, kBlock) != 0;
    }
  });
  EXPECT_EQ(wrong, 0u);
}

// Children appear at any moment of a fault, and go or make streams of their own.
TEST_F(SystemCalls, ForksAmongFaults) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "the sanitizer's child of a process with threads may not start any";
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const FileReader<char> in = reader();
        wrong += std::memcmp(in.data(), text_.data(), kBytes) != 0;
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    expect_in_child([&] {
      // The heap of a sanitizer may have been locked by another thread when the child was made.
      if (round % 4 != 0 || kAddressSanitizer) return 0;
      const FileReader<char> own = reader();
      return own.data()[kBytes - 1] == text_[kBytes - 1] ? 0 : 1;
    });
  }
  stop = true;
  for (std::thread& reading : readers) reading.join();
  EXPECT_EQ(wrong, 0u);
}

std::atomic<const void*> bus_error_at{nullptr};
sigjmp_buf bus_error_left;

// Bus errors of other code reach the handler from before.
TEST_F(SystemCalls, BusErrorsOfOthersAreForwarded) {
  start_behind(action_of([](int, siginfo_t* info, void*) {
    bus_error_at = info->si_addr;
    siglongjmp(bus_error_left, 1);
  }));
  const FileReader<char> in = reader();
  EXPECT_EQ(in.data()[5], text_[5]);
  ASSERT_EQ(ftruncate(file_, 8192), 0);
  auto* const mapped =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(ftruncate(file_, 4096), 0);
  if (sigsetjmp(bus_error_left, 1) == 0) *static_cast<volatile char*>(mapped + 5000) = 1;
  EXPECT_EQ(bus_error_at, mapped + 5000);
  munmap(mapped, 8192);
  EXPECT_EQ(std::memcmp(in.data(), text_.data(), kBytes), 0);
}

std::atomic<int> handler_calls{0};

// Processes that handle SIGSEGV themselves do not notice us.
TEST_F(SystemCalls, TheProgramsSegvHandlerIsNotCalled) {
  struct sigaction before {};
  const struct sigaction mine = action_of([](int) { _exit(1 + ++handler_calls); });
  sigaction(SIGSEGV, &mine, &before);
  {
    const FileReader<char> in = reader();
    EXPECT_EQ(std::memcmp(in.data(), text_.data(), kBytes), 0);
    EXPECT_EQ(current_action().sa_handler, mine.sa_handler);
  }
  sigaction(SIGSEGV, &before, nullptr);
  EXPECT_EQ(handler_calls, 0);
}

// A child has no streams of its parent's, and can have its own.
TEST_F(SystemCalls, AForkedChildMakesItsOwn) {
  const FileReader<char> in = reader();
  EXPECT_EQ(in.data()[0], text_[0]);
  expect_in_child([&] {
    const FileReader<char> own = reader();
    return std::memcmp(own.data(), text_.data(), kBytes) == 0 ? 0 : 1;
  });
  EXPECT_EQ(std::memcmp(in.data(), text_.data(), kBlock), 0);
}

}  // namespace

}  // namespace vortex::test::system_calls_test

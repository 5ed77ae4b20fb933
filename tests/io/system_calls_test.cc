// Bare system calls on stream memory under the engine userfaultfd: the kernel's own faults are
// served. What they do under signals is in file_stream_test.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/vortex/engine_suite.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/guarded.h"
#include "vortex/input_stream.h"

namespace vortex::test {
namespace {

// A buffered write touches up to 2 MiB before it copies them: windows hold 3 MiB.
constexpr std::size_t kBlock = std::size_t{256} << 10;
constexpr std::size_t kComeback = 11;
constexpr std::size_t kBytes = 40 * kBlock + 123;

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

// Pages that the device still reads cannot be moved: a window that goes on waits for it. A transfer
// must fit in the window, for the kernel pins all of it before it starts.
TEST_F(SystemCalls, DirectWrite) {
  const std::string path = folder_.file("direct");
  const int direct = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (direct < 0) END_TEST_WITHOUT(Environment::kDirectIo, "no direct I/O in " << folder_.path());
  const FileReader<char> in = reader();
  const std::size_t whole = kBytes / 4096 * 4096;
  constexpr std::size_t kPiece = 2 * kBlock;
  for (std::size_t at = 0; at < whole; at += kPiece) {
    const std::size_t piece = std::min(kPiece, whole - at);
    ASSERT_EQ(write(direct, in.data() + at, piece), static_cast<ssize_t>(piece));
  }
  close(direct);
  const FileReader<char> back(path, {.block_bytes = kBlock});
  EXPECT_EQ(std::memcmp(back.data(), text_.data(), whole), 0);
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
  const FileReader<char> back(copy);
  EXPECT_EQ(std::memcmp(back.data(), text_.data(), kBytes), 0);
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
    EXPECT_NEAR(static_cast<double>(count), kBytes / 256, 3000);
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
  // It pins what it reads, as a direct transfer does.
  constexpr std::size_t kPiece = 2 * kBlock;
  for (std::size_t at = 0; at < kBytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, kBytes - at);
    const iovec local{got.data() + at, piece};
    const iovec remote{const_cast<char*>(in.data()) + at, piece};
    ASSERT_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), static_cast<ssize_t>(piece));
  }
  EXPECT_TRUE(got == text_);
}

// stdio hands large pieces straight to write().
TEST_F(SystemCalls, Stdio) {
  const std::string path = folder_.file("stdio");
  const FileReader<char> in = reader();
  std::FILE* const out = std::fopen(path.c_str(), "w");
  EXPECT_EQ(std::fwrite(in.data(), 1, kBytes, out), kBytes);
  std::fclose(out);
  const FileReader<char> back(path);
  EXPECT_EQ(std::memcmp(back.data(), text_.data(), kBytes), 0);
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
    ASSERT_EQ(io_uring_submit(&ring), 1);
    io_uring_cqe* done = nullptr;
    ASSERT_EQ(io_uring_wait_cqe(&ring, &done), 0);
    const int result = done->res;
    io_uring_cqe_seen(&ring, done);
    ASSERT_GT(result, 0) << std::strerror(-result);
    at += static_cast<std::size_t>(result);
  }
  io_uring_queue_exit(&ring);
  EXPECT_TRUE(written() == text_);
}

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
  EXPECT_EQ(failure.error, ERANGE) << failure.message();
  EXPECT_NE(failure.message().find("past the end"), std::string::npos) << failure.message();
  // It is told once.
  EXPECT_FALSE(guarded([] {}));
}

TEST_F(SystemCalls, OutsideOfAGuardedScopeALineTellsOfTheFailure) {
  EXPECT_EXIT(
      {
        const FileReader<char> in = reader();
        _exit(write(file_, in.data() + kBytes + 2 * kBlock, 100) == -1 && errno == EFAULT ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "^vortex: stream .*past the end.*the system call that needed it fails with EFAULT\n$");
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
  const pid_t child = fork();
  if (child == 0) {
    const FileReader<char> own = reader();
    _exit(std::memcmp(own.data(), text_.data(), kBytes) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(std::memcmp(in.data(), text_.data(), kBlock), 0);
}

}  // namespace
}  // namespace vortex::test

// Streams from and to descriptors that cannot seek.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "io/file/block_file.h"
#include "io/sequence/single_file.h"
#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/loop_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/random_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/os/descriptor.h"
#include "vortex/output_stream.h"

namespace vortex::descriptor_stream_test { namespace {

using test::random_text;

constexpr std::size_t kBlock = std::size_t{16} << 10;

// Both ends of a pipe or of a pair of sockets.
struct Ends {
  explicit Ends(bool socket) {
    std::array<int, 2> both{};
    const int error = socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, both.data()) : pipe(both.data());
    EXPECT_EQ(error, 0);
    // Little enough that a request does not fit, whatever the system's settings are.
    const int room = 32 << 10;
    if (socket) {
      EXPECT_EQ(setsockopt(both[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    }
    in = both[0];
    out = both[1];
  }
  ~Ends() {
    if (in >= 0) close(in);
    close_out();
  }
  void close_out() {
    if (out >= 0) close(out);
    out = -1;
  }
  int in = -1;
  int out = -1;
};

void write_all(int descriptor, const std::string& text, std::mt19937_64& random) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, random() % 20'000 + 1);
    const ssize_t written = write(descriptor, text.data() + at, size);
    ASSERT_GT(written, 0);
    at += static_cast<std::size_t>(written);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 5000> part;
  for (ssize_t got; (got = read(descriptor, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

class Descriptors : public testing::TestWithParam<bool> {
 protected:
  Ends ends{GetParam()};
  std::mt19937_64 random = test::test_random();
};

TEST_P(Descriptors, AreReadToTheirEnd) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1,
                                 4 * kBlock, 90 * kBlock + 4321}) {
    SCOPED_TRACE(size);
    Ends pair(GetParam());
    const std::string text = random_text(random, size);
    std::thread producer([&] {
      auto chunks = test::test_random(1);
      write_all(pair.out, text, chunks);
      pair.close_out();
    });
    FileReader<char> in(pair.in, {.block_bytes = kBlock, .request_bytes = 4 * kBlock});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) wrong += in.data()[i] != text[i];
    // A terminator where the text ends, as in any string.
    EXPECT_EQ(in.data()[size], '\0');
    producer.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(in.length_bytes(), size);
    EXPECT_EQ(in.size(), size);
  }
}

TEST_P(Descriptors, AReaderMayJump) {
  const std::string text = random_text(random, 200 * kBlock);
  std::thread producer([&] {
    auto chunks = test::test_random(1);
    write_all(ends.out, text, chunks);
    ends.close_out();
  });
  const FileReader<char> in(ends.in, {.block_bytes = kBlock, .request_bytes = kBlock});
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < text.size(); at += random() % (30 * kBlock) + 1) {
    wrong += in.data()[at] != text[at];
  }
  EXPECT_EQ(in.data()[text.size() - 1], text.back());
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

// The block that tells where the data end is not the one that the reader looks at.
TEST_P(Descriptors, AJumpBehindTheEndDoesNotMoveIt) {
  auto random = test::test_random();
  for (const std::size_t size : {kBlock + kBlock / 2, kBlock / 2, 3 * kBlock - 1, 2 * kBlock}) {
    const std::string text = random_text(random, size);
    Ends ends(GetParam());
    std::thread feeder([&] {
      write_all(ends.out, text, random);
      ends.close_out();
    });
    FileReader<char> in(ends.in, {.block_bytes = kBlock, .request_bytes = kBlock});
    EXPECT_THROW((void)in.size(), Error) << "nobody knows yet";
    char first = 0;
    ASSERT_FALSE(guarded([&] { first = in.data()[0]; }));
    EXPECT_EQ(first, text[0]);
    const std::size_t behind = (size + kBlock - 1) / kBlock * kBlock;
    (void)guarded([&] { (void)*static_cast<const volatile char*>(in.data() + behind); });
    feeder.join();
    EXPECT_EQ(in.length_bytes(), size);
    EXPECT_EQ(in.size(), size);
  }
}

// The zeros behind the data are no data.
TEST_P(Descriptors, CallsTakeNothingFromBehindTheEnd) {
  Ends ends(GetParam());
  const std::string text(100, 'x');
  ASSERT_EQ(write(ends.out, text.data(), text.size()), 100);
  ends.close_out();
  FileReader<char> in(ends.in, {.block_bytes = kBlock});
  Ends copy(false);
  EXPECT_EQ(test::error_of([&] { write_from_stream(copy.out, in, 0, 4096); }), ERANGE);
  write_from_stream(copy.out, in, 0, in.size());
  copy.close_out();
  EXPECT_EQ(read_all(copy.in), text);
}

TEST_P(Descriptors, AreWritten) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock, 90 * kBlock + 4321}) {
    SCOPED_TRACE(size);
    Ends pair(GetParam());
    const std::string text = random_text(random, size);
    std::string got;
    std::thread consumer([&] { got = read_all(pair.in); });
    {
      // There is nothing to sync, which is no error.
      FileWriter<char> out(pair.out, {.block_bytes = kBlock, .sync = true});
      for (std::size_t i = 0; i < size; ++i) out.data()[i] = text[i];
      out.finish(size);
    }
    pair.close_out();
    consumer.join();
    EXPECT_TRUE(got == text);
  }
}

TEST_P(Descriptors, AWaitForTheOtherSideCanBeCancelled) {
  FileReader<char> in(ends.in, {.block_bytes = kBlock});
  // The reader may or may not have begun to wait: both must end.
  std::thread canceller([&] { in.stream().cancel(EINTR, "enough"); });
  const Failure failure = guarded([&] { (void)*const_cast<const volatile char*>(in.data()); });
  canceller.join();
  EXPECT_EQ(failure.error, EINTR) << failure.message();
}

TEST_P(Descriptors, AReaderThatNobodyFeedsCanBeDestroyed) {
  const std::string text(kBlock, 'x');
  ASSERT_EQ(write(ends.out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  const FileReader<char> in(ends.in, {.block_bytes = kBlock, .request_bytes = kBlock});
  EXPECT_EQ(in.data()[0], 'x');  // and what comes behind is read ahead
}

// More than a pipe or a socket holds, and nobody reads.
TEST_P(Descriptors, AWriterThatNobodyReadsCanBeDestroyed) {
  FileWriter<char> out(ends.out, {.block_bytes = kBlock, .request_bytes = 32 * kBlock});
  for (std::size_t i = 0; i < 34 * kBlock; ++i) out.data()[i] = 'x';
}

TEST_P(Descriptors, AWaitForAReaderCanBeCancelled) {
  FileWriter<char> out(ends.out,
                       {.block_bytes = kBlock, .write_behind = 1, .request_bytes = 32 * kBlock});
  // The writer may or may not have begun to wait: both must end.
  std::thread canceller([&] { out.stream().cancel(EINTR, "enough"); });
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < 200 * kBlock; ++i) const_cast<volatile char*>(out.data())[i] = 'x';
  });
  canceller.join();
  EXPECT_EQ(failure.error, EINTR) << failure.message();
}

TEST_P(Descriptors, AWriterMayNotJump) {
  FileWriter<char> out(ends.out, {.block_bytes = kBlock, .request_bytes = kBlock});
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < 30; i += 10)
      const_cast<volatile char*>(out.data())[i * kBlock] = 'x';
  });
  EXPECT_EQ(failure.error, ESPIPE) << failure.message();
}

template <typename Stream>
int error_of_opening(int descriptor) {
  return test::error_of([=] { Stream(descriptor, {.block_bytes = kBlock}); });
}

// Whoever writes block by block, and waits for an answer each time, gets it.
TEST(Descriptor, IsReadNoFartherThanItIsTouchedWithoutThreads) {
  constexpr std::size_t kBytes = std::size_t{16} << 10;
  int data[2];
  int answers[2];
  ASSERT_EQ(pipe(data), 0);
  ASSERT_EQ(pipe(answers), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(data[1]);
    alarm(30);  // or it would wait for ever for the block behind
    if (!test::refuse_call(SYS_clone3, EAGAIN)) _exit(77);
    FileReader<char> reader(data[0],
                            {.block_bytes = kBytes, .read_ahead = 4, .request_bytes = kBytes});
    if (reader.statistics().disks.front().backend != "threads") _exit(2);
    for (std::size_t i = 0; i < 8; ++i) {
      const char found = reader.data()[i * kBytes];
      if (found != static_cast<char>('a' + i) || write(answers[1], &found, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(answers[1]);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string block(kBytes, static_cast<char>('a' + i));
    ASSERT_EQ(write(data[1], block.data(), kBytes), static_cast<ssize_t>(kBytes));
    char answer = 0;
    if (read(answers[0], &answer, 1) != 1) break;
    EXPECT_EQ(answer, block.front());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  for (const int end : {data[0], data[1], answers[0]}) close(end);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no filter of calls here";
  EXPECT_EQ(status, 0);
}

// So that the two ends do not wait for each other all the time. A larger one stays as it is.
TEST(Descriptor, OfASmallPipeMakesItLarger) {
  for (const bool writing : {false, true}) {
    Ends small(false);
    Ends large(false);
    ASSERT_EQ(fcntl(small.in, F_SETPIPE_SZ, 4096), 4096);
    ASSERT_EQ(fcntl(large.in, F_SETPIPE_SZ, 512 << 10), 512 << 10);
    for (const Ends* const pipe : {&small, &large}) {
      if (writing) {
        const FileWriter<char> writer(pipe->out, {.block_bytes = kBlock});
      } else {
        const FileReader<char> reader(pipe->in, {.block_bytes = kBlock});
      }
    }
    EXPECT_EQ(fcntl(small.in, F_GETPIPE_SZ), 256 << 10);
    EXPECT_EQ(fcntl(large.in, F_GETPIPE_SZ), 512 << 10);
  }
}

// At once: nothing would ever come out of the wrong end of a pipe.
TEST(Descriptor, OfTheWrongDirectionIsRefused) {
  const Ends pair(false);
  EXPECT_EQ(error_of_opening<FileReader<char>>(pair.out), EBADF);
  EXPECT_EQ(error_of_opening<FileWriter<char>>(pair.in), EBADF);
  EXPECT_EQ(error_of_opening<FileReader<char>>(1'000'000), EBADF);
}

TEST(Files, AnErrorIsNoEnd) {
  const std::string path = "/proc/self/mem";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no " << path;
  const FileReader<char> in(path, {.block_bytes = kBlock});
  // Nothing is at address 0.
  const Failure failure = guarded([&] { (void)*const_cast<const volatile char*>(in.data()); });
  EXPECT_EQ(failure.error, EIO) << failure.message();
  EXPECT_FALSE(in.length_bytes().has_value());
}

TEST_P(Descriptors, AnEndThatIsGoneIsAnError) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before {};
  sigaction(SIGPIPE, &ignore, &before);
  FileWriter<char> out(ends.out, {.block_bytes = kBlock});
  close(ends.in);
  ends.in = -1;
  out.data()[0] = 'x';
  EXPECT_EQ(test::error_of([&] { out.finish(1); }), EPIPE);
  sigaction(SIGPIPE, &before, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Descriptors, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "Sockets" : "Pipes");
});

// From where it stands to its end, and there it stands afterwards: files and devices alike.
void expect_read_from(int file, std::size_t at, const std::string& text) {
  SCOPED_TRACE(at);
  ASSERT_EQ(lseek(file, static_cast<off_t>(at), SEEK_SET), static_cast<off_t>(at));
  const std::string expected = text.substr(std::min(at, text.size()));
  {
    const FileReader<char> in(file, {.block_bytes = kBlock, .request_bytes = 2 * kBlock});
    ASSERT_EQ(in.size(), expected.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) wrong += in.data()[i] != expected[i];
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(in.data()[expected.size()], '\0');
  }
  EXPECT_EQ(lseek(file, 0, SEEK_CUR), static_cast<off_t>(at));
}

TEST(Descriptor, OfAFileIsReadFromWhereItStands) {
  auto random = test::test_random();
  const test::TemporaryFolder folder;
  const std::string text = random_text(random, 40 * kBlock + 77);
  std::ofstream(folder.file("file"), std::ios::binary) << text;
  for (const int flags : {O_RDONLY, O_RDWR}) {
    const int file = open(folder.file("file").c_str(), flags);
    ASSERT_GE(file, 0);
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, 5 * kBlock + 333, text.size() - 1,
          text.size(), text.size() + 100}) {
      expect_read_from(file, at, text);
    }
    close(file);
  }
}

TEST(Descriptor, OfABlockDeviceIsReadFromWhereItStands) {
  auto random = test::test_random();
  const test::TemporaryFolder folder;
  const std::string text = random_text(random, 20 * kBlock);
  std::ofstream(folder.file("image"), std::ios::binary) << text;
  const test::LoopDevice device(folder.file("image"));
  if (device.path().empty()) {
    END_TEST_WITHOUT(test::Environment::kLoopDevices, test::LoopDevice::kRefusal);
  }
  const int file = open(device.path().c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  for (const std::size_t at : {std::size_t{0}, std::size_t{512}, 3 * kBlock + 5, text.size()}) {
    expect_read_from(file, at, text);
  }
  close(file);
}

// Writing goes on where the descriptor stands, in order, or at the end if it appends.
TEST(Descriptor, OfAFileIsWrittenFromWhereItStands) {
  const test::TemporaryFolder folder;
  for (const bool append : {false, true}) {
    std::ofstream(folder.file("file"), std::ios::binary) << std::string(100, 'o');
    const int file = open(folder.file("file").c_str(), O_RDWR | (append ? O_APPEND : 0));
    ASSERT_GE(file, 0);
    ASSERT_EQ(lseek(file, 40, SEEK_SET), 40);
    {
      FileWriter<char> out(file, {.block_bytes = kBlock});
      for (int i = 0; i < 10; ++i) out.data()[i] = 'x';
      out.finish(10);
    }
    std::string expected(100, 'o');
    append ? expected.append(10, 'x') : expected.replace(40, 10, 10, 'x');
    EXPECT_EQ(lseek(file, 0, SEEK_CUR), append ? 110 : 50);
    ASSERT_EQ(lseek(file, 0, SEEK_SET), 0);
    EXPECT_EQ(read_all(file), expected);
    close(file);
  }
}

TEST(Terminal, IsReadToItsEnd) {
  int master = -1;
  int terminal = -1;
  if (openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  const std::string typed = "two lines\nof text\n";
  const std::string keys = typed + '\4';  // ^D ends the input
  ASSERT_EQ(write(master, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  {
    const FileReader<char> in(terminal, {.block_bytes = kBlock});
    EXPECT_EQ(std::string(in.data()), typed);
    EXPECT_EQ(in.length_bytes(), typed.size());
  }
  close(terminal);
  close(master);
}

// A program without one, such as a daemon, would get its hang-ups.
TEST(Terminal, DoesNotBecomeTheControllingOne) {
  int master = -1;
  int terminal = -1;
  std::array<char, 128> path{};
  if (openpty(&master, &terminal, path.data(), nullptr, nullptr) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  test::expect_in_child([&] {
    setsid();
    const FileReader<char> in(path.data(), {.block_bytes = kBlock});
    const FileWriter<char> out(path.data(), {.block_bytes = kBlock});
    return open("/dev/tty", O_RDONLY) < 0 ? 0 : 1;
  });
  close(terminal);
  close(master);
}

TEST(Files, MadeUpOnTheFlyAreReadToTheirEnd) {
  const FileReader<char> in("/proc/self/status", {.block_bytes = kBlock});
  EXPECT_EQ(std::string(in.data()).substr(0, 5), "Name:");
}

TEST(Files, ThatSayTheyAreLongerThanTheyAreAreReadToTheirEnd) {
  const std::string path = "/sys/devices/system/cpu/possible";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no " << path;
  const FileReader<char> in(path, {.block_bytes = kBlock});
  const std::string text = in.data();
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.front(), '0');
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(in.length_bytes(), text.size());
}

TEST(Files, ThatAreNothingButAHoleHaveTheirLength) {
  const test::TemporaryFolder folder;
  const int file = open(folder.file("file").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 10 * kBlock + 1), 0);
  const FileReader<char> in(folder.file("file"), {.block_bytes = kBlock});
  ASSERT_EQ(in.size(), 10 * kBlock + 1);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) wrong += in.data()[i] != 0;
  EXPECT_EQ(wrong, 0u);
  close(file);
}

TEST(Files, CanBeDevices) {
  {
    const FileReader<char> zeros("/dev/zero", {.block_bytes = kBlock});
    EXPECT_EQ(zeros.data()[10 * kBlock], 0);
  }
  FileWriter<char> nowhere("/dev/null", {.block_bytes = kBlock, .expected_bytes = 20 * kBlock});
  for (std::size_t i = 0; i < 20 * kBlock; ++i) nowhere.data()[i] = 'x';
  nowhere.finish(20 * kBlock);
  EXPECT_NE(nowhere.statistics().direct.find("at any offset"), std::string::npos);
  FileWriter<char> full("/dev/full", {.block_bytes = kBlock});
  full.data()[0] = 'x';
  EXPECT_EQ(test::error_of([&] { full.finish(1); }), ENOSPC);
}

// Somebody has read a part of the file, and goes on here, which need not be where direct I/O may
// begin.
TEST(FilesThatAreLent, MayBeginAnywhere) {
  auto random = test::test_random();
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  const std::string text = random_text(random, 3 << 20);
  std::ofstream(path, std::ios::binary) << text;
  const os::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (const std::size_t begin : {std::size_t{0}, std::size_t{4096}, random() % text.size()}) {
    ASSERT_EQ(fsync(file.get()), 0);
    ASSERT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    ASSERT_EQ(lseek(file.get(), static_cast<off_t>(begin), SEEK_SET), static_cast<off_t>(begin));
    BlockFile lent = BlockFile::borrow(file.get(), "the rest", false);
    lent.read_around_cache();
    FileReaderBase reader(std::make_unique<SingleFile>(std::move(lent), nullptr),
                          {.block_bytes = kBlock});
    std::string found;
    guarded([&] {
      found.assign(reinterpret_cast<const char*>(reader.bytes()), text.size() - begin);
    }).throw_if_failed();
    EXPECT_TRUE(found == text.substr(begin)) << begin;
  }
}

}  // namespace

}  // namespace vortex::descriptor_stream_test

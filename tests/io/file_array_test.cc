// FileArray against a plain array and pread(2): changes in any order, growth, errors, threads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "io/disk/disk.h"
#include "tests/fault/told_failures.h"
#include "tests/io/setting.h"
#include "tests/support/error_of.h"
#include "tests/support/loop_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "tests/support/threads.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/os/memory.h"

namespace vortex::file_array_test { namespace {

using test::Backend;
using test::file_text;
using test::kBlock;
using test::Placing;
using test::put_file_text;
using test::Setting;

constexpr std::size_t kMaxBytes = 120 * kBlock;

// Writes fail while it is armed; reads go on.
class FailingWrites final : public FaultPlan {
 public:
  explicit FailingWrites(std::uint64_t seed)
      : random_(seed, {.short_transfer = 0.2, .late = 0.3}) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t number) noexcept override {
    const bool fails = attempt.operation == Operation::kWrite && attempt.offset >= from.load();
    if (const int error = fails ? armed.load() : 0) {
      return {.kind = PlannedFault::Kind::kError, .error = error};
    }
    return random_.decide(attempt, number);
  }
  std::atomic<int> armed{0};           // the errno value
  std::atomic<std::uint64_t> from{0};  // for writes at this offset and behind it

 private:
  RandomFaults random_;
};

class FileArrays : public test::SettingTest {
 protected:
  FileArrayOptions options() const {
    return {.block_bytes = kBlock,
            .comeback_blocks = 0,
            .read_ahead = 2,
            .write_behind = 2,
            .request_bytes = group() * kBlock,
            .make = true,
            .reserve_bytes = kMaxBytes};
  }
  void open(std::shared_ptr<FaultPlan> faults = nullptr) {
    open_with(options(), std::move(faults));
  }
  void open_with(FileArrayOptions wanted, std::shared_ptr<FaultPlan> faults = nullptr) {
    bench.emplace(path, GetParam(), wanted, std::move(faults));
    array = bench->file.get();
  }
  void close() { bench.reset(); }

  std::optional<test::Bench<FileArray<char>>> bench;
  FileArray<char>* array = nullptr;  // of the bench
};

// A program changes an array; the same changes are made to a string.
class Model {
 public:
  Model(FileArray<char>& array, std::string& text, std::mt19937_64& random)
      : array_(array), text_(text), random_(random) {}

  // Whether all that was read was right.
  bool step() {
    if (text_.empty()) return true;
    switch (random_() % 8) {
      case 0:
        walk_ = random_() % text_.size();
        return true;
      case 1:
      case 2:
        return same(random_() % text_.size(), random_() % (2 * kBlock));
      case 3:
        return same(walk_, random_() % kBlock);
      case 4: {  // within the array, the places may overlap
        const std::size_t from = random_() % text_.size();
        const std::size_t to = random_() % text_.size();
        const std::size_t bytes =
            std::min(random_() % (2 * kBlock), text_.size() - std::max(from, to));
        std::memmove(array_.data() + to, array_.data() + from, bytes);
        text_.replace(to, bytes, text_.substr(from, bytes));
        return true;
      }
      case 5: {
        const std::size_t at = random_() % text_.size();
        return change(at, std::min<std::size_t>(1 + random_() % 9, text_.size() - at));
      }
      default: {
        const std::size_t bytes = std::min(random_() % kBlock + 1, text_.size() - walk_);
        const bool right = change(walk_, bytes);
        walk_ += bytes;
        if (walk_ == text_.size()) walk_ = 0;
        return right;
      }
    }
  }
  void restart() { walk_ = 0; }
  bool change_all() {
    bool right = true;
    for (std::size_t at = 0; right && at < text_.size(); at += 512) right = change(at, 512);
    return right;
  }

  // Byte by byte, so that an error stops both at the same place.
  bool change(std::size_t at, std::size_t bytes) {
    auto* const data = static_cast<volatile char*>(array_.data());
    for (std::size_t i = at; i < at + bytes; ++i) {
      if (data[i] != text_[i]) return false;
      const char value = static_cast<char>('a' + (i + text_[i]) % 26);
      data[i] = value;
      text_[i] = value;
    }
    return true;
  }

 private:
  bool same(std::size_t at, std::size_t bytes) {
    bytes = std::min(bytes, text_.size() - at);
    return std::memcmp(array_.data() + at, text_.data() + at, bytes) == 0;
  }

  FileArray<char>& array_;
  std::string& text_;
  std::mt19937_64& random_;
  std::size_t walk_ = 0;
};

TEST_P(FileArrays, RandomChanges) {
  const RandomFaults::Rates rates{
      .short_transfer = 0.2, .interrupted = 0.1, .try_again = 0.02, .late = 0.3};
  for (int round = 0; round < (test::kShadowMemory ? 2 : 4); ++round) {
    std::string text = fill(random() % kMaxBytes);
    open(round % 2 == 0 ? nullptr : std::make_shared<RandomFaults>(random(), rates));
    Model model(*array, text, random);
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(model.step());
      if (i % 50 == 49) {  // grows or shrinks
        const std::size_t length = random() % kMaxBytes;
        array->resize(length);
        text.resize(length, '\0');
        model.restart();
        struct stat status {};
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        ASSERT_EQ(static_cast<std::size_t>(status.st_size), length);
      }
      if (i % 37 == 36 && !text.empty()) {  // a range
        const std::size_t from = random() % text.size();
        const std::size_t bytes = random() % (text.size() - from) + 1;
        array->flush(from, bytes, Flush::kWritten);
        ASSERT_TRUE(file_text(path).compare(from, bytes, text, from, bytes) == 0);
      }
    }
    array->flush(round < 2 ? Flush::kSynced : Flush::kWritten);
    ASSERT_TRUE(file_text(path) == text);
    ASSERT_TRUE(model.step());
    close();
    ASSERT_TRUE(file_text(path) == text);
  }
}

// Lengths around the borders of blocks and sectors; a tail is never seen longer than it is.
TEST_P(FileArrays, EveryLength) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{4096}, kBlock - 1, kBlock,
        kBlock + 1, 9 * kBlock - 512, 9 * kBlock, 30 * kBlock + 4097}) {
    SCOPED_TRACE(size);
    std::string text = fill(size);
    open();
    ASSERT_EQ(array->size(), size);
    for (std::size_t i = 0; i < size; i += 7) array->data()[i] = text[i] = 'x';
    // Zeros follow, to the end of the page and a page more.
    const std::size_t filled = (size + 4095) / 4096 * 4096 + 4096;
    for (std::size_t i = size; i < filled; ++i) ASSERT_EQ(array->data()[i], '\0');
    array->flush();
    ASSERT_TRUE(file_text(path) == text);
    const std::size_t beyond = (size + kBlock - 1) / kBlock * kBlock;
    const Failure failure =
        guarded([&] { *static_cast<volatile char*>(array->data() + beyond) = 1; });
    EXPECT_EQ(failure.error, ERANGE) << failure.message();
    close();
    ASSERT_TRUE(file_text(path) == text);
  }
}

// Bytes that were written behind the end do not come back when the file grows.
TEST_P(FileArrays, WhatGrowsIsZeros) {
  for (const std::size_t size : {std::size_t{100}, kBlock - 100, 3 * kBlock + 5}) {
    std::string text = fill(size);
    open();
    array->data()[size] = 'x';
    array->data()[size - 1] = text[size - 1] = 'y';
    array->resize(20 * kBlock + 9);
    text.resize(20 * kBlock + 9, '\0');
    ASSERT_EQ(std::memcmp(array->data(), text.data(), text.size()), 0);
    array->data()[10 * kBlock] = text[10 * kBlock] = 'z';
    array->resize(kBlock / 2);
    array->resize(12 * kBlock);
    text.resize(kBlock / 2);
    text.resize(12 * kBlock, '\0');
    ASSERT_EQ(std::memcmp(array->data(), text.data(), text.size()), 0);
    close();
    ASSERT_TRUE(file_text(path) == text);
  }
}

TEST_P(FileArrays, HolesStayHoles) {
  open();
  array->resize(kMaxBytes);
  array->data()[50 * kBlock] = 'x';
  std::size_t nonzero = 0;
  for (std::size_t i = 0; i < kMaxBytes; ++i) nonzero += array->data()[i] != '\0';
  EXPECT_EQ(nonzero, 1u);
  close();
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, static_cast<blkcnt_t>(2 * kBlock));
  EXPECT_EQ(status.st_size, static_cast<off_t>(kMaxBytes));
}

TEST_P(FileArrays, OnlyWhatWasChangedIsWritten) {
  fill(60 * kBlock);
  open();
  std::size_t sum = 0;
  for (const char c : *array) sum += static_cast<unsigned char>(c);
  EXPECT_GT(sum, 0u);
  array->data()[7 * kBlock + 1] = 'x';
  array->data()[30 * kBlock] = 'y';
  array->flush();
  array->flush();
  EXPECT_EQ(array->statistics().sink.bytes, 2 * kBlock);
  EXPECT_EQ(array->statistics().sink.requests, 2u);
}

// A walk that changes everything reads and writes each block once, behind it.
TEST_P(FileArrays, AWalkWritesEveryBlockOnce) {
  constexpr std::size_t kBlocks = 100;
  std::string text = fill(kBlocks * kBlock);
  open();
  for (std::size_t i = 0; i < text.size(); ++i) array->data()[i] = text[i] = text[i] ^ 1;
  const FileStatistics statistics = array->statistics();
  EXPECT_EQ(statistics.source.bytes, text.size());
  EXPECT_GE(statistics.sink.bytes, (kBlocks - bench->most) * kBlock);
  array->flush();
  EXPECT_EQ(array->statistics().sink.bytes, text.size());
  EXPECT_EQ(array->statistics().sink.requests, (kBlocks + group() - 1) / group());
  EXPECT_EQ(array->statistics().any_order.reread_bytes, 0u);
  EXPECT_TRUE(file_text(path) == text);
}

// One instruction, two places, each over a border, one of them written.
TEST_P(FileArrays, AnyInstructionCanFinish) {
#if defined(__x86_64__)
  std::string text = fill(60 * kBlock);
  FileArrayOptions wanted = options();
  wanted.read_ahead = wanted.write_behind = 0;
  open_with(wanted);
  for (int i = 0; i < 200; ++i) {
    const std::size_t one = (1 + random() % 59) * kBlock - 1 - random() % 7;
    const std::size_t other = (1 + random() % 59) * kBlock - 1 - random() % 7;
    const char* from = array->data() + one;
    char* to = array->data() + other;
    asm volatile("movsq" : "+S"(from), "+D"(to) : : "memory");
    std::uint64_t value = 0;
    std::memcpy(&value, text.data() + one, 8);
    std::memcpy(text.data() + other, &value, 8);
    ASSERT_EQ(std::memcmp(array->data() + one, text.data() + one, 8), 0);
  }
  close();
  EXPECT_TRUE(file_text(path) == text);
#else
  GTEST_SKIP() << "needs an instruction of x86-64";
#endif
}

// ---- Errors.

TEST_P(FileArrays, WhatCannotBeWrittenStaysAndIsReported) {
  for (const int error : {ENOSPC, EIO}) {
    std::string text = fill(80 * kBlock);
    const auto faults = std::make_shared<FailingWrites>(random());
    open(faults);
    faults->armed = error;
    Model model(*array, text, random);
    bool right = true;
    const Failure failure = guarded([&] { right = right && model.change_all(); });
    EXPECT_TRUE(right);
    EXPECT_TRUE(test::fails(failure, error, "writing '" + path + "' at byte "));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(test::fails([&] { array->flush(); }, error, path + "' at byte "));
    }
    faults->armed = 0;
    array->flush();
    EXPECT_TRUE(file_text(path) == text);
  }
}

// A touch that finds no memory since nothing can be written is refused, and the next one is served
// when there is room again. Nobody calls flush().
TEST_P(FileArrays, LivesOnWhenThereIsRoomAgain) {
  std::string text = fill(80 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  Model model(*array, text, random);
  bool right = true;
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    faults->armed = error;
    const Failure failure = guarded([&] { right = right && model.change_all(); });
    EXPECT_EQ(failure.error, error) << failure.message();
    EXPECT_EQ(array->stream().failure().error, error);
    // So are others as long as there is no room.
    const auto prefault_all = [&] {
      for (std::size_t at = 0; at < text.size(); at += kBlock) {
        array->prefault(at, 1, Access::kWrite);
      }
    };
    for (int i = 0; i < 2; ++i) {
      const Failure again = guarded([&] { right = right && model.change_all(); });
      EXPECT_EQ(again.error, error) << again.message();
      EXPECT_THROW(prefault_all(), Error);
    }
    faults->armed = 0;
    array->prefault(failure.offset, 1, Access::kWrite);
    const Failure none = guarded([&] { right = right && model.change_all(); });
    EXPECT_FALSE(none) << none.message();
    EXPECT_TRUE(right);
    EXPECT_FALSE(array->stream().failure()) << array->stream().failure().message();
  }
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// A program that cannot be left by a jump loses what it stores meanwhile, is told, and may try
// again.
TEST_P(FileArrays, GoesOnWithFillerUntilThereIsRoomAgain) {
  std::string text = fill(80 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  test::ToldFailures told(ENOSPC);
  array->stream().fill_on_failure(told.call());
  auto* const data = static_cast<volatile char*>(array->data());
  const auto store = [&](char c) {
    for (std::size_t at = 7; at < text.size(); at += kBlock) data[at] = c;
  };
  faults->armed = ENOSPC;
  store('a');
  EXPECT_GT(told.calls, 0);
  faults->armed = 0;
  array->stream().clear_filler();
  told.calls = 0;
  store('b');
  for (std::size_t at = 7; at < text.size(); at += kBlock) text[at] = 'b';
  for (std::size_t at = 0; at < text.size(); ++at) ASSERT_EQ(data[at], text[at]) << at;
  EXPECT_EQ(told.calls, 0);
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// Where a block beside it goes, and the page tables with it.
TEST_P(FileArrays, FillerThatWentIsPlacedAgain) {
  constexpr std::size_t kApart = (std::size_t{2} << 20) + 3 * kBlock;
  constexpr std::size_t kSize = 60 * kApart;
  put_file_text(path, "");
  ASSERT_EQ(truncate(path.c_str(), kSize), 0);
  const auto faults = std::make_shared<FailingWrites>(random());
  FileArrayOptions wanted = options();
  wanted.reserve_bytes = kSize;
  open_with(wanted, faults);
  test::ToldFailures told(ENOSPC);
  array->stream().fill_on_failure(told.call());
  auto* const data = static_cast<volatile char*>(array->data());
  const auto store_until_told = [&](std::size_t at) {
    told.calls = 0;
    faults->armed = ENOSPC;
    for (; told.calls == 0 && at < kSize; at += kApart) data[at] = 'a';
    return at - kApart;
  };
  const std::size_t filled = store_until_told(kApart);
  ASSERT_LT(filled, 30 * kApart);
  faults->armed = 0;
  array->flush(Flush::kWritten);
  const std::size_t beside =
      filled % (std::size_t{2} << 20) < kBlock ? filled + kBlock : filled - kBlock;
  EXPECT_EQ(data[beside], 0);
  for (std::size_t at = 35 * kApart; at < 60 * kApart; at += kApart) (void)data[at];
  store_until_told(31 * kApart);
  ASSERT_EQ(told.calls, 1);
  told.calls = 0;
  EXPECT_EQ(data[filled], 0);
  EXPECT_EQ(told.calls, 1);
}

// Nobody would be told of what is stored in zeros that stay where the file has shrunk and grown.
TEST_P(FileArrays, FillerGoesWhenTheFileShrinks) {
  std::string text = fill(100 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  test::ToldFailures told;
  array->stream().fill_on_failure(told.call());
  auto* const data = static_cast<volatile char*>(array->data());
  faults->armed = ENOSPC;
  // Where the last of them finds no memory, so does the next.
  for (std::size_t block = 0; told.calls == 0 && block < 80; ++block) data[block * kBlock] = 'a';
  ASSERT_GT(told.calls, 0);
  data[90 * kBlock] = 'b';
  faults->armed = 0;
  array->resize(50 * kBlock);
  array->stream().clear_filler();
  array->resize(100 * kBlock);
  told.calls = 0;
  data[90 * kBlock] = 'c';
  array->flush();
  EXPECT_EQ(file_text(path).substr(90 * kBlock, 2), std::string("c\0", 2));
  EXPECT_EQ(told.calls, 0);
}

// What a store meets may have been written and stay to be read, once no fault is served again. What
// was changed before is written all the same.
TEST_P(FileArrays, GoesOnWithFillerWhereAFailedStreamMayOnlyBeRead) {
  std::string text = fill(20 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  test::ToldFailures told(EBADF);
  array->stream().fill_on_failure(told.call());
  auto* const data = static_cast<volatile char*>(array->data());
  data[5] = text[5] = 'a';
  array->flush();
  EXPECT_EQ(data[9 * kBlock], text[9 * kBlock]);
  faults->armed = ENOSPC;
  data[3 * kBlock] = text[3 * kBlock] = 'b';
  EXPECT_THROW(array->flush(), Error);
  faults->armed = 0;
  array->stream().cancel(EBADF, "the array was closed");
  int stores = 0;
  for (const std::size_t at : {std::size_t{5}, 3 * kBlock, 9 * kBlock, std::size_t{6}}) {
    array->stream().clear_filler();
    data[at] = 'c';
    EXPECT_EQ(told.calls, ++stores) << at;
  }
  array->flush();
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// The same while other threads are refused, too.
TEST_P(FileArrays, ThreadsLiveOnWhenThereIsRoomAgain) {
  constexpr std::size_t kThreads = 3;
  std::string text = fill(60 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  faults->armed = ENOSPC;
  std::atomic<std::size_t> refused{0};
  test::run_together(kThreads, [&](std::size_t thread) {
    for (std::size_t at = thread; at < text.size(); at += kBlock / 2 * kThreads) {
      const Failure failure =
          guarded([&] { *static_cast<volatile char*>(array->data() + at) = 'x'; });
      if (failure) {
        EXPECT_EQ(failure.error, ENOSPC) << failure.message();
        // The first to see it waits for the others, and then there is room.
        if (++refused == kThreads) faults->armed = 0;
        while (refused < kThreads) std::this_thread::yield();
        *static_cast<volatile char*>(array->data() + at) = 'x';
      }
    }
  });
  EXPECT_GE(refused, kThreads);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    for (std::size_t at = thread; at < text.size(); at += kBlock / 2 * kThreads) text[at] = 'x';
  }
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// A block that cannot be written does not keep others from being written.
TEST_P(FileArrays, OneBadPlaceIsOnlyThat) {
  std::string text = fill(40 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  faults->from = 32 * kBlock;
  open(faults);
  faults->armed = EIO;
  for (std::size_t i = 0; i < 40 * kBlock; i += kBlock) array->data()[i] = text[i] = 'x';
  array->flush(0, 32 * kBlock);
  EXPECT_TRUE(file_text(path).compare(0, 32 * kBlock, text, 0, 32 * kBlock) == 0);
  EXPECT_THROW(array->flush(), Error);
  faults->armed = 0;
  array->flush();
  EXPECT_TRUE(file_text(path) == text);
}

TEST_P(FileArrays, ReadErrorsEndTheStreamAndNotTheChanges) {
  std::string text = fill(60 * kBlock);
  open();
  array->data()[3] = text[3] = 'x';
  ASSERT_EQ(truncate(path.c_str(), 20 * kBlock), 0);
  EXPECT_EQ(guarded([&] { (void)*static_cast<volatile char*>(array->data() + 50 * kBlock); }).error,
            ENODATA);
  array->flush();
  EXPECT_EQ(file_text(path)[3], 'x');
}

TEST_P(FileArrays, RefusalsOfTheKernel) {
  test::with_a_refusal(40, test::kShadowMemory ? 30 : 6, random, [&](auto in_refusal) {
    std::string text = fill(50 * kBlock);
    open();
    Model model(*array, text, random);
    bool right = true;
    in_refusal([&] {
      for (int i = 0; right && i < 60; ++i) right = model.change(random() % (text.size() - 8), 8);
    });
    EXPECT_TRUE(right);
    if (bench->pool.statistics().blocks_lost != 0) return;
    array->flush();
    ASSERT_TRUE(file_text(path) == text);
  });
}

TEST_P(FileArrays, ResizingCanFail) {
  std::string text = fill(10 * kBlock);
  open();
  array->data()[9] = text[9] = 'x';
  EXPECT_THROW(array->resize(kMaxBytes + 3 * kBlock), Error);
  EXPECT_EQ(array->size(), text.size());
  EXPECT_EQ(std::memcmp(array->data(), text.data(), text.size()), 0);
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// The block moved, and then the kernel refused to let it be touched.
TEST(FileArraysOfMovedBlocks, ChangesThatTheKernelKeepsAreAnErrorOfEachFlush) {
  const Setting setting(Placing::kMoves, Backend::kThreads, 1);
  const test::FaultsBy signals(Placing::kMoves);
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  put_file_text(path, std::string(10 * kBlock, 'x'));
  const auto faults = std::make_shared<FailingWrites>(1);
  test::Bench<FileArray<char>> bench(
      path, setting,
      FileArrayOptions{
          .block_bytes = kBlock, .request_bytes = kBlock, .reserve_bytes = 20 * kBlock},
      faults);
  FileArray<char>& array = *bench.file;
  array.data()[9 * kBlock] = 'y';
  faults->armed = ENOSPC;
  EXPECT_TRUE(test::fails([&] { array.flush(); }, ENOSPC));
  faults->armed = 0;
  static int calls;
  calls = 0;
  os::set_failure_hook(+[](os::MemoryCall call) noexcept {
    return call == os::MemoryCall::kProtect && ++calls == 2 ? ENOMEM : 0;
  });
  EXPECT_TRUE(test::fails([&] { array.resize(9 * kBlock + 1); }, ENOMEM));
  os::set_failure_hook(nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(test::fails([&] { array.flush(); }, ENOMEM));
}

TEST_P(FileArrays, WhatIsLostAtTheEndIsSaid) {
  fill(40 * kBlock);
  const auto faults = std::make_shared<FailingWrites>(random());
  open(faults);
  array->data()[5 * kBlock] = 'x';
  faults->armed = EIO;
  testing::internal::CaptureStderr();
  bench->file.reset();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(test::contains(line, "changed bytes are lost"));
  EXPECT_TRUE(test::contains(line, path + "' at byte " + std::to_string(5 * kBlock)));
}

// ---- Threads.

// Each has stripes of its own in all blocks, while another thread flushes and one resizes.
TEST_P(FileArrays, SeveralThreads) {
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kStripe = 1000;
  std::string text = fill(30 * kBlock);
  open();
  std::array<std::uint64_t, kThreads + 1> seeds{};
  for (std::uint64_t& seed : seeds) seed = random();
  std::atomic<std::size_t> at_work{kThreads};
  std::atomic<int> wrong{0};
  test::run_together(kThreads + 2, [&](std::size_t thread) {
    if (thread == kThreads) {
      while (at_work > 0) array->flush(Flush::kWritten);
      return;
    }
    if (thread == kThreads + 1) {
      std::mt19937_64 own(seeds[kThreads]);
      while (at_work > 0) array->resize(text.size() + own() % (30 * kBlock));
      array->resize(text.size());
      return;
    }
    std::mt19937_64 own(seeds[thread]);
    for (int i = 0; i < (test::kShadowMemory ? 50 : 200); ++i) {
      const std::size_t stripe = own() % (text.size() / kStripe / kThreads) * kThreads + thread;
      char* const there = array->data() + stripe * kStripe;
      char* const expected = text.data() + stripe * kStripe;
      if (std::memcmp(there, expected, kStripe) != 0) ++wrong;
      const std::size_t within = own() % kStripe;
      const std::size_t bytes = own() % (kStripe - within);
      std::memset(there + within, 'A' + static_cast<int>(thread), bytes);
      std::memset(expected + within, 'A' + static_cast<int>(thread), bytes);
    }
    --at_work;
  });
  EXPECT_EQ(wrong, 0);
  close();
  EXPECT_TRUE(file_text(path) == text);
}

// What is asked for may be gone when it is placed: an error of that call, and of nothing else.
TEST_P(FileArrays, PlacingBesideAResizeFailsAlone) {
  const std::string text = fill(20 * kBlock);
  open();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  test::run_together(2, [&](std::size_t thread) {
    if (thread == 0) {
      while (!stop) {
        array->resize(20 * kBlock);
        array->resize(kBlock);
      }
      return;
    }
    for (int i = 0; i < (test::kShadowMemory ? 200 : 2000); ++i) {
      const std::size_t first = static_cast<std::size_t>(i) % 20;
      const int error =
          test::error_of([&] { array->prefault(first * kBlock, kBlock, Access::kWrite); });
      if (error != 0 && error != ERANGE) ++wrong;
    }
    stop = true;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(array->stream().failure().error, 0);
  EXPECT_EQ(std::string_view(array->data(), kBlock), std::string_view(text).substr(0, kBlock));
}

// A block is written as it was at one moment, while a thread goes on changing it.
TEST_P(FileArrays, WhatIsWrittenIsOfOneMoment) {
  fill(4 * kBlock);
  open();
  std::atomic<bool> stop{false};
  // The last word follows the first.
  constexpr std::size_t kLast = kBlock - sizeof(std::uint64_t);
  std::memset(array->data(), 0, kBlock);
  test::run_together(2, [&](std::size_t thread) {
    if (thread == 0) {
      auto* const first = reinterpret_cast<volatile std::uint64_t*>(array->data());
      auto* const last = reinterpret_cast<volatile std::uint64_t*>(array->data() + kLast);
      for (std::uint64_t value = 1; !stop; ++value) {
        *first = value;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        *last = value;
      }
      return;
    }
    for (int i = 0; i < (test::kShadowMemory ? 20 : 100); ++i) {
      array->flush(0, kBlock, Flush::kWritten);
      std::array<std::uint64_t, 2> written{};
      const std::string now = file_text(path);
      std::memcpy(&written[0], now.data(), 8);
      std::memcpy(&written[1], now.data() + kLast, 8);
      // The bytes read here may come from two writes, but from whole ones.
      EXPECT_LE(written[0] - written[1], 1u);
    }
    stop = true;
  });
}

// ---- Transfers of the program's own that go around the processor.

// Pages of the program pinned by a ring of its own, as a direct read pins them, and a read into
// them that ends when the test says so.
class PinnedRead {
 public:
  PinnedRead(char* begin, std::size_t bytes) {
    if (io_uring_queue_init(4, &ring_, 0) != 0) return;
    open_ = true;
    EXPECT_EQ(pipe(pipe_.data()), 0);
    const iovec range{begin, bytes};
    EXPECT_EQ(io_uring_register_buffers(&ring_, &range, 1), 0);
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read_fixed(entry, pipe_[0], begin, static_cast<unsigned>(bytes), 0, 0);
    EXPECT_EQ(io_uring_submit(&ring_), 1);
  }
  ~PinnedRead() {
    if (!open_) return;
    io_uring_queue_exit(&ring_);
    for (const int end : pipe_) ::close(end);
  }
  PinnedRead(const PinnedRead&) = delete;
  PinnedRead& operator=(const PinnedRead&) = delete;

  explicit operator bool() const { return open_; }
  void arrive(const std::string& bytes) {
    EXPECT_EQ(write(pipe_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    io_uring_cqe* done = nullptr;
    EXPECT_EQ(io_uring_wait_cqe(&ring_, &done), 0);
    EXPECT_EQ(done->res, static_cast<int>(bytes.size())) << std::strerror(-done->res);
    io_uring_cqe_seen(&ring_, done);
    EXPECT_EQ(io_uring_unregister_buffers(&ring_), 0);
  }

 private:
  io_uring ring_{};
  bool open_ = false;
  std::array<int, 2> pipe_{-1, -1};
};

// A flush() between the beginning and the end of such a transfer writes the block and protects it;
// what arrives after that is written all the same, by whatever writes next.
TEST_P(FileArrays, WhatArrivesAfterAFlushIsWritten) {
  enum class Next { kDrop, kFlush, kClose };
  for (const bool prefaulted : {true, false}) {
    for (const Next next : {Next::kDrop, Next::kFlush, Next::kClose}) {
      std::string text = fill(60 * kBlock);
      open();
      const std::size_t at = kBlock + 512;
      const std::size_t bytes = kBlock / 2;
      if (prefaulted) {
        array->prefault(at, bytes, Access::kWrite);
      } else {
        array->data()[at] = text[at];
        array->data()[at] = '1';
      }
      PinnedRead read(array->data() + at, bytes);
      if (!read) END_TEST_WITHOUT(test::Environment::kUring, "no io_uring");
      array->flush(Flush::kWritten);
      const std::string arrived = test::random_text(random, bytes);
      read.arrive(arrived);
      text.replace(at, bytes, arrived);
      if (next == Next::kDrop) {
        for (std::size_t i = 0; i < 3; ++i) {
          for (std::size_t block = 4; block < 60; ++block) {
            EXPECT_EQ(array->data()[block * kBlock], text[block * kBlock]);
          }
        }
      } else if (next == Next::kFlush) {
        array->flush(Flush::kWritten);
      }
      if (next != Next::kClose) {
        EXPECT_TRUE(file_text(path) == text) << prefaulted << static_cast<int>(next);
        EXPECT_TRUE(std::memcmp(array->data() + at, arrived.data(), bytes) == 0);
      }
      close();
      EXPECT_TRUE(file_text(path) == text) << prefaulted << static_cast<int>(next);
    }
  }
}

// A call that begins after the flush() finds the block protected: with signals it is refused, and
// the kernel's own fault is served by userfaultfd.
TEST_P(FileArrays, ACallThatBeginsAfterAFlushIsRefusedOrServed) {
  std::string text = fill(20 * kBlock);
  open();
  const std::string other = folder.file("other");
  test::put_file_text(other, std::string(512, 'z'));
  const int source = ::open(other.c_str(), O_RDONLY | O_CLOEXEC);
  array->prefault(kBlock, 512, Access::kWrite);
  array->flush(Flush::kWritten);
  const ssize_t read = pread(source, array->data() + kBlock, 512, 0);
  const int error = errno;
  if (placing() == Placing::kUserfaultfd) {
    EXPECT_EQ(read, 512) << std::strerror(error);
  } else {
    EXPECT_EQ(read, -1);
    EXPECT_EQ(error, EFAULT);
    array->prefault(kBlock, 512, Access::kWrite);
    EXPECT_EQ(pread(source, array->data() + kBlock, 512, 0), 512);
  }
  ::close(source);
  text.replace(kBlock, 512, std::string(512, 'z'));
  array->flush(Flush::kWritten);
  EXPECT_TRUE(file_text(path) == text);
}

// Nothing is written twice for that.
TEST_P(FileArrays, AFlushOfWhatDidNotChangeWritesNothing) {
  fill(20 * kBlock);
  open();
  array->data()[3 * kBlock] = 'x';
  array->flush(Flush::kWritten);
  const std::uint64_t written = array->statistics().sink.bytes;
  for (int i = 0; i < 3; ++i) array->flush(Flush::kWritten);
  EXPECT_EQ(array->statistics().sink.bytes, written);
}

// A file system of devices, whose room is another, has the device's name.
TEST(FileArrayOfADevice, HasTheRoomOfTheDevice) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("image"), std::ios::binary) << std::string(64 * kBlock, '\0');
  const test::LoopDevice device(folder.file("image"));
  if (device.path().empty()) {
    END_TEST_WITHOUT(test::Environment::kLoopDevices, test::LoopDevice::kRefusal);
  }
  FileArray<char> array(device.path(), {.block_bytes = kBlock});
  ASSERT_EQ(array.size(), 64 * kBlock);
  array.allocate(1001);
  array.allocate(64 * kBlock);
  EXPECT_EQ(test::error_of([&] { array.allocate(64 * kBlock + 1); }), ENOSPC);
  EXPECT_EQ(array.data()[64 * kBlock - 1], '\0');
}

TEST(FileArrayOnAFullDisk, IsAnErrorAndLosesNothing) {
  const test::SmallFileSystem system("ext4", std::size_t{8} << 20);
  if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
  const std::string path = system.file("file");
  constexpr std::size_t kBytes = 40 * kBlock;
  FileArray<char> array(path, {.block_bytes = kBlock,
                               .write_behind = 2,
                               .request_bytes = kBlock,
                               .make = true,
                               .reserve_bytes = kBytes});
  array.resize(kBytes);
  system.leave(10 * kBlock);
  EXPECT_THROW(array.allocate(kBytes), Error);
  std::size_t done = 0;
  const Failure failure = guarded([&] {
    for (; done < kBytes; ++done) *static_cast<volatile char*>(array.data() + done) = 'x';
  });
  EXPECT_EQ(failure.error, ENOSPC) << failure.message();
  EXPECT_GE(done, 8 * kBlock);
  EXPECT_THROW(array.flush(), Error);
  system.leave(60 * kBlock);
  array.flush();
  EXPECT_TRUE(file_text(path) == std::string(done, 'x') + std::string(kBytes - done, '\0'));
}

// Carries out reads at once, and writes when it is told to. The first of those cancels the stream,
// inside the fault that waits for it.
class CancellingDisk final : public Disk {
 public:
  CancellingDisk() : Disk(DiskOptions{}, 4096) { kept_.reserve(4096); }

  Stream* stream = nullptr;
  bool taken_twice = false;
  void carry_out() {
    stream = nullptr;
    for (Request* const request : kept_) end(*request);
  }
  std::size_t kept() const { return kept_.size(); }

 private:
  const char* backend() const noexcept override { return "cancelling"; }
  void end(Request& request) noexcept { arrived(request, transfer(request.attempt())); }
  void start(Request& request) noexcept override {
    taken_twice = taken_twice || (stream != nullptr &&
                                  std::find(kept_.begin(), kept_.end(), &request) != kept_.end());
    if (stream == nullptr || request.operation == Operation::kRead) return end(request);
    kept_.push_back(&request);
    stream->cancel(ECANCELED, "enough");
  }

  std::vector<Request*> kept_;
};

// The touch goes on to the next block, until all requests are taken by writes that nobody awaits.
TEST(FileArrayOnACancellingDisk, EndsTheTouchAndKeepsTheRequests) {
  constexpr std::size_t kHeld = 600;  // more than there are requests
  constexpr std::size_t kStride = 3;  // no walk
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  std::string text(kStride * 2 * kHeld * kBlock, 'x');
  put_file_text(path, text);
  CancellingDisk disk;
  FileArray<char> array(path, {.memory_bytes = kHeld * kBlock,
                               .block_bytes = kBlock,
                               .read_ahead = 4,
                               .write_behind = 0,
                               .request_bytes = kBlock,
                               .caching = Caching::kBuffered,
                               .disk = &disk});
  auto* const data = static_cast<volatile char*>(array.data());
  for (std::size_t block = 0; block < 6; ++block) EXPECT_EQ(data[block * kBlock], 'x');
  disk.stream = &array.stream();
  std::size_t at = 20 * kBlock;
  const Failure failure = guarded([&] {
    for (; at < text.size(); at += kStride * kBlock) data[at] = 'y';
  });
  EXPECT_EQ(failure.error, ECANCELED) << failure.message();
  EXPECT_GE(disk.kept(), 256U);
  EXPECT_FALSE(disk.taken_twice);
  disk.carry_out();
  array.flush(Flush::kWritten);
  for (std::size_t stored = 20 * kBlock; stored < at; stored += kStride * kBlock)
    text[stored] = 'y';
  EXPECT_TRUE(file_text(path) == text);
}

TEST(FileArrayOptionsTest, WhatHasNoOffsetsIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_THROW(FileArray<char>(folder.file("pipe")), Error);
  EXPECT_THROW(FileArray<char>(folder.file("missing")), Error);
}

INSTANTIATE_TEST_SUITE_P(Settings, FileArrays,
                         testing::Values(Setting(Placing::kMoves, Backend::kUring, 1),
                                         Setting(Placing::kMoves, Backend::kThreads, 4),
                                         Setting(Placing::kMoves, Backend::kVirtual, 4),
                                         Setting(Placing::kAliases, Backend::kUring, 4),
                                         Setting(Placing::kAliases, Backend::kThreads, 1),
                                         Setting(Placing::kUserfaultfd, Backend::kUring, 4),
                                         Setting(Placing::kUserfaultfd, Backend::kThreads, 1)),
                         test::NameOfSetting());

}  // namespace

}  // namespace vortex::file_array_test

// Vortex-B: one array for both threads, guards between them.
#include "vortex/pipeline.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/sanitizers.h"
#include "tests/support/words.h"
#include "tests/vortex/placing.h"
#include "tests/vortex/small_windows.h"
#include "vortex/error.h"
#include "vortex/memory_budget.h"
#include "vortex/os/memory.h"

namespace vortex::commit_stream_test { namespace {

using test::error_of;
using test::fails;
using test::word_at;

using test::kB;
using test::kWords;

CommitStreamOptions small(std::size_t n, std::size_t l, std::size_t m) {
  return test::small_windows<CommitStreamOptions>(n, l, m);
}

// Both threads use one address, and page protection is what keeps them apart, which the thread
// sanitizer cannot see.
__attribute__((no_sanitize("thread"))) void write_words(volatile std::uint64_t* out,
                                                        std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) out[i] = word_at(i);
}

__attribute__((no_sanitize("thread"))) std::uint64_t first_wrong(const volatile std::uint64_t* in,
                                                                 std::uint64_t begin,
                                                                 std::uint64_t end) {
  while (begin < end && in[begin] == word_at(begin)) ++begin;
  return begin;
}

__attribute__((no_sanitize("thread"))) std::uint64_t word_in(const volatile std::uint64_t* in,
                                                             std::uint64_t at) {
  return in[at];
}

// Faults are signals, or the kernel's: there is no pool, whose kind would matter.
constexpr auto kEngines = {test::Placing::kMoves, test::Placing::kUserfaultfd};

class CommitStreamWindows
    : public ::testing::TestWithParam<std::tuple<test::Placing, int, int, int>> {
 protected:
  void SetUp() override { END_TEST_IF_REFUSED(faults_); }

 private:
  const test::FaultsBy faults_{std::get<0>(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(EngineNLM, CommitStreamWindows,
                         ::testing::Combine(::testing::ValuesIn(kEngines),
                                            ::testing::Values(1, 2, 5), ::testing::Values(0, 1, 3),
                                            ::testing::Values(0, 1, 2)));

using CommitStreamTest = test::PlacingTest;
INSTANTIATE_TEST_SUITE_P(Engines, CommitStreamTest, ::testing::ValuesIn(kEngines),
                         test::NameOfPlacing());

TEST_P(CommitStreamWindows, LengthsAroundBlockBorders) {
  const auto [engine, n, l, m] = GetParam();
  for (const std::uint64_t words : {std::uint64_t{0}, std::uint64_t{1}, kWords - 1, kWords,
                                    kWords + 1, 4 * kWords, 20 * kWords, 20 * kWords + 3}) {
    CommitStream<std::uint64_t> stream(small(n, l, m));
    std::thread producer([&] {
      write_words(stream.writer_data(), 0, words);
      stream.finish(words);
    });
    const std::uint64_t* in = stream.reader_data();
    EXPECT_EQ(first_wrong(in, 0, words), words);
    producer.join();
    EXPECT_EQ(stream.length_bytes(), words * sizeof(std::uint64_t));
    EXPECT_EQ(word_in(in, words), 0u) << "the terminator";
  }
}

TEST_P(CommitStreamWindows, ComebacksOfBothSides) {
  const auto [engine, n, l, m] = GetParam();
  constexpr std::uint64_t kBlocks = 36;
  const std::uint64_t group = static_cast<std::uint64_t>(l) + 1;
  CommitStream<std::uint64_t> stream(small(n, l, m));
  std::thread producer([&stream, group] {
    for (std::uint64_t first = 0; first < kBlocks; first += group) {
      for (std::uint64_t i = group; i-- > 0;) {
        write_words(stream.writer_data(), (first + i) * kWords, (first + i + 1) * kWords);
      }
    }
    stream.finish(kBlocks * kWords);
  });
  const std::uint64_t* in = stream.reader_data();
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    for (std::uint64_t back = 0; back <= std::min<std::uint64_t>(m, block); ++back) {
      const std::uint64_t begin = (block - back) * kWords;
      ASSERT_EQ(first_wrong(in, begin, begin + kWords), begin + kWords);
    }
  }
  producer.join();
}

TEST_P(CommitStreamWindows, TheWriterRunsNPlusLBlocksAheadAndNoMore) {
  const auto [engine, n, l, m] = GetParam();
  const auto ahead = static_cast<std::uint64_t>(n + l);
  CommitStream<std::uint64_t> stream(small(n, l, m));
  std::atomic<std::uint64_t> written{0};
  std::thread producer([&] {
    const Failure failure = guarded([&] {
      for (std::uint64_t block = 0; block < 40; ++block) {
        write_words(stream.writer_data(), block * kWords, (block + 1) * kWords);
        written.store(block + 1);
      }
    });
    EXPECT_EQ(failure.error, ECANCELED) << failure.message();
  });
  while (written.load() < ahead) std::this_thread::yield();
  // A chance to go on, if it can.
  for (int i = 0; i < 200; ++i) std::this_thread::yield();
  stream.cancel(ECANCELED, "seen enough");
  producer.join();
  EXPECT_EQ(written.load(), ahead);
}

TEST_P(CommitStreamTest, AReaderThatOvertakesTheWriterWaits) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "this processor does not tell reads from writes";
#endif
  // There the writer's touch of a page wakes a reader that sleeps for the same page.
  const bool by_page = GetParam() == test::Placing::kUserfaultfd;
  const std::uint64_t first = by_page ? 8 * kWords - kWords / 4 : 7 * kWords;
  CommitStream<std::uint64_t> stream(small(2, 0, 0));
  write_words(stream.writer_data(), 0, kWords + 1);
  const std::uint64_t* in = stream.reader_data();
  std::atomic<bool> read{false};
  std::thread consumer([&] {
    EXPECT_EQ(first_wrong(in, first, 8 * kWords), 8 * kWords);
    read = true;
  });
  EXPECT_FALSE(read);
  write_words(stream.writer_data(), kWords + 1, 9 * kWords);
  stream.finish(9 * kWords);
  consumer.join();
  // A block that the reader jumped over goes as soon as the writer has left it: all of the block,
  // not only the page that would have been the guard.
  for (const std::uint64_t page : {0, 1, 3}) {
    CommitStream<std::uint64_t> other(small(2, 0, 0));
    std::thread jumper([&] { word_in(other.reader_data(), 7 * kWords); });
    write_words(other.writer_data(), 0, 9 * kWords);
    other.finish(9 * kWords);
    jumper.join();
    const Failure failure =
        guarded([&] { word_in(other.writer_data(), 3 * kWords + page * kWords / 4); });
    EXPECT_EQ(failure.error, EFAULT) << "page " << page << ": " << failure.message();
  }
}

// One call that is longer than the window.
TEST_P(CommitStreamTest, SystemCallsReadItWhereFaultsAreTheKernels) {
  constexpr std::uint64_t kBlocks = 40;
  CommitStream<std::uint64_t> stream(small(2, 0, 1));
  const int file = memfd_create("copy", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  if (GetParam() != test::Placing::kUserfaultfd) {
    EXPECT_EQ(write(file, stream.writer_data(), kBlocks * kB), -1);
    EXPECT_EQ(errno, EFAULT);
    close(file);
    return;
  }
  std::thread producer([&] {
    write_words(stream.writer_data(), 0, kBlocks * kWords);
    stream.finish(kBlocks * kWords);
  });
  const ssize_t written = write(file, stream.reader_data(), kBlocks * kB);
  producer.join();
  ASSERT_EQ(written, static_cast<ssize_t>(kBlocks * kB));
  std::vector<std::uint64_t> copy(kBlocks * kWords);
  EXPECT_EQ(pread(file, copy.data(), kBlocks * kB, 0), written);
  close(file);
  EXPECT_EQ(first_wrong(copy.data(), 0, kBlocks * kWords), kBlocks * kWords);
}

// Bytes under a guard come back, and zeros that nobody wrote to as well.
TEST_P(CommitStreamTest, GuardsKeepWhatTheyCover) {
  constexpr std::uint64_t kBlocks = 50;
  CommitStream<std::uint64_t> stream(small(3, 1, 1));
  std::thread producer([&] {
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      const std::uint64_t at = (block + 1) * kWords - 1;
      write_words(stream.writer_data(), at, at + 1);
      if (block % 2 == 0) write_words(stream.writer_data(), block * kWords, block * kWords + 1);
    }
    stream.finish(kBlocks * kWords);
  });
  const std::uint64_t* in = stream.reader_data();
  std::uint64_t wrong = 0;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    const std::uint64_t first = block * kWords;
    wrong += word_in(in, first) != (block % 2 == 0 ? word_at(first) : 0);
    wrong += word_in(in, first + kWords / 2) != 0;
    wrong += word_in(in, first + kWords - 1) != word_at(first + kWords - 1);
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

// A guard that the reader has jumped over goes with its block; another takes its place.
TEST_P(CommitStreamTest, GuardsThatNobodyTouchesGo) {
  constexpr std::uint64_t kRound = 6;
  constexpr std::uint64_t kRounds = 20;
  CommitStream<std::uint64_t> stream(small(8, 0, 0));
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t first = round * kRound;
    write_words(stream.writer_data(), first * kWords, (first + kRound) * kWords);
    const std::uint64_t* in = stream.reader_data();
    for (const std::uint64_t block : {first, first + 2, first + 3}) {
      ASSERT_EQ(first_wrong(in, block * kWords, (block + 1) * kWords), (block + 1) * kWords);
    }
  }
  stream.finish(kRounds * kRound * kWords);
  const std::uint64_t last = kRounds * kRound - 1;
  EXPECT_EQ(first_wrong(stream.reader_data(), last * kWords, (last + 1) * kWords),
            (last + 1) * kWords);
}

TEST_P(CommitStreamTest, ReadsPastTheEndAreErrors) {
  const std::uint64_t page_words = os::page_bytes() / sizeof(std::uint64_t);
  CommitStream<std::uint64_t> stream(small(4, 0, 0));
  write_words(stream.writer_data(), 0, 2 * kWords);
  stream.finish(2 * kWords);
  const std::uint64_t* in = stream.reader_data();
  EXPECT_EQ(first_wrong(in, 0, 2 * kWords), 2 * kWords);
  EXPECT_EQ(word_in(in, 2 * kWords + page_words - 1), 0u);
  const Failure failure = guarded([&] { word_in(in, 2 * kWords + page_words); });
  EXPECT_EQ(failure.error, ERANGE) << failure.message();
}

TEST_P(CommitStreamTest, TouchesOutsideTheWindowsAreErrorsThatPrintThem) {
  {
    CommitStream<std::uint64_t> stream(small(4, 1, 0));
    write_words(stream.writer_data(), 0, 4 * kWords);
    // Guards are where completed blocks begin.
    const Failure failure = guarded([&] { write_words(stream.writer_data(), kWords, kWords + 1); });
    EXPECT_TRUE(fails(failure, EFAULT, "window of blocks [2, 4)"));
  }
  {
    CommitStream<std::uint64_t> stream(small(8, 0, 1));
    write_words(stream.writer_data(), 0, 8 * kWords);
    const std::uint64_t* in = stream.reader_data();
    EXPECT_EQ(first_wrong(in, 0, 5 * kWords), 5 * kWords);
    const Failure failure = guarded([&] { word_in(in, 2 * kWords); });
    EXPECT_TRUE(fails(failure, EFAULT, "window of blocks [3, 5)"));
  }
  {
    CommitStream<std::uint64_t> stream(small(4, 0, 0));
    write_words(stream.writer_data(), 0, 1);
    const Failure failure =
        guarded([&] { write_words(stream.writer_data(), 2 * kWords, 2 * kWords + 1); });
    EXPECT_EQ(failure.error, EINVAL) << failure.message();
  }
}

TEST_P(CommitStreamTest, LengthsThatCannotBeAreRefused) {
  CommitStream<std::uint64_t> stream(small(4, 0, 0));
  write_words(stream.writer_data(), 0, 3 * kWords);
  EXPECT_EQ(error_of([&] { stream.finish(kWords); }), EINVAL);
  EXPECT_EQ(error_of([&] { stream.finish(4 * kWords); }), EINVAL);
  stream.finish(3 * kWords);
  EXPECT_EQ(error_of([&] { stream.finish(3 * kWords); }), EALREADY);
}

TEST_P(CommitStreamTest, OptionsThatCannotWorkAreRefused) {
  EXPECT_EQ(error_of([] { CommitStream<int> stream(small(0, 1, 1)); }), EINVAL);
  CommitStreamOptions odd = small(1, 1, 1);
  odd.block_bytes = 5000;
  EXPECT_EQ(error_of([&] { CommitStream<int> stream(odd); }), EINVAL);
}

// The handlers of the Vortex paper, Algorithm 7, and what Algorithm 8 does around them, on two
// plain counts: how many blocks the writer has entered when neither thread can go on, or all are
// done.
struct PaperHandlers {
  PaperHandlers(int n, int l) : empty(n + l), comeback(l) {}

  // The next step of a thread; false: there is none, or it waits.
  bool write(int blocks) {
    if (entered == blocks) return !std::exchange(finished, true) && (full += comeback + 1) > 0;
    // The guard of block entered - (L + 1), for the reader, comes before the wait.
    if (entered > comeback && !std::exchange(guarded, true)) return ++full > 0;
    if (empty == 0) return false;
    --empty;
    ++entered;
    guarded = false;
    return true;
  }
  // First GetReaderBuffer(), then a guard for each block but the last L + 1.
  bool read(int blocks) {
    if (left == blocks - comeback) return false;
    if (left > 0 && !std::exchange(released, true)) return ++empty > 0;
    if (full == 0) return false;
    --full;
    ++left;
    released = false;
    return true;
  }

  int full = 0;
  int empty;
  const int comeback;
  int entered = 0;
  int left = 0;
  bool guarded = false, released = false, finished = false;
};

// So N = 0 is refused: the writer's first guard is set where it enters block L + 1, and the reader
// waits for that, but of N + L empty blocks the writer enters no more than L, and waits for the
// reader. With N = 1 both go on, whatever L is.
TEST(CommitStreamOfThePaper, StopsAtBlockLWithoutReadAhead) {
  constexpr int kBlocks = 20;
  for (int l = 0; l < 5; ++l) {
    for (int n = 0; n < 4; ++n) {
      PaperHandlers paper(n, l);
      while (paper.write(kBlocks) || paper.read(kBlocks)) {
      }
      EXPECT_EQ(paper.entered, n == 0 ? l : kBlocks) << "N = " << n << ", L = " << l;
      EXPECT_EQ(paper.left, n == 0 ? 0 : kBlocks - l) << "N = " << n << ", L = " << l;
    }
  }
}

TEST_P(CommitStreamTest, CancelWakesTheWriter) {
  CommitStream<std::uint64_t> stream(small(2, 0, 0));
  Failure failure;
  std::thread producer(
      [&] { failure = guarded([&] { write_words(stream.writer_data(), 0, 100 * kWords); }); });
  stream.reader_data();
  stream.cancel(ETIME, "took too long");
  producer.join();
  EXPECT_EQ(failure.error, ETIME) << failure.message();
}

TEST_P(CommitStreamTest, CancelWakesTheReader) {
  CommitStream<std::uint64_t> stream(small(2, 0, 0));
  std::atomic<bool> started{false};
  int error = 0;
  std::thread consumer([&] {
    started = true;
    error = error_of([&] { stream.reader_data(); });
  });
  while (!started) std::this_thread::yield();
  stream.cancel(EPIPE, "the writer is gone");
  consumer.join();
  EXPECT_EQ(error, EPIPE);
}

TEST_P(CommitStreamTest, MemoryIsTheBlocksAndNothingElse) {
  if (test::kShadowMemory) GTEST_SKIP() << "shadow memory hides what the process takes";
  constexpr std::uint64_t kBytes = std::uint64_t{512} << 20;
  constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  const ProcessMemory before = process_memory();
  ASSERT_TRUE(reset_peak_resident());
  CommitStream<std::uint64_t> stream({.block_bytes = kBlockBytes, .read_ahead_blocks = 4});
  constexpr std::uint64_t kCount = kBytes / sizeof(std::uint64_t);
  std::thread producer([&] {
    write_words(stream.writer_data(), 0, kCount);
    stream.finish(kCount);
  });
  EXPECT_EQ(first_wrong(stream.reader_data(), 0, kCount), kCount);
  const ProcessMemory after = process_memory();
  producer.join();
  constexpr std::size_t kSlack = std::size_t{1} << 20;  // a stack, page tables
  EXPECT_LT(after.peak_resident_bytes, before.resident_bytes + 7 * kBlockBytes + kSlack);
  EXPECT_LT(after.page_table_bytes, before.page_table_bytes + kSlack);
}

// Nobody would ever write there.
TEST(CommitStream, InAForkedChildNothingIsWaitedFor) {
  CommitStream<std::uint64_t> stream(small(4, 1, 1));
  write_words(stream.writer_data(), 0, kWords);
  test::expect_in_child([&] {
    alarm(60);
    if (error_of([&] { (void)stream.reader_data(); }) != EFAULT) return 1;
    return error_of([&] { stream.finish(kWords); }) == EFAULT ? 0 : 2;
  });
}

}  // namespace

}  // namespace vortex::commit_stream_test

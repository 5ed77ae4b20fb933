// Vortex-C: what one thread writes, the other reads; ends that leave; limits that hold.
#include "vortex/pipeline.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/readable.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "tests/support/words.h"
#include "tests/vortex/placing.h"
#include "tests/vortex/small_windows.h"
#include "vortex/error.h"
#include "vortex/memory_budget.h"
#include "vortex/os/memory.h"

namespace vortex::pipeline_test { namespace {

const testing::Environment* const by_signals =
    testing::AddGlobalTestEnvironment(new test::BySignals(__FILE__));

using test::error_of;
using test::fails;
using test::first_wrong;
using test::word_at;
using test::write_words;

using test::kB;
using test::kWords;

// With exact windows, so that every touch outside them is an error.
PipelineOptions small(std::size_t n, std::size_t l, std::size_t m) {
  auto options = test::small_windows<PipelineOptions>(n, l, m);
  options.stale_blocks = 0;
  return options;
}

// How blocks get from one thread to the other.
enum class Way { kAliases, kStaleAliases, kMoves };
constexpr Way kAllWays[] = {Way::kAliases, Way::kStaleAliases, Way::kMoves};

PipelineOptions by(Way way, PipelineOptions options) {
  const bool aliases = way == Way::kAliases || way == Way::kStaleAliases;
  options.pool_kind = aliases ? PoolKind::kAliases : PoolKind::kMoves;
  options.stale_blocks = way == Way::kStaleAliases ? 3 : 0;
  return options;
}

std::shared_ptr<BlockPool> pool_for(Way way, std::size_t blocks) {
  return std::make_shared<BlockPool>(BlockPoolOptions{
      .pool_bytes = blocks * kB, .block_bytes = kB, .kind = by(way, {}).pool_kind});
}

// Writes the first words from a thread of its own, and finishes.
std::thread write_all(PipelineWriter<std::uint64_t> writer, std::uint64_t words) {
  return std::thread([out = std::move(writer), words]() mutable {
    write_words(out.data(), 0, words);
    out.finish(words);
  });
}

// Until an end of the pipeline sleeps, which it does only where it cannot go on.
template <typename T>
void wait_for_sleep(const Pipeline<T>& pipeline, std::uint64_t sleeps = 1) {
  while (pipeline.channel().sleeps() < sleeps) std::this_thread::yield();
}

class PipelineWindows : public ::testing::TestWithParam<std::tuple<int, int, int, Way>> {
 protected:
  PipelineOptions options() const {
    const auto [n, l, m, way] = GetParam();
    return by(way, small(n, l, m));
  }
  std::size_t capacity() const {
    const auto [n, l, m, way] = GetParam();
    return n + l + m + 1;
  }
};

INSTANTIATE_TEST_SUITE_P(NLM, PipelineWindows,
                         ::testing::Combine(::testing::Values(0, 1, 2, 5),
                                            ::testing::Values(0, 1, 3), ::testing::Values(0, 1, 2),
                                            ::testing::ValuesIn(kAllWays)));

TEST_P(PipelineWindows, LengthsAroundBlockBorders) {
  for (const std::uint64_t words :
       {std::uint64_t{0}, std::uint64_t{1}, kWords - 1, kWords, kWords + 1, 2 * kWords,
        20 * kWords - 1, 20 * kWords, 20 * kWords + 3}) {
    for (const bool known : {false, true}) {
      PipelineOptions chosen = options();
      if (known) chosen.length_bytes = words * sizeof(std::uint64_t);
      Pipeline<std::uint64_t> pipeline(chosen);
      std::thread producer = write_all(pipeline.writer(), words);
      auto in = pipeline.reader();
      if (known) {
        EXPECT_EQ(in.size(), words);
      }
      EXPECT_EQ(first_wrong(in.data(), 0, words), words);
      EXPECT_EQ(in.data()[words], 0u) << "the terminator";
      EXPECT_EQ(in.wait_size(), words);
      EXPECT_EQ(in.size(), words);
      producer.join();
    }
  }
}

TEST_P(PipelineWindows, TheWriterRunsNPlusLBlocksAheadAndNoMore) {
  const auto [n, l, m, way] = GetParam();
  auto pool = pool_for(way, 64);
  PipelineOptions chosen = options();
  chosen.pool = pool;
  Pipeline<std::uint64_t> pipeline(chosen);
  std::atomic<std::uint64_t> written{0};
  std::thread producer([out = pipeline.writer(), &written]() mutable {
    for (std::uint64_t block = 0; block < 40; ++block) {
      write_words(out.data(), block * kWords, (block + 1) * kWords);
      written.store(block + 1, std::memory_order_relaxed);
    }
    out.finish(40 * kWords);
  });
  auto in = pipeline.reader();
  wait_for_sleep(pipeline);
  EXPECT_EQ(written.load(), static_cast<std::uint64_t>(n + l));
  EXPECT_EQ(first_wrong(in.data(), 0, 40 * kWords), 40 * kWords);
  producer.join();
  EXPECT_LE(pool->statistics().peak_blocks_in_use, capacity());
}

TEST_P(PipelineWindows, ReadersThatJumpAndComeBack) {
  const auto [n, l, m, way] = GetParam();
  constexpr std::uint64_t kBlocks = 60;
  for (std::uint64_t stride = 1; stride < 9; ++stride) {
    Pipeline<std::uint64_t> pipeline(options());
    std::thread producer = write_all(pipeline.writer(), kBlocks * kWords);
    auto in = pipeline.reader();
    for (std::uint64_t block = stride - 1; block < kBlocks; block += stride) {
      EXPECT_EQ(first_wrong(in.data(), block * kWords, block * kWords + 5), block * kWords + 5);
      for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(m, block); ++back) {
        const std::uint64_t at = (block - back) * kWords + 7;
        EXPECT_EQ(in.data()[at], word_at(at)) << "stride " << stride << " back " << back;
      }
    }
    // Past the last stride, so that the writer can get to its end.
    const std::uint64_t last = kBlocks * kWords - 1;
    EXPECT_EQ(in.data()[last], word_at(last));
    producer.join();
  }
}

TEST_P(PipelineWindows, WritersThatGoBackWithinL) {
  const auto [n, l, m, way] = GetParam();
  constexpr std::uint64_t kBlocks = 48;
  const std::uint64_t group = static_cast<std::uint64_t>(l) + 1;
  Pipeline<std::uint64_t> pipeline(options());
  std::thread producer([out = pipeline.writer(), group]() mutable {
    for (std::uint64_t first = 0; first < kBlocks; first += group) {
      for (std::uint64_t i = group; i-- > 0;) {
        write_words(out.data(), (first + i) * kWords, (first + i + 1) * kWords);
      }
    }
    out.finish(kBlocks * kWords);
  });
  auto in = pipeline.reader();
  EXPECT_EQ(first_wrong(in.data(), 0, kBlocks * kWords), kBlocks * kWords);
  producer.join();
}

class PipelineMemory : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, PipelineMemory, ::testing::ValuesIn(kAllWays));

// The resident size counts a page as often as it is mapped; what is held is the proportional one.
TEST_P(PipelineMemory, IsTheBlocksAndNothingElse) {
  if (test::kShadowMemory) GTEST_SKIP() << "shadow memory hides what the process takes";
  constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  const std::uint64_t bytes = std::uint64_t{test::long_tests() ? 64u : 1u} << 30;
  const std::size_t page_tables = process_memory().page_table_bytes;
  const std::size_t held_before = held_bytes();
  ASSERT_GT(held_before, 0u);
  Pipeline<std::uint64_t> pipeline(
      by(GetParam(), {.block_bytes = kBlockBytes, .read_ahead_blocks = 4}));
  const std::size_t blocks = pipeline.channel().capacity_blocks();
  EXPECT_EQ(blocks, 4u + 1 + 1 + 1);
  const std::uint64_t words = bytes / sizeof(std::uint64_t);
  std::thread producer([out = pipeline.writer(), words]() mutable {
    for (std::uint64_t i = 0; i < words; i += 64) out.data()[i] = i;
    out.finish(words);
  });
  auto in = pipeline.reader();
  std::uint64_t wrong = 0;
  std::size_t most_held = 0;
  for (std::uint64_t i = 0; i < words; i += 64) {
    wrong += in.data()[i] != i;
    if (i % (words / 16) == 0) most_held = std::max(most_held, held_bytes());
  }
  EXPECT_EQ(wrong, 0u);
  const ProcessMemory after = process_memory();
  producer.join();
  // A thread's stack and heap, and the page tables of the addresses in use.
  constexpr std::size_t kSlack = std::size_t{1} << 20;
  EXPECT_LT(most_held, held_before + blocks * kBlockBytes + kSlack);
  EXPECT_LT(after.page_table_bytes, page_tables + kSlack);
}

TEST_P(PipelineMemory, BlocksMoveAsOftenAsThePromiseSays) {
  constexpr std::uint64_t kBlocks = 100;
  PipelineOptions options = by(GetParam(), small(2, 1, 1));
  options.pool = pool_for(GetParam(), 16);
  Pipeline<std::uint64_t> pipeline(options);
  auto out = pipeline.writer();
  auto in = pipeline.reader();
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    write_words(out.data(), block * kWords, (block + 1) * kWords);
    // With L = 1 the block before the newest has not been handed over yet.
    if (block >= 2) {
      EXPECT_EQ(first_wrong(in.data(), (block - 2) * kWords, (block - 1) * kWords),
                (block - 1) * kWords);
    }
  }
  const BlockPool::Statistics moves = options.pool->statistics();
  // To the writer's array and to the reader's.
  EXPECT_EQ(moves.placements, kBlocks + (kBlocks - 2));
  // And home from each, but for what the two windows hold. Aliases never leave home.
  const bool at_home = GetParam() == Way::kMoves;
  EXPECT_EQ(moves.withdrawals, at_home ? (kBlocks - 2) + (kBlocks - 4) : 0);
}

TEST(PipelineTest, EndsGoInAnyOrder) {
  for (const bool writer_first : {false, true}) {
    PipelineOptions options = by(Way::kMoves, small(6, 1, 1));
    options.pool = pool_for(Way::kMoves, 16);
    {
      Pipeline<std::uint64_t> pipeline(options);
      auto out = std::make_unique<PipelineWriter<std::uint64_t>>(pipeline.writer());
      auto in = std::make_unique<PipelineReader<std::uint64_t>>(pipeline.reader());
      write_words(out->data(), 0, 5 * kWords + 1);
      EXPECT_EQ(first_wrong(in->data(), 0, 3 * kWords), 3 * kWords);
      write_words(out->data(), 5 * kWords + 1, 7 * kWords);
      out->finish(7 * kWords);
      if (writer_first) {
        out.reset();
        EXPECT_EQ(first_wrong(in->data(), 3 * kWords, 7 * kWords), 7 * kWords);
      } else {
        in.reset();
      }
    }
    EXPECT_EQ(options.pool->statistics().blocks_in_use, 0u);
    for (std::uint32_t i = 0; i < 16; ++i) EXPECT_TRUE(options.pool->resting(Block{i}));
  }
}

TEST(PipelineTest, BlocksThatWereJumpedOverAreUsedAgain) {
  // More than 2 MiB of them, which is what page tables are given back by.
  constexpr std::uint64_t kAhead = 140;
  constexpr std::uint64_t kBlocks = 4 * kAhead;
  Pipeline<std::uint64_t> pipeline(by(Way::kMoves, small(kAhead, 0, 0)));
  auto out = pipeline.writer();
  auto in = pipeline.reader();
  const auto write = [&](std::uint64_t begin, std::uint64_t end) {
    write_words(out.data(), begin * kWords, end * kWords);
  };
  const auto expect = [&](std::uint64_t begin, std::uint64_t end) {
    EXPECT_EQ(first_wrong(in.data(), begin * kWords, end * kWords), end * kWords);
  };
  write(0, kAhead);
  expect(kAhead - 2, kAhead - 1);
  // A few blocks do all the work, and the others stay where they are.
  for (std::uint64_t block = kAhead; block < 3 * kAhead; ++block) {
    write(block, block + 1);
    expect(block - 1, block);
  }
  // Now every block is needed.
  write(3 * kAhead, kBlocks - 1);
  expect(3 * kAhead - 1, kBlocks - 2);
}

// Its counts are the parent's, and another thread of that may have had its lock.
TEST(PipelineTest, EndsOfAForkedChildLeaveThePoolAlone) {
  PipelineOptions options = by(Way::kMoves, small(6, 1, 1));
  options.pool = pool_for(Way::kMoves, 16);
  // It does not know that a forked child has no other threads.
  if (test::kThreadSanitizer) options.pool->wait_until_warm();
  auto pipeline = std::make_unique<Pipeline<std::uint64_t>>(options);
  auto out = std::make_unique<PipelineWriter<std::uint64_t>>(pipeline->writer());
  write_words(out->data(), 0, 5 * kWords + 1);
  const auto held = [&] { return options.pool->statistics().blocks_in_use; };
  const std::size_t before = held();
  EXPECT_GT(before, 2u);
  test::expect_in_child([&] {
    out.reset();
    pipeline.reset();
    return held() == before ? 0 : 1;
  });
}

TEST(PipelineTest, AForkedChildDoesNotWaitForALength) {
  PipelineOptions options = by(Way::kMoves, small(6, 1, 1));
  options.pool = pool_for(Way::kMoves, 16);
  if (test::kThreadSanitizer) options.pool->wait_until_warm();
  Pipeline<std::uint64_t> pipeline(options);
  auto in = pipeline.reader();
  test::expect_in_child([&] {
    alarm(60);
    return test::error_of([&] { (void)in.wait_size(); }) == EFAULT ? 0 : 1;
  });
}

// Wherever they are when the ends go, and whichever goes first.
TEST(PipelineTest, BlocksThatCannotComeHomeAreGivenUp) {
  for (const bool writer_first : {false, true}) {
    PipelineOptions options = by(Way::kMoves, small(6, 1, 1));
    options.pool = pool_for(Way::kMoves, 16);
    {
      Pipeline<std::uint64_t> pipeline(options);
      auto out = std::make_unique<PipelineWriter<std::uint64_t>>(pipeline.writer());
      auto in = std::make_unique<PipelineReader<std::uint64_t>>(pipeline.reader());
      write_words(out->data(), 0, 5 * kWords);
      EXPECT_EQ(first_wrong(in->data(), 0, 2 * kWords), 2 * kWords);
      os::set_failure_hook(
          +[](os::MemoryCall call) noexcept { return call == os::MemoryCall::kMove ? ENOMEM : 0; });
      if (writer_first) {
        out.reset();
        EXPECT_EQ(guarded([&] { first_wrong(in->data(), 2 * kWords, 3 * kWords); }).error, ENOMEM);
      } else {
        in.reset();
        EXPECT_NE(guarded([&] { write_words(out->data(), 5 * kWords, 8 * kWords); }).error, 0);
      }
    }
    os::set_failure_hook(nullptr);
    const auto after = options.pool->statistics();
    EXPECT_GE(after.blocks_lost, 4u);  // both windows at least
    EXPECT_EQ(after.blocks_in_use, after.blocks_lost);
    EXPECT_EQ(after.blocks_guaranteed, 0u);
  }
}

TEST(PipelineTest, GapsAreZerosWhereThatIsAskedFor) {
  for (const Way way : kAllWays) {
    PipelineOptions options = by(way, small(2, 1, 1));
    options.gaps = Gaps::kZeros;
    Pipeline<std::uint64_t> pipeline(options);
    auto out = pipeline.writer();
    auto in = pipeline.reader();
    for (std::uint64_t block = 0; block < 20; ++block) {
      std::uint64_t* const to = out.data() + block * kWords;
      const bool whole = block < 10;
      for (std::uint64_t i = 0; i < kWords; i += whole ? 1 : 100) to[i] = ~i;
      out.data()[(block + 1) * kWords] = 1;  // ends the one before, as L is 1 for the next round
      if (block == 0) continue;
      const std::uint64_t* const from = in.data() + (block - 1) * kWords;
      const std::uint64_t step = block - 1 < 10 ? 1 : 100;
      for (std::uint64_t i = 0; i < kWords; ++i) {
        ASSERT_EQ(from[i], i % step == 0 ? ~i : 0) << "word " << i << " of block " << block - 1;
      }
    }
  }
}

TEST(PipelineTest, ScannersStopAtTheTerminator) {
  // A sanitizer's strstr measures the whole string first and then starts again.
  Pipeline<char> pipeline(small(2, 1, test::kShadowMemory ? 6 : 1));
  constexpr std::size_t kLength = 5 * kB + 100;
  std::thread producer([out = pipeline.writer()]() mutable {
    std::memset(out.data(), 'a', 3 * kB - 3);
    std::memcpy(out.data() + 3 * kB - 3, "needle", 6);
    std::memset(out.data() + 3 * kB + 3, 'a', kLength - (3 * kB + 3));
    out.finish(kLength);
  });
  auto in = pipeline.reader();
  const char* found = std::strstr(in.data(), "needle");
  EXPECT_EQ(found, in.data() + 3 * kB - 3);
  EXPECT_EQ(std::strlen(found), kLength - (3 * kB - 3));
  producer.join();
}

TEST(PipelineTest, AnAnnouncedLengthHolds) {
  PipelineOptions options = small(2, 3, 1);
  options.length_bytes = 3 * kB;
  {
    Pipeline<std::uint64_t> pipeline(options);
    auto out = pipeline.writer();
    auto in = pipeline.reader();
    write_words(out.data(), 0, kWords);
    EXPECT_EQ(error_of([&] { out.finish(kWords); }), EINVAL);
    EXPECT_EQ(guarded([&] { first_wrong(in.data(), 0, kWords); }).error, 0);
    const Failure failure = guarded([&] { first_wrong(in.data(), kWords, 3 * kWords); });
    EXPECT_EQ(failure.error, EINVAL) << failure.message();
  }
  {
    Pipeline<std::uint64_t> pipeline(options);
    auto out = pipeline.writer();
    const Failure failure = guarded([&] { out.data()[3 * kWords] = 1; });
    EXPECT_EQ(failure.error, ERANGE) << failure.message();
  }
}

TEST(PipelineTest, AWriterThatLeavesEarlyLeavesAnError) {
  Pipeline<std::uint64_t> pipeline(small(2, 0, 0));
  std::thread producer([&] {
    try {
      auto out = pipeline.writer();
      write_words(out.data(), 0, 10 * kWords + 1);
      throw std::runtime_error("the producer's own trouble");
    } catch (const std::runtime_error&) {
    }
  });
  auto in = pipeline.reader();
  // Ten blocks were handed over; the one it stopped in was not.
  std::uint64_t right = 0;
  EXPECT_EQ(guarded([&] { right = first_wrong(in.data(), 0, 10 * kWords); }).error, 0);
  EXPECT_EQ(right, 10 * kWords);
  const Failure failure = guarded([&] { right = in.data()[10 * kWords]; });
  EXPECT_TRUE(fails(failure, EPIPE, "without finish"));
  EXPECT_EQ(error_of([&] { in.wait_size(); }), EPIPE);
  EXPECT_EQ(in.size(), std::nullopt);
  producer.join();
}

TEST(PipelineTest, TheReaderLearnsWhyTheWriterGaveUp) {
  {
    Pipeline<std::uint64_t> pipeline(small(2, 0, 0));
    pipeline.writer().fail(ENODATA, "the sensor is gone");
    auto in = pipeline.reader();
    const Failure failure = guarded([&] { first_wrong(in.data(), 0, 1); });
    EXPECT_TRUE(fails(failure, ENODATA, "the sensor is gone"));
  }
  {
    // The writer's own stream failed, and it did not say anything else.
    Pipeline<std::uint64_t> pipeline(small(4, 0, 0));
    {
      auto out = pipeline.writer();
      write_words(out.data(), 0, 2 * kWords);
      EXPECT_EQ(guarded([&] { out.data()[0] = 1; }).error, EFAULT);
    }
    auto in = pipeline.reader();
    const Failure failure = guarded([&] { first_wrong(in.data(), 0, 3 * kWords); });
    EXPECT_TRUE(fails(failure, EFAULT, "behind the window"));
  }
}

TEST(PipelineTest, AReaderThatLeavesEarlyStopsTheWriter) {
  Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
  Failure failure;
  int finish_error = 0;
  std::thread producer([&, out = pipeline.writer()]() mutable {
    failure = guarded([&] { write_words(out.data(), 0, 100 * kWords); });
    finish_error = error_of([&] { out.finish(0); });
  });
  {
    auto in = pipeline.reader();
    EXPECT_EQ(first_wrong(in.data(), 0, 4 * kWords), 4 * kWords);
    wait_for_sleep(pipeline);
  }
  producer.join();
  EXPECT_TRUE(fails(failure, EPIPE, "the reader has left"));
  EXPECT_EQ(finish_error, EPIPE);
}

TEST(PipelineTest, FinishTellsWhetherTheReaderLeftBefore) {
  {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    auto out = pipeline.writer();
    write_words(out.data(), 0, 10);
    { auto in = pipeline.reader(); }
    EXPECT_EQ(error_of([&] { out.finish(10); }), EPIPE);
  }
  {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    auto out = pipeline.writer();
    write_words(out.data(), 0, 10);
    out.finish(10);
    { auto in = pipeline.reader(); }
  }
}

TEST(PipelineTest, CancelWakesAWriterThatWaits) {
  Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
  Failure failure;
  std::thread producer([&, out = pipeline.writer()]() mutable {
    failure = guarded([&] { write_words(out.data(), 0, 100 * kWords); });
  });
  auto in = pipeline.reader();
  wait_for_sleep(pipeline);
  pipeline.cancel(ETIME, "took too long");
  producer.join();
  EXPECT_TRUE(fails(failure, ETIME, "took too long"));
  EXPECT_EQ(guarded([&] { first_wrong(in.data(), 0, kWords); }).error, ETIME);
  EXPECT_EQ(error_of([&] { in.wait_size(); }), ETIME);
}

TEST(PipelineTest, CancelWakesAReaderThatWaits) {
  Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
  auto out = pipeline.writer();
  Failure failure;
  std::atomic<int> wait_error{0};
  std::thread consumer([&, in = pipeline.reader()]() mutable {
    failure = guarded([&] { first_wrong(in.data(), 0, kWords); });
    wait_error = error_of([&] { in.wait_size(); });
  });
  wait_for_sleep(pipeline);
  pipeline.cancel();
  consumer.join();
  EXPECT_EQ(failure.error, ECANCELED) << failure.message();
  EXPECT_EQ(wait_error, ECANCELED);
  EXPECT_EQ(guarded([&] { write_words(out.data(), 0, kWords); }).error, ECANCELED);
}

TEST(PipelineTest, TheFirstCancelStays) {
  Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
  auto out = pipeline.writer();
  pipeline.cancel(ETIME, "took too long");
  pipeline.cancel(EIO, "something else");
  const Failure failure = guarded([&] { write_words(out.data(), 0, 1); });
  EXPECT_TRUE(fails(failure, ETIME, "took too long"));
}

TEST(PipelineTest, OneEndAloneIsCancelledWhereItWaits) {
  {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    auto out = pipeline.writer();
    Failure failure;
    std::thread producer(
        [&] { failure = guarded([&] { write_words(out.data(), 0, 100 * kWords); }); });
    wait_for_sleep(pipeline);
    out.stream().cancel(ETIME, "the producer took too long");
    producer.join();
    EXPECT_EQ(failure.error, ETIME) << failure.message();
  }
  {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    auto in = pipeline.reader();
    Failure failure;
    std::thread consumer([&] { failure = guarded([&] { first_wrong(in.data(), 0, 1); }); });
    wait_for_sleep(pipeline);
    in.stream().cancel(ETIME, "the consumer took too long");
    consumer.join();
    EXPECT_EQ(failure.error, ETIME) << failure.message();
  }
}

TEST(PipelineTest, TouchesOutsideTheWindowsAreErrorsThatPrintThem) {
  Pipeline<std::uint64_t> pipeline(small(6, 1, 1));
  auto out = pipeline.writer();
  write_words(out.data(), 0, 4 * kWords);
  const Failure behind = guarded([&] { out.data()[kWords] = 1; });
  EXPECT_EQ(behind.error, EFAULT);
  EXPECT_EQ(behind.window_begin, 2u);
  EXPECT_EQ(behind.window_end, 4u);
  EXPECT_NE(behind.message().find("window of blocks [2, 4)"), std::string::npos)
      << behind.message();

  auto in = pipeline.reader();
  EXPECT_EQ(first_wrong(in.data(), 0, 2 * kWords), 2 * kWords);
  const Failure written = guarded([&] { const_cast<std::uint64_t*>(in.data())[4 * kWords] = 1; });
  EXPECT_EQ(written.error, EACCES) << written.message();
}

TEST(PipelineTest, AReadBehindTheWindowIsAnError) {
  Pipeline<std::uint64_t> pipeline(small(6, 0, 1));
  auto out = pipeline.writer();
  write_words(out.data(), 0, 4 * kWords + 1);
  auto in = pipeline.reader();
  EXPECT_EQ(first_wrong(in.data(), 0, 4 * kWords), 4 * kWords);
  std::uint64_t word = 0;
  EXPECT_EQ(guarded([&] { word = in.data()[2 * kWords]; }).error, 0);
  EXPECT_EQ(word, word_at(2 * kWords));
  const Failure failure = guarded([&] { word = in.data()[kWords]; });
  EXPECT_EQ(failure.error, EFAULT);
  EXPECT_EQ(failure.window_begin, 2u);
  EXPECT_EQ(failure.window_end, 4u);
}

// The header's promises about stale blocks: so many stay readable, they go in one batch, and blocks
// that are not behind the window behave as always.
TEST(PipelineTest, StaleBlocksAreReadableUntilTheyAreVacatedTogether) {
  constexpr std::uint64_t kBlocks = 40;
  PipelineOptions options = by(Way::kStaleAliases, small(2, 0, 0));
  Pipeline<std::uint64_t> pipeline(options);
  auto out = pipeline.writer();
  auto in = pipeline.reader();
  // Every stream is exact under a sanitizer.
  const std::size_t stale = test::kShadowMemory ? 0 : options.stale_blocks;
  std::size_t most = 0;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    write_words(out.data(), block * kWords, (block + 1) * kWords);
    if (block == 0) continue;
    EXPECT_EQ(first_wrong(in.data(), (block - 1) * kWords, block * kWords), block * kWords);
    // Which of those below the reader's block can still be reached, as system calls see it.
    std::size_t readable = 0;
    for (std::uint64_t below = 0; below + 1 < block; ++below) {
      const bool reached = test::readable(in.data() + below * kWords);
      EXPECT_FALSE(reached && below + 1 + stale < block) << "further behind than promised";
      readable += reached;
    }
    EXPECT_LE(readable, stale);
    most = std::max(most, readable);
  }
  EXPECT_EQ(most, stale);
  out.finish(kBlocks * kWords);
  EXPECT_FALSE(test::readable(out.data() + (kBlocks - 1) * kWords)) << "after finish()";
}

TEST(PipelineTest, AReaderOfAliasesMayNotWrite) {
  Pipeline<std::uint64_t> pipeline(by(Way::kAliases, small(2, 0, 1)));
  auto out = pipeline.writer();
  write_words(out.data(), 0, 2 * kWords);
  auto in = pipeline.reader();
  EXPECT_EQ(first_wrong(in.data(), 0, kWords), kWords);
  const Failure failure = guarded([&] { const_cast<std::uint64_t*>(in.data())[1] = 7; });
  EXPECT_EQ(failure.error, EACCES) << failure.message();
}

// The home is there for requests and system calls whatever becomes of the window.
TEST(PipelineTest, TheHomeOfAPlacedByteOutlivesTheWindow) {
  for (const Way way : kAllWays) {
    Pipeline<std::uint64_t> pipeline(by(way, small(3, 0, 0)));
    auto out = pipeline.writer();
    write_words(out.data(), 0, kWords);
    const std::uint64_t* const word = out.data() + 17;
    const std::byte* const home = out.stream().home_of(word);
    ASSERT_NE(home, nullptr);
    EXPECT_EQ(std::memcmp(home, word, sizeof *word), 0);
    EXPECT_EQ(out.stream().home_of(word + kWords), nullptr) << "never placed";
    EXPECT_EQ(out.stream().home_of(&way), nullptr) << "not of the stream";
    const bool aliases = way == Way::kAliases || way == Way::kStaleAliases;
    EXPECT_EQ(home != reinterpret_cast<const std::byte*>(word), aliases);
    write_words(out.data(), kWords, 2 * kWords);
    EXPECT_EQ(out.stream().home_of(word), nullptr) << "handed over";
    if (aliases) {
      EXPECT_TRUE(test::readable(home));
    }
  }
}

TEST(PipelineTest, AWriterMayNotLeaveBlocksOut) {
  Pipeline<std::uint64_t> pipeline(small(6, 1, 1));
  auto out = pipeline.writer();
  out.data()[0] = 1;
  EXPECT_EQ(guarded([&] { out.data()[3 * kWords] = 1; }).error, EINVAL);
}

TEST(PipelineTest, SystemCallsWorkOnPrefaultedRanges) {
  Pipeline<char> pipeline(small(3, 2, 2));
  auto out = pipeline.writer();
  auto in = pipeline.reader();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text(kB + 200, 'x');
  out.stream().prefault(100, text.size());
  std::size_t moved = 0;
  while (moved < text.size()) {
    const std::size_t piece = std::min<std::size_t>(text.size() - moved, 4096);
    ASSERT_EQ(write(ends[1], text.data() + moved, piece), static_cast<ssize_t>(piece));
    ASSERT_EQ(read(ends[0], out.data() + 100 + moved, piece), static_cast<ssize_t>(piece));
    moved += piece;
  }
  out.finish(100 + text.size());
  in.stream().prefault(kB - 300, 400);
  ASSERT_EQ(write(ends[1], in.data() + kB - 300, 400), 400);
  EXPECT_EQ(std::string(in.data() + 100, text.size()), text);
  close(ends[0]);
  close(ends[1]);
}

TEST(PipelineTest, FiltersChain) {
  constexpr std::uint64_t kCount = 50 * kWords + 17;
  constexpr int kFilters = 3;
  std::vector<std::unique_ptr<Pipeline<std::uint64_t>>> pipelines;
  for (int i = 0; i <= kFilters; ++i) {
    pipelines.push_back(std::make_unique<Pipeline<std::uint64_t>>(small(i % 3, i % 2, 1)));
  }
  std::vector<std::thread> threads;
  threads.push_back(write_all(pipelines[0]->writer(), kCount));
  for (int i = 0; i < kFilters; ++i) {
    threads.emplace_back([in = pipelines[i]->reader(), out = pipelines[i + 1]->writer()]() mutable {
      const std::uint64_t* from = in.data();
      std::uint64_t* to = out.data();
      std::uint64_t count = 0;
      // A word is never zero, the terminator is.
      for (; from[count] != 0; ++count) to[count] = from[count] + 1;
      out.finish(count);
    });
  }
  auto in = pipelines[kFilters]->reader();
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) wrong += in.data()[i] != word_at(i) + kFilters;
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(in.wait_size(), kCount);
  for (std::thread& thread : threads) thread.join();
}

TEST(PipelineTest, AnErrorTravelsDownAChain) {
  // Room for all of it, because one thread is at both ends of the chain.
  Pipeline<std::uint64_t> first(small(8, 0, 0));
  Pipeline<std::uint64_t> second(small(8, 0, 0));
  std::thread filter([in = first.reader(), out = second.writer()]() mutable {
    const Failure failure = guarded([&] {
      for (std::uint64_t i = 0;; ++i) out.data()[i] = in.data()[i];
    });
    out.fail(failure.error, failure.cause.view());
  });
  {
    auto out = first.writer();
    write_words(out.data(), 0, 5 * kWords + 1);
    out.fail(EIO, "the disk is broken");
  }
  auto in = second.reader();
  std::uint64_t right = 0;
  const Failure failure = guarded([&] { right = first_wrong(in.data(), 0, 6 * kWords); });
  EXPECT_TRUE(fails(failure, EIO, "the disk is broken"));
  filter.join();
}

TEST(PipelineTest, ManyPipelinesShareAPool) {
  constexpr std::size_t kPipelines = 12;
  constexpr std::uint64_t kCount = 40 * kWords + 5;
  auto pool = std::make_shared<BlockPool>(
      BlockPoolOptions{.pool_bytes = kPipelines * 4 * kB, .block_bytes = kB});
  std::atomic<int> right{0};
  test::run_together(kPipelines, [&](std::size_t) {
    PipelineOptions options = small(1, 1, 1);
    options.pool = pool;
    Pipeline<std::uint64_t> pipeline(options);
    std::thread producer = write_all(pipeline.writer(), kCount);
    auto in = pipeline.reader();
    right += first_wrong(in.data(), 0, kCount) == kCount;
    producer.join();
  });
  EXPECT_EQ(right, static_cast<int>(kPipelines));
  EXPECT_EQ(pool->statistics().blocks_in_use, 0u);
  PipelineOptions greedy = small(kPipelines * 4, 1, 1);
  greedy.pool = pool;
  EXPECT_EQ(error_of([&] { Pipeline<std::uint64_t> refused(greedy); }), ENOMEM);
}

TEST(PipelineTest, WaitingTakesNoProcessorTime) {
  Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
  auto out = pipeline.writer();
  std::thread consumer(
      [in = pipeline.reader()]() mutable { EXPECT_EQ(first_wrong(in.data(), 0, 10), 10u); });
  wait_for_sleep(pipeline);
  clockid_t clock;
  ASSERT_EQ(pthread_getcpuclockid(consumer.native_handle(), &clock), 0);
  const auto used = [&] {
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
  };
  // It counts itself as asleep just before it is. From then on its clock must stand still.
  std::int64_t last = used();
  int still = 0;
  for (int look = 0; look < 100000 && still < 1000; ++look) {
    std::this_thread::yield();
    const std::int64_t now = used();
    still = now == last ? still + 1 : 0;
    last = now;
  }
  EXPECT_EQ(still, 1000);
  write_words(out.data(), 0, 10);
  out.finish(10);
  consumer.join();
}

TEST(PipelineTest, EndsOutliveThePipelineObject) {
  auto make = [] {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    return std::pair(pipeline.writer(), pipeline.reader());
  };
  auto [out, in] = make();
  std::thread producer = write_all(std::move(out), 9 * kWords);
  EXPECT_EQ(first_wrong(in.data(), 0, 9 * kWords), 9 * kWords);
  producer.join();
}

TEST(PipelineTest, AnEndNobodyTookGoesWithThePipeline) {
  PipelineReader<std::uint64_t> in = [] {
    Pipeline<std::uint64_t> pipeline(small(2, 1, 1));
    return pipeline.reader();
  }();
  EXPECT_EQ(guarded([&] { first_wrong(in.data(), 0, 1); }).error, EPIPE);
}

}  // namespace

}  // namespace vortex::pipeline_test

// The promises of the streams, one by one; stream_model_test.cc has the random walks.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "tests/vortex/placing.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"
#include "vortex/output_stream.h"

namespace vortex::stream_test { namespace {

using test::contains;
using test::fails;
using test::MemorySink;
using test::MemorySource;
using test::message_of_error;
using test::sink_script;
using test::SinkScript;
using test::stream_into;
using test::stream_of_bytes;

constexpr std::size_t kB = std::size_t{16} << 10;

constexpr const char kThrowingAllocates[] =
    "throwing allocates, which the thread sanitizer reports inside any signal handler";

std::vector<std::byte> zeros(std::size_t bytes) { return std::vector<std::byte>(bytes); }

template <typename T>
T read_at(const T* p) {
  return *const_cast<const volatile T*>(p);
}

TEST(InputStream, AComebackLargerThanThePoolIsRefusedWithTheSizeThatWouldDo) {
  BlockPool pool(test::small_blocks(4));
  const std::string text = message_of_error([&] {
    (void)input_from_callback<int>(pool, [](auto block, auto) { return block.size(); },
                                   {.name = "wide", .comeback_blocks = 7});
  });
  EXPECT_TRUE(contains(text, "stream 'wide' needs at least 8 blocks"));
  EXPECT_TRUE(contains(text, "make the pool at least 128 KiB"));
  const std::string short_source = message_of_error([&] {
    InputStream<int> stream(std::make_unique<MemorySource>(pool, 2, std::vector<std::byte>(kB)),
                            {.name = "wide", .comeback_blocks = 2});
  });
  EXPECT_TRUE(
      contains(short_source, "a comeback of 2 blocks needs 3, and its source guarantees 2"));
}

TEST(InputStream, NoDataIsAStreamToo) {
  BlockPool pool(test::small_blocks(2));
  for (bool known : {true, false}) {
    auto script = std::make_shared<test::SourceScript>();
    script->length_known = known;
    auto stream = stream_of_bytes(pool, {}, {}, script);
    EXPECT_EQ(stream.size().has_value(), known);
    EXPECT_EQ(std::strlen(stream.data()), 0u);
    EXPECT_EQ(stream.size(), 0u);
    const Failure failure = guarded([&] { (void)read_at(stream.data() + os::page_bytes()); });
    EXPECT_TRUE(fails(failure, ERANGE, "past the end of the data, which are 0 bytes long"));
  }
}

TEST(InputStream, ASourceSetsItsFiller) {
  class Sevens final : public Source {
   public:
    explicit Sevens(BlockPool& pool) : quota_(pool, 1, 1, "sevens") {}
    BlockPool& pool() noexcept override { return quota_.pool(); }
    std::size_t blocks_for_stream() const noexcept override { return 1; }
    Taken take(std::uint64_t index, std::uint64_t) noexcept override {
      const Block block = quota_.try_take().block;
      return {block, std::min<std::size_t>(kB, 3 * kB - 100 - index * kB), {}};
    }
    void release(std::uint64_t, Block block) noexcept override { quota_.give_back(block); }
    std::optional<std::uint64_t> length() const noexcept override { return 3 * kB - 100; }
    void fill(std::byte* begin, std::byte* end, std::uint64_t offset) noexcept override {
      EXPECT_GE(offset, 3 * kB - 100);
      std::memset(begin, 7, static_cast<std::size_t>(end - begin));
    }

   private:
    BlockQuota quota_;
  };
  BlockPool pool(test::small_blocks(1));
  InputStream<char> stream(std::make_unique<Sevens>(pool), {.comeback_blocks = 0});
  for (std::size_t at = 3 * kB - 100; at < 3 * kB + os::page_bytes(); ++at) {
    ASSERT_EQ(read_at(stream.data() + at), 7) << at;
  }
}

TEST(InputStream, ThreadsThatShareAWindowReadTheSame) {
  constexpr std::size_t kBlocks = 400;
  BlockPool pool(test::small_blocks(8));
  auto stream = input_from_callback<std::uint64_t>(
      pool,
      [](std::span<std::byte> block, std::uint64_t offset) {
        auto* words = reinterpret_cast<std::uint64_t*>(block.data());
        for (std::size_t i = 0; i < block.size() / 8; ++i) words[i] = offset / 8 + i;
        return block.size();
      },
      {.comeback_blocks = 7}, kBlocks * kB);
  // Each thread reads one word of each block; they wait for each other every four blocks, so all
  // stay within the window.
  constexpr std::size_t kThreads = 4;
  test::SpinBarrier barrier(kThreads);
  std::atomic<int> wrong{0};
  test::run_together(kThreads, [&](std::size_t t) {
    for (std::size_t block = 0; block < kBlocks; ++block) {
      if (block % 4 == 0) barrier.arrive_and_wait();
      const std::size_t at = block * kB / 8 + t;
      if (read_at(stream.data() + at) != at) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.statistics().placements, kBlocks) << "every block was placed once";
}

TEST(InputStream, TheFunctionOfVortexAEndsTheDataOrFailsThem) {
  BlockPool pool(test::small_blocks(2));
  auto ends = input_from_callback<char>(pool, [](std::span<std::byte> block, std::uint64_t offset) {
    std::memset(block.data(), 'x', block.size());
    return offset == 2 * kB ? std::size_t{10} : block.size();
  });
  EXPECT_EQ(std::strlen(ends.data()), 2 * kB + 10);
  EXPECT_EQ(ends.length_bytes(), 2 * kB + 10);
}

// The whole of what it says, once, and the errno value that it carries.
TEST(Streams, AnErrorOfTheFunctionKeepsItsErrno) {
  if (test::kThreadSanitizer) GTEST_SKIP() << kThrowingAllocates;
  BlockPool pool(test::small_blocks(4));
  const std::string cause = "the tape '" + std::string(400, 't') + "' is full";
  auto in = input_from_callback<char>(
      pool, [&](auto, auto) -> std::size_t { throw Error(ENOSPC, cause); }, {.name = "in"});
  auto out = output_to_callback<char>(
      pool, [](auto, auto) { throw std::system_error(EBUSY, std::system_category()); },
      {.name = "out", .comeback_blocks = 0});
  const Failure read = guarded([&] { (void)read_at(in.data()); });
  EXPECT_EQ(read.error, ENOSPC);
  EXPECT_EQ(read.message(), "stream 'in': the function that fills the blocks failed: " + cause +
                                " (offset 0, block 0, window of blocks [0, 1)): "
                                "No space left on device");
  out.data()[0] = 'x';
  EXPECT_EQ(guarded([&] { out.data()[kB] = 'x'; }).error, EBUSY);
}

TEST(InputStream, AnExceptionInTheFunctionIsTheStreamsError) {
  if (test::kThreadSanitizer) GTEST_SKIP() << kThrowingAllocates;
  BlockPool pool(test::small_blocks(2));
  auto throws =
      input_from_callback<char>(pool, [](std::span<std::byte> block, std::uint64_t offset) {
        if (offset == kB) throw std::runtime_error("the tape is torn");
        return block.size();
      });
  (void)read_at(throws.data());
  const Failure failure = guarded([&] { (void)read_at(throws.data() + kB + 5); });
  EXPECT_EQ(failure.error, EIO);
  EXPECT_EQ(failure.offset, kB + 5);
  EXPECT_EQ(failure.block, 1u);
  EXPECT_TRUE(contains(failure.message(), "the tape is torn"));
  EXPECT_TRUE(contains(failure.message(), "window of blocks [0, 2)"));
  EXPECT_EQ(pool.statistics().blocks_in_use, 1u) << "the block of the failed call is free again";
}

TEST(InputStream, AFunctionThatFallsShortOfItsLengthIsAnError) {
  BlockPool pool(test::small_blocks(2));
  auto falls_short = input_from_callback<char>(
      pool, [](std::span<std::byte> block, std::uint64_t) { return block.size() / 2; }, {},
      10 * kB);
  EXPECT_TRUE(contains(guarded([&] { (void)read_at(falls_short.data()); }).message(),
                       "ended before the length it was given"));
}

TEST(InputStream, AFunctionThatReturnsMoreThanABlockIsAnError) {
  for (const std::optional<std::uint64_t> length : {std::optional<std::uint64_t>(), {kB / 2}}) {
    BlockPool pool(test::small_blocks(2));
    auto too_much = input_from_callback<char>(
        pool, [](std::span<std::byte> block, std::uint64_t) { return block.size() + 1; }, {},
        length);
    const Failure failure = guarded([&] { (void)read_at(too_much.data()); });
    EXPECT_TRUE(fails(failure, EIO, "wrote more than a block holds"));
    EXPECT_EQ(pool.statistics().blocks_in_use, 0u);
  }
}

TEST(InputStream, WritingOutsideTheWindowIsAnError) {
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, zeros(4 * kB));
  const Failure failure = guarded([&] { *const_cast<volatile char*>(stream.data()) = 1; });
#if defined(__x86_64__)
  EXPECT_EQ(failure.error, EACCES);
#else
  EXPECT_EQ(failure.error, 0);
#endif
}

TEST(InputStream, APlacedBlockMadeInaccessibleDoesNotFaultForEver) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, zeros(4 * kB));
  (void)read_at(stream.data());
  ASSERT_EQ(mprotect(const_cast<char*>(stream.data()), kB, PROT_NONE), 0);
  const Failure failure = guarded([&] { (void)read_at(stream.data()); });
  EXPECT_TRUE(fails(failure, EFAULT, "change its protection"));
  ASSERT_EQ(mprotect(const_cast<char*>(stream.data()), kB, PROT_READ | PROT_WRITE), 0);
}

TEST(InputStream, PrefaultSaysWhatItCannotPlace) {
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, zeros(4 * kB), {.name = "in"});
  EXPECT_TRUE(contains(message_of_error([&] { stream.prefault(0, 2 * kB + 1); }),
                       "spans 3 blocks, and the window holds 2"));
  EXPECT_TRUE(
      contains(message_of_error([&] { stream.prefault(4 * kB - 1, 2); }), "the data end at 65536"));
  stream.prefault(3 * kB, kB);
  EXPECT_TRUE(contains(message_of_error([&] { stream.prefault(0, 1); }),
                       "the window has moved on to block 2"));
  EXPECT_FALSE(stream.failure()) << "a refused request is no error of the stream";
}

int refuse_moves(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kMove ? ENOMEM : 0;
}
int refuse_vacates(os::MemoryCall call) noexcept {
  return call == os::MemoryCall::kVacate ? ENOMEM : 0;
}

TEST(InputStream, ARefusedMoveIsTheStreamsErrorAndLosesNoBlock) {
  const test::FaultsBy signals(test::signal_engine());
  for (os::FailureHook hook : {&refuse_moves, &refuse_vacates}) {
    BlockPool pool(test::small_blocks(1));
    {
      auto stream = stream_of_bytes(pool, zeros(4 * kB), {.comeback_blocks = 0});
      (void)read_at(stream.data());
      os::set_failure_hook(hook);
      const Failure failure = guarded([&] { (void)read_at(stream.data() + kB); });
      os::set_failure_hook(nullptr);
      EXPECT_TRUE(fails(failure, ENOMEM, "vm.max_map_count"));
    }
    EXPECT_EQ(pool.statistics().blocks_in_use, 0u);
  }
}

// A stream that ends while the kernel refuses to move its blocks.
template <typename Use>
void expect_lost_blocks(std::size_t count, Use use) {
  BlockPool pool(test::small_blocks(3));
  {
    const BlockQuota other(pool, 0, 1, "somebody else");
    use(pool);
    os::set_failure_hook(nullptr);
    EXPECT_EQ(pool.statistics().blocks_lost, count);
    EXPECT_EQ(pool.statistics().blocks_in_use, count);
    EXPECT_EQ(pool.statistics().blocks_guaranteed, 0u);
  }
  // Lost blocks are promised to nobody, and other streams go on.
  EXPECT_TRUE(contains(message_of_error([&] { BlockQuota all(pool, 4 - count, 3, "all"); }),
                       "of which others hold or are guaranteed " + std::to_string(count)));
  std::vector<std::byte> data(2 * kB, std::byte{7});
  InputStream<std::byte> after(std::make_unique<MemorySource>(pool, 3 - count, data),
                               {.comeback_blocks = 0});
  EXPECT_EQ(read_at(after.data() + kB), std::byte{7});
}

TEST(InputStream, BlocksThatCannotComeHomeAreGivenUp) {
  const test::FaultsBy signals(test::signal_engine());
  for (os::FailureHook hook : {&refuse_moves, &refuse_vacates}) {
    expect_lost_blocks(1, [hook](BlockPool& pool) {
      InputStream<char> stream(
          std::make_unique<MemorySource>(pool, 2, std::vector<std::byte>(4 * kB)),
          {.comeback_blocks = 0});
      (void)read_at(stream.data());
      os::set_failure_hook(hook);
      EXPECT_EQ(guarded([&] { (void)read_at(stream.data() + kB); }).error, ENOMEM);
    });
  }
}

TEST(OutputStream, BlocksThatCannotComeHomeAreGivenUp) {
  expect_lost_blocks(2, [](BlockPool& pool) {
    auto script = sink_script(4 * kB);
    {
      auto stream = stream_into(pool, script);
      stream.data()[0] = 'a';
      stream.data()[kB] = 'b';
      os::set_failure_hook(&refuse_moves);
      EXPECT_EQ(guarded([&] { stream.data()[2 * kB] = 'c'; }).error, ENOMEM);
      EXPECT_THROW(stream.finish(3 * kB), Error);
    }
    EXPECT_TRUE(script->abandoned);
    EXPECT_EQ(script->discarded, 2u);
  });
}

TEST(OutputStream, WritesAreHandedOverInOrder) {
  BlockPool pool(test::small_blocks(3));
  auto script = sink_script(8 * kB);
  auto stream = stream_into<std::uint32_t>(pool, script, {.comeback_blocks = 2});
  const std::size_t count = 7 * kB / 4 + 3;
  for (std::size_t i = 0; i < count; ++i) stream.data()[i] = static_cast<std::uint32_t>(i * 3);
  EXPECT_EQ(script->completed, 5u) << "the window of three blocks is still here";
  stream.finish(count);
  EXPECT_EQ(script->completed_bytes, count * 4);
  EXPECT_TRUE(script->in_order);
  const auto* words = reinterpret_cast<const std::uint32_t*>(script->data.data());
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(words[i], i * 3);
}

TEST(OutputStream, FinishChecksItsLength) {
  BlockPool pool(test::small_blocks(1));
  auto script = sink_script(8 * kB);
  auto stream =
      stream_into(pool, script, {.name = "out", .comeback_blocks = 0, .reserve_bytes = 8 * kB});
  stream.data()[0] = 'a';
  stream.data()[kB] = 'b';
  EXPECT_TRUE(contains(message_of_error([&] { stream.finish(kB - 1); }),
                       "16384 bytes have been handed over"));
  EXPECT_TRUE(contains(message_of_error([&] { stream.finish(9 * kB); }),
                       "beyond the 131072 that were reserved"));
  stream.finish(kB + 1);
  EXPECT_TRUE(contains(message_of_error([&] { stream.finish(kB + 1); }), "finished already"));
  EXPECT_TRUE(
      contains(guarded([&] { stream.data()[kB] = 'c'; }).message(), "touched after finish()"));
}

// Writes here and there, in each block somewhere, into blocks that have been used before.
template <typename Write>
std::vector<std::byte> write_with_gaps(std::size_t blocks, Write write) {
  std::mt19937_64 random = test::test_random();
  std::vector<std::byte> expected(blocks * kB);
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t begin = block * kB;
    // All of it, its first byte, its last byte, or some.
    const std::uint64_t kind = block < blocks / 2 ? 0 : random() % 4;
    const std::size_t count = kind == 0 ? kB : kind < 3 ? 1 : 1 + random() % 20;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = kind == 0 ? i : kind == 1 ? 0 : kind == 2 ? kB - 1 : random() % kB;
      expected[begin + at] = static_cast<std::byte>(1 + random() % 255);
      write(begin + at, expected[begin + at]);
    }
  }
  return expected;
}

TEST(OutputStream, WhatAWriterLeavesOutIsZeros) {
  BlockPool pool(test::small_blocks(4));
  auto script = sink_script(40 * kB);
  auto memory = stream_into<std::byte>(pool, script);
  std::vector<std::byte> drained(40 * kB);
  auto callback = output_to_callback<std::byte>(
      pool, [&](std::span<const std::byte> block, std::uint64_t offset) {
        std::memcpy(drained.data() + offset, block.data(), block.size());
      });
  for (OutputStream<std::byte>* stream : {&memory, &callback}) {
    const auto expected =
        write_with_gaps(40, [&](std::size_t at, std::byte value) { stream->data()[at] = value; });
    stream->finish(40 * kB);
    EXPECT_TRUE((stream == &memory ? script->data : drained) == expected);
  }
}

TEST(OutputStream, EndsWhereItsReservationDoes) {
  BlockPool pool(test::small_blocks(1));
  auto script = sink_script(8 * kB);
  auto stream = stream_into(pool, script, {.comeback_blocks = 0, .reserve_bytes = 2 * kB + 4096});
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < 3 * kB; i += 64) stream.data()[i] = 'x';
  });
  EXPECT_TRUE(fails(failure, ENOSPC, "raise reserve_bytes"));
  EXPECT_EQ(failure.offset, 2 * kB);
}

// Whole blocks, so that the first touch beyond them lies behind the reservation; two of them, which
// the system likes to put side by side.
TEST(OutputStream, EndsWhereAReservationOfWholeBlocksDoes) {
  constexpr std::size_t kWhole = kReservationAlignment;
  BlockPool pool(test::small_blocks(2));
  std::vector<std::unique_ptr<OutputStream<char>>> streams;
  for (int i = 0; i < 2; ++i) {
    streams.emplace_back(new auto(
        stream_into(pool, sink_script(kB), {.comeback_blocks = 0, .reserve_bytes = kWhole})));
  }
  for (const auto& stream : streams) {
    const Failure failure =
        guarded([&] { *static_cast<volatile char*>(stream->data() + kWhole) = 'x'; });
    EXPECT_TRUE(fails(failure, ENOSPC, "raise reserve_bytes"));
    EXPECT_EQ(failure.offset, kWhole);
  }
}

// 1 TiB is no multiple of this block: the last one would reach over the end.
TEST(InputStream, NoBlockReachesOverTheEndOfTheReservation) {
  constexpr std::size_t kOdd = 3 * kB;
  BlockPool pool({.pool_bytes = 2 * kOdd, .block_bytes = kOdd});
  auto stream = input_from_callback<char>(
      pool, [](std::span<std::byte> block, std::uint64_t) { return block.size(); });
  const std::uint64_t reserved = stream.reserved_bytes();
  ASSERT_NE(reserved % kOdd, 0u);
  const std::uint64_t whole = reserved / kOdd * kOdd;
  EXPECT_EQ(guarded([&] { (void)read_at(stream.data() + whole - 1); }).error, 0);
  for (const std::uint64_t offset : {whole, reserved - 1, reserved}) {
    const Failure failure = guarded([&] { (void)read_at(stream.data() + offset); });
    EXPECT_TRUE(fails(failure, ENOSPC, "raise reserve_bytes")) << offset;
  }
}

TEST(InputStream, DataThatGoOnBehindTheReservationEndThere) {
  BlockPool pool(test::small_blocks(2));
  for (const std::uint64_t offset : {3 * kB, 5 * kB - 1, 5 * kB}) {
    auto stream = stream_of_bytes(pool, zeros(5 * kB), {.reserve_bytes = 3 * kB});
    const Failure failure = guarded([&] { (void)read_at(stream.data() + offset); });
    EXPECT_TRUE(fails(failure, ENOSPC, "raise reserve_bytes")) << offset;
  }
}

TEST(InputStream, FarBehindTheDataIsPastTheirEnd) {
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, zeros(10));
  const Failure failure = guarded([&] { (void)read_at(stream.data() + stream.reserved_bytes()); });
  EXPECT_TRUE(fails(failure, ERANGE, "10 bytes long"));
}

TEST(OutputStream, ReadingWhatWasNeverWrittenIsAnError) {
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_into(pool, sink_script(0));
  const Failure failure = guarded([&] { (void)read_at(stream.data()); });
#if defined(__x86_64__)
  EXPECT_TRUE(fails(failure, EFAULT, "never written"));
#else
  EXPECT_EQ(failure.error, 0);
#endif
}

// Another thread cancels when the last block has been handed over, and the sink has not been asked
// to end.
TEST(OutputStream, CancelledAtItsEndTheSinkKnows) {
  BlockPool pool(test::small_blocks(2));
  auto script = sink_script(4 * kB);
  script->call_at = 1;
  {
    auto stream = stream_into(pool, script);
    script->called = [&] { stream.cancel(ECANCELED, "at the end"); };
    stream.data()[0] = 'a';
    stream.data()[kB] = 'b';
    EXPECT_EQ(test::error_of([&] { stream.finish(2 * kB); }), ECANCELED);
  }
  EXPECT_TRUE(script->abandoned);
  EXPECT_EQ(script->finished_at, test::SinkScript::kNever);
}

TEST(OutputStream, WithoutFinishTheSinkKnows) {
  BlockPool pool(test::small_blocks(2));
  auto script = sink_script(4 * kB);
  {
    auto stream = stream_into(pool, script);
    stream.data()[0] = 'a';
  }
  EXPECT_TRUE(script->abandoned);
  EXPECT_EQ(script->completed, 0u);
  EXPECT_EQ(script->discarded, 1u);
}

TEST(OutputStream, TheFunctionOfVortexAGetsEveryByteOnce) {
  BlockPool pool(test::small_blocks(2));
  std::vector<std::byte> got;
  got.reserve(10 * kB);
  auto stream =
      output_to_callback<char>(pool, [&](std::span<const std::byte> block, std::uint64_t offset) {
        EXPECT_EQ(offset, got.size());
        got.insert(got.end(), block.begin(), block.end());
      });
  const std::size_t length = 5 * kB + 123;
  for (std::size_t i = 0; i < length; ++i) stream.data()[i] = static_cast<char>(i % 251);
  stream.finish(length);
  ASSERT_EQ(got.size(), length);
  for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(got[i], static_cast<std::byte>(i % 251));
}

TEST(OutputStream, AnExceptionInTheFunctionIsTheStreamsError) {
  if (test::kThreadSanitizer) GTEST_SKIP() << kThrowingAllocates;
  BlockPool pool(test::small_blocks(1));
  auto stream = output_to_callback<char>(
      pool, [](std::span<const std::byte>, std::uint64_t) { throw std::runtime_error("no paper"); },
      {.comeback_blocks = 0});
  stream.data()[0] = 'a';
  EXPECT_TRUE(contains(guarded([&] { stream.data()[kB] = 'b'; }).message(), "no paper"));
  EXPECT_TRUE(contains(message_of_error([&] { stream.finish(kB); }), "no paper"));
}

TEST(StreamDeathTest, AForkedChildIsToldThatItHasNoStreams) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(2));
  auto stream = stream_of_bytes(pool, zeros(4 * kB));
  (void)read_at(stream.data());
  // This style forks; the child runs the statement.
  testing::FLAGS_gtest_death_test_style = "fast";
  EXPECT_DEATH((void)read_at(stream.data()), "does not inherit streams");
  EXPECT_DEATH((void)read_at(stream.data() + kB), "does not inherit streams");
}

TEST(Stream, AForkedChildMayUseStreamsOfItsOwnAndEnd) {
  BlockPoolOptions options = test::small_blocks(2);
  // The sanitizer takes the thread that warms the pool, which the child cannot join, for a leak.
  if (test::kThreadSanitizer) options.warming = Warming::kEager;
  auto pool = std::make_unique<BlockPool>(options);
  std::unique_ptr<InputStream<char>> stream(
      new auto(stream_of_bytes(*pool, std::vector<std::byte>(4 * kB, std::byte{'p'}))));
  EXPECT_EQ(read_at(stream->data()), 'p');
  // It does not know that a forked child has no other threads.
  if (test::kThreadSanitizer) pool->wait_until_warm();
  EXPECT_EQ(test::in_child([&] {
              {
                BlockPool own_pool(test::small_blocks(2));
                auto own =
                    stream_of_bytes(own_pool, std::vector<std::byte>(4 * kB, std::byte{'c'}));
                for (std::size_t at = 0; at < 4 * kB; at += 1000) {
                  if (read_at(own.data() + at) != 'c') return 1;
                }
              }
              stream.reset();
              pool.reset();
              return 0;
            }),
            0);
  for (std::size_t at = 0; at < 4 * kB; at += 1000) EXPECT_EQ(read_at(stream->data() + at), 'p');
}

// The function never returned, and has its block still.
TEST(Stream, AForkedChildLeavesThePoolAlone) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(4));
  if (test::kThreadSanitizer) pool.wait_until_warm();
  auto inner = stream_of_bytes(pool, zeros(4 * kB), {}, test::failing_at(0));
  std::unique_ptr<InputStream<char>> outer(new auto(input_from_callback<char>(
      pool,
      [&](std::span<std::byte> block, std::uint64_t) {
        (void)read_at(inner.data());
        return block.size();
      },
      {}, 4 * kB)));
  EXPECT_EQ(guarded([&] { (void)read_at(outer->data()); }).error, EIO);
  const std::size_t held = pool.statistics().blocks_in_use;
  test::expect_in_child([&] {
    outer.reset();
    return pool.statistics().blocks_in_use == held ? 0 : 1;
  });
}

// Maps a block, or returns MAP_FAILED with EEXIST where something is mapped.
char* map_if_free(char* place, int protection = PROT_READ) {
  return static_cast<char*>(
      mmap(place, kB, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
}
bool is_taken(char* place) { return map_if_free(place) == MAP_FAILED && errno == EEXIST; }

// Or a touch of the stream would find the child's own.
TEST(Stream, MapsOfAForkedChildLieElsewhere) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(4));
  if (test::kThreadSanitizer) pool.wait_until_warm();
  auto stream = stream_of_bytes(pool, zeros(4 * kB));
  for (std::size_t at = 0; at < 4 * kB; at += kB) EXPECT_EQ(read_at(stream.data() + at), 0);
  auto* const begin = const_cast<char*>(stream.data());
  test::expect_in_child([&] {
    for (std::size_t block = 0; block < 4; ++block) {
      if (!is_taken(begin + block * kB)) return 1;
    }
    // Nor does one of a grandchild's.
    return test::in_child([&] { return is_taken(begin + 3 * kB) ? 0 : 1; });
  });
}

// A library that was there before streams were may map memory of its own in the child before
// their handler runs, as the thread sanitizer does for a thread.
std::atomic<char*> mapped_by_handler{nullptr};  // where its handler maps a block, if anywhere
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, [] {
  char* const place = mapped_by_handler.load();
  if (place == nullptr) return;
  mapped_by_handler = map_if_free(place, PROT_READ | PROT_WRITE);
  *mapped_by_handler.load() = 'h';
});

TEST(Stream, MapsOfHandlersOfForksStayInTheChild) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(8));
  if (test::kThreadSanitizer) pool.wait_until_warm();
  auto stream = stream_of_bytes(pool, zeros(8 * kB));
  for (std::size_t at = 0; at < 8 * kB; at += kB) EXPECT_EQ(read_at(stream.data() + at), 0);
  // The window has the last two blocks.
  auto* const begin = const_cast<char*>(stream.data());
  mapped_by_handler = begin + 6 * kB;
  test::expect_in_child([&] {
    if (mapped_by_handler != begin + 6 * kB || *mapped_by_handler.load() != 'h') return 1;
    // The rest is reserved around it.
    for (std::size_t block = 0; block < 8; ++block) {
      if (!is_taken(begin + block * kB)) return 2;
    }
    return 0;
  });
  mapped_by_handler = nullptr;
}

// Reservations of a terabyte and blocks in use must not make a core dump that never ends.
TEST(StreamDeathTest, CoreDumpsLeaveStreamsOut) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is in its core dumps";
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (pattern != "core") {
    GTEST_SKIP() << "kernel.core_pattern is '" << pattern
                 << "': the kernel writes no core file here";
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("vortex-core-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit unlimited{std::size_t{1} << 30, std::size_t{1} << 30};
    if (chdir(folder.c_str()) != 0 || setrlimit(RLIMIT_CORE, &unlimited) != 0) _exit(1);
    BlockPool pool({.pool_bytes = std::size_t{256} << 20, .warming = Warming::kEager});
    auto stream = input_from_callback<char>(
        pool, [](auto block, auto) { return block.size(); }, {}, std::uint64_t{1} << 39);
    (void)read_at(stream.data());
    std::abort();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  std::uintmax_t core_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    core_bytes += std::min<std::uintmax_t>(entry.file_size(), std::uintmax_t{1} << 40);
  }
  std::filesystem::remove_all(folder);
  if (!WCOREDUMP(status))
    GTEST_SKIP() << "the kernel wrote no core file (its limit or file system)";
  EXPECT_GT(core_bytes, 0u);
  EXPECT_LT(core_bytes, std::uintmax_t{64} << 20) << "the pool alone is 256 MiB";
}

}  // namespace

}  // namespace vortex::stream_test

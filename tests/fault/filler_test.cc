// Touches that cannot be served, in programs that must not end: Stream::fill_on_failure().
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/fault/told_failures.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/thread/this_thread.h"

namespace vortex::test::filler_test { namespace {

constexpr std::size_t kBlockBytes = kMinBlockBytes;

template <typename EngineType>
class Filler : public EngineTest<EngineType> {};
TYPED_TEST_SUITE(Filler, AllEngines, EngineNames);

std::vector<char> read_all(const char* data, std::size_t bytes) {
  std::vector<char> seen(bytes);
  for (std::size_t at = 0; at < bytes; at += kBlockBytes) {
    for (std::size_t i = 0; i < std::min(kBlockBytes, bytes - at); ++i) seen[at + i] = data[at + i];
  }
  return seen;
}

// What reading `data` shows when block `failing` and all behind it cannot be had.
std::vector<char> zeros_from(std::vector<std::byte> data, std::size_t failing) {
  std::fill(data.begin() + static_cast<std::ptrdiff_t>(failing * kBlockBytes), data.end(),
            std::byte{0});
  const auto* const bytes = reinterpret_cast<const char*>(data.data());
  return {bytes, bytes + data.size()};
}

TYPED_TEST(Filler, ReadsAsZerosAndIsTold) {
  constexpr std::size_t kBlocks = 200;  // more than there are pieces
  const auto data = patterned_bytes(kBlocks * kBlockBytes);
  BlockPool pool(small_blocks(2));
  auto stream = stream_of_bytes(pool, data, {.name = "cut"}, failing_at(3, {EIO, "broken"}));
  ToldFailures told;
  stream.fill_on_failure(told.call());
  EXPECT_EQ(read_all(stream.data(), data.size()), zeros_from(data, 3));
  EXPECT_EQ(told.calls, static_cast<int>(kBlocks - 3));
  EXPECT_EQ(told.thread, current_thread_id());
  EXPECT_TRUE(fails(told.failure, EIO, "stream 'cut': broken"));
  EXPECT_EQ(told.failure.block, 3U);  // the first one stays
  EXPECT_EQ(stream.failure().message(), told.failure.message());
}

TYPED_TEST(Filler, StaysUntilItIsCleared) {
  const auto data = patterned_bytes(4 * kBlockBytes);
  BlockPool pool(small_blocks(2));
  auto stream = stream_of_bytes(pool, data, {}, failing_at(1));
  ToldFailures told;
  stream.fill_on_failure(told.call());
  const char* const broken = stream.data() + kBlockBytes;
  EXPECT_EQ(touch(stream.data()), static_cast<char>(byte_at(0)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(touch(broken + i), 0);
  EXPECT_EQ(told.calls, 1);
  stream.clear_filler();
  EXPECT_EQ(touch(broken), 0);
  EXPECT_EQ(told.calls, 2);
  stream.clear_filler();
  EXPECT_EQ(touch(stream.data()), static_cast<char>(byte_at(0)));
}

TYPED_TEST(Filler, GuardedTakesWhatHappensInIt) {
  BlockPool pool(small_blocks(2));
  auto stream = stream_of_bytes(pool, patterned_bytes(4 * kBlockBytes), {}, failing_at(1));
  ToldFailures told;
  stream.fill_on_failure(told.call());
  const char* const broken = stream.data() + kBlockBytes;
  EXPECT_EQ(guarded([&] { touch(broken); }).error, EIO);
  EXPECT_EQ(told.calls, 0);
  EXPECT_EQ(touch(broken), 0);
  EXPECT_EQ(told.calls, 1);
  stream.clear_filler();
  EXPECT_EQ(guarded([&] { touch(broken); }).error, EIO);
  EXPECT_EQ(told.calls, 1);
}

TYPED_TEST(Filler, StoresAreLostAndTheEndOfAWriterTells) {
  constexpr std::size_t kBlocks = 10;
  BlockPool pool(small_blocks(4));
  auto script = sink_script(kBlocks * kBlockBytes);
  script->fail_take_at = 3;
  script->failure = {ENOSPC, "full"};
  ToldFailures told;
  auto stream = stream_into(pool, script);
  stream.fill_on_failure(told.call());
  for (std::size_t i = 0; i < kBlocks; ++i) {
    auto* const at = static_cast<volatile char*>(stream.data() + i * kBlockBytes);
    *at = 1;
    if (i >= 3) {
      EXPECT_EQ(*at, 1);
    }
  }
  EXPECT_EQ(told.calls, static_cast<int>(kBlocks - 3));
  EXPECT_TRUE(fails(told.failure, ENOSPC, "full"));
  EXPECT_TRUE(fails([&] { stream.finish(kBlocks * kBlockBytes); }, ENOSPC, "full"));
}

TYPED_TEST(Filler, SeveralThreads) {
  const auto data = patterned_bytes(40 * kBlockBytes);
  BlockPool pool(small_blocks(42));
  auto stream = stream_of_bytes(pool, data, {.comeback_blocks = 40}, failing_at(8));
  ToldFailures told;
  stream.fill_on_failure(told.count());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        right += read_all(stream.data(), data.size()) == zeros_from(data, 8);
        if (round % 4 == 0) stream.clear_filler();
      }
      // No refusal is left over for a scope that nothing fails in.
      EXPECT_FALSE(guarded([&] { touch(stream.data()); }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_GE(told.calls, 32);
}

// Each on a page of its own, whichever of them was refused last.
TYPED_TEST(Filler, WhatOneThreadStoresOthersLeave) {
  constexpr std::size_t kBlocks = 200, kThreads = 3;
  static_assert(kThreads * 4096 <= kBlockBytes);
  BlockPool pool(small_blocks(4));
  auto script = sink_script(kBlocks * kBlockBytes);
  script->fail_take_at = 0;
  auto stream = stream_into(pool, script);
  stream.fill_on_failure({[](void*, const Failure&) noexcept {}, nullptr});
  SpinBarrier together(kThreads);
  std::atomic<int> kept{0};
  run_together(kThreads, [&](std::size_t thread) {
    for (std::size_t block = 0; block < kBlocks; ++block) {
      auto* const at =
          static_cast<volatile char*>(stream.data() + block * kBlockBytes + thread * 4096);
      together.arrive_and_wait();
      *at = 1;
      together.arrive_and_wait();
      kept += *at;
    }
  });
  EXPECT_EQ(kept, static_cast<int>(kThreads * kBlocks));
}

template <typename EngineType>
class FillerDeathTest : public EngineTest<EngineType> {
 protected:
  // Of a process that the signal has ended, which a sanitizer's handler has reported.
  static bool has_ended(int status) {
    if (kShadowMemory) return WIFEXITED(status) && WEXITSTATUS(status) != 0;
    return ::testing::KilledBySignal(FillerDeathTest::kSignal)(status);
  }
};
TYPED_TEST_SUITE(FillerDeathTest, AllEngines, EngineNames);

TYPED_TEST(FillerDeathTest, TheProcessEndsWhereNoDataAreTouched) {
  const auto touch_one = [](bool filled, const std::function<void(InputStream<char>&)>& body) {
    BlockPool pool(small_blocks(2));
    auto stream = stream_of_bytes(pool, patterned_bytes(10 * kBlockBytes), {}, failing_at(5));
    ToldFailures told;
    stream.fill_on_failure(told.call());
    if (!filled) stream.fill_on_failure({});
    body(stream);
  };
  const auto block = [](InputStream<char>& stream, std::size_t index) {
    touch(stream.data() + index * kBlockBytes);
  };
  EXPECT_EXIT(touch_one(false, [&](auto& stream) { block(stream, 5); }), TestFixture::has_ended,
              "the test says so");
  EXPECT_EXIT(touch_one(true, [&](auto& stream) { block(stream, 4), block(stream, 0); }),
              TestFixture::has_ended, "behind the window");
  EXPECT_EXIT(touch_one(true, [&](auto& stream) { block(stream, 11); }), TestFixture::has_ended,
              "past the end");
}

TYPED_TEST(FillerDeathTest, TheProcessEndsWhereAWriterIsWrong) {
  const auto write = [](const std::function<void(OutputStream<char>&)>& body) {
    BlockPool pool(small_blocks(2));
    auto stream = stream_into(pool, sink_script(10 * kBlockBytes),
                              {.comeback_blocks = 0, .reserve_bytes = 5 * kBlockBytes / 2});
    ToldFailures told;
    stream.fill_on_failure(told.call());
    body(stream);
  };
  const auto store = [](OutputStream<char>& stream, std::size_t at) {
    *static_cast<volatile char*>(stream.data() + at) = 1;
  };
  EXPECT_EXIT(write([&](auto& stream) { store(stream, 2 * kBlockBytes); }), TestFixture::has_ended,
              "raise reserve_bytes");
  EXPECT_EXIT(write([&](auto& stream) {
                store(stream, 0);
                stream.finish(1);
                store(stream, kBlockBytes);
              }),
              TestFixture::has_ended, "after finish");
  // Each of two that go on for ever would be an excuse for the other.
  EXPECT_EXIT(write([&](auto& stream) {
                store(stream, 0);
                store(stream, kBlockBytes);
                run_together(2, [&](std::size_t thread) { store(stream, thread * 4096); });
              }),
              TestFixture::has_ended, "behind the window");
}

// It would be taken for data.
TYPED_TEST(FillerDeathTest, TheProcessEndsInsideAFaultOfAnotherStream) {
  const auto touch_through_another = [] {
    BlockPool pool(small_blocks(4));
    auto broken = stream_of_bytes(pool, patterned_bytes(kBlockBytes), {}, failing_at(0));
    ToldFailures told;
    broken.fill_on_failure(told.call());
    auto reading = input_from_callback<char>(
        pool, [&](std::span<std::byte> to, std::uint64_t) -> std::ptrdiff_t {
          std::memcpy(to.data(), broken.data(), 1);
          return 1;
        });
    touch(reading.data());
  };
  EXPECT_EXIT(touch_through_another(), TestFixture::has_ended, "the test says so");
}

}}  // namespace vortex::test::filler_test

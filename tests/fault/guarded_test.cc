// Errors inside faults that come back from vortex::guarded().
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"
#include "vortex/thread/this_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/threads.h"
#include "tests/vortex/placing.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

namespace vortex::guarded_test { namespace {

using test::contains;
using test::SourceScript;
using test::touch;

constexpr std::size_t kBlockBytes = kMinBlockBytes;

std::unique_ptr<InputStream<char>> scripted_stream(BlockPool& pool, std::size_t block_count,
                                                   std::shared_ptr<SourceScript> script,
                                                   std::string name = "scripted") {
  return std::unique_ptr<InputStream<char>>(
      new auto(test::stream_of_bytes(pool, test::patterned_bytes(block_count * kBlockBytes),
                                     {.name = std::move(name)}, std::move(script))));
}

std::shared_ptr<SourceScript> failing_at(std::uint64_t block) {
  return test::failing_at(block, {EIO, "broken"});
}

// The first byte of each of the first `count` blocks.
void touch_blocks(const InputStream<char>& stream, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) touch(stream.data() + i * kBlockBytes);
}
void write_blocks(OutputStream<char>& stream, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    *static_cast<volatile char*>(stream.data() + i * kBlockBytes) = 1;
  }
}

TEST(Guarded, WithoutFailure) {
  BlockPool pool(test::small_blocks(2));
  auto stream = scripted_stream(pool, 10, std::make_shared<SourceScript>());
  bool ran = false;
  const Failure failure = guarded([&] {
    touch_blocks(*stream, 10);
    ran = true;
  });
  EXPECT_FALSE(failure);
  EXPECT_TRUE(ran);
  EXPECT_NO_THROW(failure.throw_if_failed());
}

TEST(Guarded, TheFailureIsReturnedWithAllItsParts) {
  BlockPool pool(test::small_blocks(2));
  auto stream = scripted_stream(pool, 10, failing_at(3));
  std::atomic<std::size_t> touched{0};
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < 10; ++i) {
      touch(stream->data() + i * kBlockBytes + 5);
      ++touched;
    }
  });
  EXPECT_EQ(touched, 3U);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure.error, EIO);
  EXPECT_EQ(failure.stream.view(), "scripted");
  EXPECT_EQ(failure.cause.view(), "broken");
  EXPECT_EQ(failure.block, 3U);
  EXPECT_EQ(failure.offset, 3 * kBlockBytes + 5);
  EXPECT_EQ(failure.window_begin, 2U);
  EXPECT_EQ(failure.window_end, 4U);
  EXPECT_EQ(failure.message(), stream->failure().message());
  try {
    failure.throw_if_failed();
    ADD_FAILURE() << "not thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO);
    EXPECT_STREQ(error.what(),
                 "stream 'scripted': broken (offset 49157, block 3, window of blocks [2, 4)): "
                 "Input/output error");
    EXPECT_EQ(failure.message(), error.what());
    EXPECT_EQ(failure.line().view(), "vortex: " + failure.message());
    EXPECT_EQ(std::string(error.message()) + ": Input/output error", error.what());
  }
}

TEST(Guarded, TheFirstFailureStays) {
  BlockPool pool(test::small_blocks(2));
  auto script = failing_at(3);
  auto stream = scripted_stream(pool, 10, script);
  const Failure first = guarded([&] { touch(stream->data() + 3 * kBlockBytes); });
  ASSERT_EQ(first.error, EIO);
  script->fail_at = SourceScript::kNever;
  for (const std::size_t block : {3, 4, 0, 9, 10}) {
    const Failure again = guarded([&] { touch(stream->data() + block * kBlockBytes); });
    EXPECT_EQ(again.message(), first.message());
  }
  EXPECT_EQ(script->taken, 0U);
  stream.reset();
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

TEST(Guarded, PlacedBlocksOutliveTheFailure) {
  BlockPool pool(test::small_blocks(2));
  auto stream = scripted_stream(pool, 10, failing_at(3));
  EXPECT_TRUE(guarded([&] { touch_blocks(*stream, 10); }));
  EXPECT_FALSE(guarded([&] {
    EXPECT_EQ(touch(stream->data() + 2 * kBlockBytes),
              static_cast<char>(test::byte_at(2 * kBlockBytes)));
  }));
}

TEST(Guarded, TheInnermostTakesTheFailure) {
  BlockPool pool(test::small_blocks(4));
  auto good = scripted_stream(pool, 4, std::make_shared<SourceScript>());
  auto bad = scripted_stream(pool, 4, failing_at(0));
  bool went_on = false;
  Failure inner;
  const Failure outer = guarded([&] {
    touch(good->data());
    inner = guarded([&] { touch(bad->data()); });
    touch(good->data() + kBlockBytes);
    went_on = true;
  });
  EXPECT_EQ(inner.error, EIO);
  EXPECT_FALSE(outer);
  EXPECT_TRUE(went_on);
  // And after the inner one has ended, the outer.
  const Failure again = guarded([&] {
    (void)guarded([&] { touch(good->data()); });
    touch(bad->data());
  });
  EXPECT_EQ(again.error, EIO);
}

TEST(Guarded, ExceptionsPassThrough) {
  BlockPool pool(test::small_blocks(2));
  auto bad = scripted_stream(pool, 4, failing_at(0));
  const Failure outer = guarded([&] {
    EXPECT_THROW((void)guarded([] { throw std::out_of_range("mine"); }), std::out_of_range);
    // The guard that the exception left is gone; this one takes over.
    touch(bad->data());
  });
  EXPECT_EQ(outer.error, EIO);
  EXPECT_EQ(thread_state().guard, nullptr);
  EXPECT_EQ(thread_state().serving, nullptr);
}

TEST(Guarded, ThousandFailuresLeaveNothingBehind) {
  BlockPool pool(test::small_blocks(2));
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  for (int i = 0; i < 1000; ++i) {
    auto stream = scripted_stream(pool, 4, failing_at(static_cast<std::uint64_t>(i % 3)));
    EXPECT_TRUE(guarded([&] { touch_blocks(*stream, 4); }));
  }
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
  EXPECT_EQ(thread_state().serving, nullptr);
  EXPECT_EQ(thread_state().guard, nullptr);
}

TEST(Guarded, EveryThreadHasItsOwn) {
  constexpr std::size_t kThreads = 4;
  BlockPool pool(test::small_blocks(2 * kThreads));
  std::atomic<int> right{0};
  test::run_together(kThreads, [&](std::size_t thread) {
    for (std::uint64_t round = 0; round < 100; ++round) {
      const std::uint64_t block = (round + thread) % 7;
      auto stream = scripted_stream(pool, 8, failing_at(block));
      const Failure failure = guarded([&] { touch_blocks(*stream, 8); });
      if (failure.block == block && failure.error == EIO) ++right;
    }
  });
  EXPECT_EQ(right, 400);
}

TEST(Guarded, FailuresOfSeveralThreadsOnOneStreamAreTheSame) {
  BlockPool pool(test::small_blocks(2));
  auto stream = scripted_stream(pool, 4, failing_at(0));
  std::atomic<int> right{0};
  test::run_together(4, [&](std::size_t) {
    const Failure failure = guarded([&] { touch(stream->data()); });
    if (failure.error == EIO && failure.block == 0) ++right;
  });
  EXPECT_EQ(right, 4);
}

TEST(Guarded, AnOutputStreamsSinkFails) {
  BlockPool pool(test::small_blocks(2));
  auto script = test::sink_script(10 * kBlockBytes);
  script->fail_complete_at = 2;
  {
    auto stream = test::stream_into(
        pool, script, {.name = "out", .reserve_bytes = 64 * kBlockBytes, .least_reserve_bytes = 1});
    const Failure failure = guarded([&] { write_blocks(stream, 10); });
    EXPECT_EQ(failure.error, EIO);
    EXPECT_EQ(failure.stream.view(), "out");
    EXPECT_EQ(failure.block, 4U);  // where block 2 fell out of the window
    EXPECT_EQ(script->completed, 2U);
    EXPECT_THROW(stream.finish(10 * kBlockBytes), Error);
  }
  EXPECT_TRUE(script->abandoned);
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

// A chain of streams, each computed by a callback that reads the next; the last one fails.
TEST(Guarded, OuterStreamsAreAbandonedWithTheirCause) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(8));
  {
    auto inner = scripted_stream(pool, 8, failing_at(1), "inner");
    const auto copy_of = [](const char* from) {
      return [from](std::span<std::byte> block, std::uint64_t offset) {
        std::memcpy(block.data(), from + offset, block.size());
        return block.size();
      };
    };
    const auto length = 8 * kBlockBytes;
    auto middle =
        input_from_callback<char>(pool, copy_of(inner->data()), {.name = "middle"}, length);
    auto outer = input_from_callback<char>(pool, copy_of(middle.data()), {.name = "outer"}, length);
    char first = 0;
    const Failure failure = guarded([&] {
      first = touch(outer.data());
      touch(outer.data() + kBlockBytes);
    });
    EXPECT_EQ(first, static_cast<char>(test::byte_at(0)));
    // The error is that of the stream where it happened.
    EXPECT_EQ(failure.stream.view(), "inner");
    EXPECT_EQ(failure.error, EIO);
    EXPECT_EQ(thread_state().serving, nullptr);
    for (const Stream* stream :
         {static_cast<const Stream*>(&middle), static_cast<const Stream*>(&outer)}) {
      EXPECT_EQ(stream->failure().error, EIO);
      EXPECT_TRUE(contains(stream->failure().message(), "'inner'"));
      EXPECT_TRUE(contains(stream->failure().message(), std::string(failure.cause.view())));
    }
    // Nobody waits for their locks, in this thread or another.
    std::thread([&] {
      EXPECT_TRUE(guarded([&] { touch(outer.data() + kBlockBytes); }));
      EXPECT_TRUE(guarded([&] { touch(middle.data() + kBlockBytes); }));
    }).join();
    EXPECT_TRUE(guarded([&] { touch(outer.data() + kBlockBytes); }));
  }
  // The callbacks never returned, and yet no block is missing.
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

// Its callback touches `inner`.
OutputStream<char> output_that_touches(BlockPool& pool, InputStream<char>& inner) {
  return output_to_callback<char>(
      pool,
      [&inner](std::span<const std::byte>, std::uint64_t offset) { touch(inner.data() + offset); },
      {.name = "output", .reserve_bytes = 64 * kBlockBytes, .least_reserve_bytes = 1});
}

TEST(Guarded, AnOutputCallbackIsAbandonedToo) {
  const test::FaultsBy signals(test::signal_engine());
  BlockPool pool(test::small_blocks(4));
  {
    auto inner = scripted_stream(pool, 8, failing_at(0), "inner");
    auto output = output_that_touches(pool, *inner);
    const Failure failure = guarded([&] { write_blocks(output, 8); });
    EXPECT_EQ(failure.stream.view(), "inner");
    EXPECT_EQ(output.failure().error, EIO);
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

// Calls run callbacks outside any fault of their own stream, under its lock all the same.
TEST(Guarded, CallsAreAbandonedLikeFaults) {
  using Output = OutputStream<char>;
  const std::vector<std::function<void(Output&)>> calls = {
      [](Output& output) { output.finish(2 * kBlockBytes); },
      [](Output& output) { output.prefault(3 * kBlockBytes, 1); }};
  for (const auto& call : calls) {
    BlockPool pool(test::small_blocks(4));
    {
      auto inner = scripted_stream(pool, 8, failing_at(0), "inner");
      auto output = output_that_touches(pool, *inner);
      output.data()[0] = 1;
      output.data()[kBlockBytes] = 1;
      const Failure failure = guarded([&] { call(output); });
      EXPECT_EQ(failure.stream.view(), "inner");
      EXPECT_EQ(output.failure().error, EIO);
      EXPECT_EQ(thread_state().serving, nullptr);
      // Nobody hangs at its lock.
      EXPECT_THROW(call(output), Error);
      std::thread([&] {
        EXPECT_EQ(guarded([&] { output.data()[3 * kBlockBytes] = 1; }).error, EIO);
      }).join();
    }
    EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
  }
}

TEST(Guarded, APrefaultIsAbandonedLikeAFault) {
  BlockPool pool(test::small_blocks(4));
  {
    auto inner = scripted_stream(pool, 8, failing_at(0), "inner");
    auto outer = input_from_callback<char>(
        pool,
        [&inner](std::span<std::byte> block, std::uint64_t offset) {
          block[0] = static_cast<std::byte>(touch(inner->data() + offset));
          return block.size();
        },
        {.name = "outer"}, 8 * kBlockBytes);
    EXPECT_EQ(guarded([&] { outer.prefault(0, 1); }).stream.view(), "inner");
    EXPECT_EQ(outer.failure().error, EIO);
    EXPECT_THROW(outer.prefault(0, 1), Error);
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

TEST(Guarded, ACallInsideAFaultOfTheSameStreamIsRefused) {
  BlockPool pool(test::small_blocks(4));
  InputStreamBase* self = nullptr;
  int error = 0;
  auto stream = input_from_callback<char>(
      pool,
      [&](std::span<std::byte> block, std::uint64_t) {
        error = test::error_of([&] { self->prefault(0, 1); });
        return block.size();
      },
      {.name = "own"}, 8 * kBlockBytes);
  self = &stream;
  stream.prefault(kBlockBytes, 1);
  EXPECT_EQ(error, EDEADLK);
}

// A stream with a call that is under way when another thread destroys the stream.
class Callable final : public Stream {
 public:
  Callable() : Stream("callable", {.bytes = 1 << 20}) { open(); }
  ~Callable() override { close(); }
  void call_until_closing(test::Gate& inside) {
    const ServiceLock lock(*this);
    inside.open();
    while (!stopping()) std::this_thread::yield();
  }

 protected:
  bool handle_fault(Access, std::uint64_t) noexcept override { return false; }
};

// The thread sanitizer sees a call that still uses the stream when close() lets it go.
TEST(Guarded, AStreamMayGoAsSoonAsACallIsOver) {
  for (int round = 0; round < 100; ++round) {
    auto stream = std::make_unique<Callable>();
    test::Gate inside;
    std::thread caller([&] { stream->call_until_closing(inside); });
    inside.wait();
    Callable* const called = stream.release();
    delete called;
    caller.join();
  }
}

// A callback may guard itself, and then decide what its own stream gets.
TEST(Guarded, InsideACallback) {
  BlockPool pool(test::small_blocks(4));
  auto inner = scripted_stream(pool, 8, failing_at(2), "inner");
  auto outer = input_from_callback<char>(
      pool,
      [&inner](std::span<std::byte> block, std::uint64_t offset) {
        const Failure failure =
            guarded([&] { std::memcpy(block.data(), inner->data() + offset, block.size()); });
        if (failure) std::memset(block.data(), '?', block.size());
        return block.size();
      },
      {.name = "outer"}, 8 * kBlockBytes);
  std::string got;
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < 8; ++i) got += touch(outer.data() + i * kBlockBytes);
  });
  EXPECT_FALSE(failure);
  EXPECT_FALSE(outer.failure());
  EXPECT_EQ(inner->failure().error, EIO);
  EXPECT_EQ(got, std::string({static_cast<char>(test::byte_at(0)),
                              static_cast<char>(test::byte_at(kBlockBytes))}) +
                     "??????");
}

TEST(Guarded, CancelWakesAWaitingFault) {
  BlockPool pool(test::small_blocks(2));
  auto script = std::make_shared<SourceScript>();
  script->wait_at = 1;
  auto stream = scripted_stream(pool, 4, script);
  Failure failure;
  std::thread reader([&] {
    failure = guarded([&] {
      touch(stream->data());
      touch(stream->data() + kBlockBytes);
    });
  });
  script->waiting.wait();
  stream->cancel(ETIMEDOUT, "the test has no patience");
  reader.join();
  EXPECT_EQ(failure.error, ETIMEDOUT);
  EXPECT_EQ(failure.cause.view(), "the test has no patience");
  EXPECT_EQ(script->cancelled, 1U);
  // Later faults get it as well; what is placed can still be read.
  EXPECT_EQ(guarded([&] { touch(stream->data() + 2 * kBlockBytes); }).error, ETIMEDOUT);
  EXPECT_FALSE(guarded([&] { touch(stream->data()); }));
}

TEST(Guarded, CancelBeforeTheFirstFault) {
  BlockPool pool(test::small_blocks(2));
  auto stream = scripted_stream(pool, 4, std::make_shared<SourceScript>());
  stream->cancel(ENODATA, "never mind");
  stream->cancel(EIO, "a second reason");
  EXPECT_EQ(guarded([&] { touch(stream->data()); }).error, ENODATA);
}

// Cancelling races with faults that begin, wait or end.
TEST(Guarded, CancelAtAnyMoment) {
  BlockPool pool(test::small_blocks(2));
  for (int round = 0; round < 300; ++round) {
    auto script = std::make_shared<SourceScript>();
    script->wait_at = 7;
    auto stream = scripted_stream(pool, 8, script);
    test::run_together(2, [&](std::size_t thread) {
      if (thread == 0) {
        const Failure failure = guarded([&] { touch_blocks(*stream, 8); });
        EXPECT_EQ(failure.error, ECANCELED);
      } else {
        for (int i = 0; i < round * 10; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
        stream->cancel(ECANCELED, "stop");
      }
    });
  }
  EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
}

// The threads that wait inside a stream's faults while it is destroyed get an error. None hangs.
TEST(Guarded, DestroyedUnderWaitingThreads) {
  constexpr std::size_t kWaiting = 3;
  BlockPool pool(test::small_blocks(2));
  for (int round = 0; round < 50; ++round) {
    auto script = std::make_shared<SourceScript>();
    script->wait_at = 0;
    auto stream = scripted_stream(pool, 4, script);
    const char* const data = stream->data();
    std::vector<Failure> failures(kWaiting);
    std::vector<std::atomic<std::int32_t>> touching(kWaiting);
    std::vector<std::thread> readers;
    for (std::size_t i = 0; i < kWaiting; ++i) {
      readers.emplace_back([&, i] {
        failures[i] = guarded([&] {
          touching[i] = current_thread_id();
          touch(data);
        });
      });
    }
    // One waits for the data, the others for the one. A stream must not be destroyed while somebody
    // is only about to touch it: then there is nothing left that could fail.
    for (const auto& thread_id : touching) {
      while (thread_id == 0 || !test::asleep(thread_id)) std::this_thread::yield();
    }
    stream.reset();
    for (std::thread& reader : readers) reader.join();
    for (const Failure& failure : failures) {
      EXPECT_EQ(failure.error, ECANCELED) << failure.message();
      EXPECT_EQ(failure.stream.view(), "scripted");
    }
    EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
  }
}

}  // namespace

}  // namespace vortex::guarded_test

// Which stacks faults are received and served on: in a thread that has an alternate signal stack,
// on that, and its streams' functions on one of the library's, which has room.
#include <gtest/gtest.h>
#include <setjmp.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>

#include "tests/fault/engine_suite.h"
#include "tests/fault/signal_stacks.h"
#include "tests/support/child_process.h"
#include "vortex/guarded.h"
#include "vortex/os/memory.h"

namespace vortex::test { namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// Uses a quarter of a megabyte of stack, every page of it.
__attribute__((noinline)) std::uint64_t use_much_stack() {
  volatile char much[256 << 10];
  for (std::size_t i = 0; i < sizeof much; i += 512) much[i] = static_cast<char>(i / 512);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sizeof much; i += 512) sum += static_cast<unsigned char>(much[i]);
  return sum;
}

__attribute__((noinline)) int overflow(volatile int* depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(*depth);
  if (*depth < 0) return 0;  // never; or the compiler objects
  *depth = *depth + 1;
  const int below = overflow(depth);
  return below + frame[0];
}

void report_overflow(int, siginfo_t*, void*) {
  constexpr char kText[] = "stack overflow reported\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(42);
}

void overflow_in_a_thread() {
  std::thread([] {
    const SignalStack stack(64 << 10);
    volatile int depth = 0;
    overflow(&depth);
  }).join();
}

// What a handler from before ours notes, and the way that one leaves by.
const SignalStack* watched_stack = nullptr;
bool was_on_watched_stack = false;
sigjmp_buf way_out;

void note_stack(int, siginfo_t* info, void*) {
  was_on_watched_stack = watched_stack->contains(&info);
  Pages::allow(info->si_addr);
}

void note_stack_and_use_much(int signal, siginfo_t* info, void* context) {
  note_stack(signal, info, context);
  (void)use_much_stack();
}

void leave(int, siginfo_t*, void*) { siglongjmp(way_out, 1); }

void note_stack_and_use_much_alone(int) {
  const char here = 0;
  was_on_watched_stack = watched_stack->contains(&here);
  (void)use_much_stack();
}

void touch_forbidden_page() {
  const Pages pages(1);
  *static_cast<volatile std::byte*>(pages.begin()) = std::byte{1};
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Needs more of the stack than a fault that is being left has taken.
volatile bool came = false;
void fill_stack(int) {
  volatile char much[16 << 10];
  for (volatile char& c : much) c = 0x33;
  came = true;
}

template <typename EngineType>
class SignalStacks : public EngineTest<EngineType> {
 protected:
  void TearDown() override {
    os::set_failure_hook(nullptr);
    EngineTest<EngineType>::TearDown();
  }
};
TYPED_TEST_SUITE(SignalStacks, SignalEngines, EngineNames);

TYPED_TEST(SignalStacks, CallbacksHaveRoom) {
  std::thread([] {
    const SignalStack tiny(kHandlerBytes);
    BlockPool pool(small_blocks(2));
    bool on_signal_stack = true;
    std::uint64_t sum = 0;
    auto stream = stream_of(pool, [&](std::span<std::byte> block) {
      char here = 0;
      on_signal_stack = tiny.contains(&here);
      sum = use_much_stack();
      block[0] = std::byte{7};
    });
    EXPECT_EQ(touch(stream.data()), 7);
    EXPECT_FALSE(on_signal_stack);
    EXPECT_EQ(sum, use_much_stack());
    EXPECT_TRUE(tiny.in_place());
  }).join();
}

// Nested faults too, of which a signal stack would hold none.
TYPED_TEST(SignalStacks, NestedCallbacksHaveIt) {
  std::thread([] {
    const SignalStack tiny(kHandlerBytes);
    BlockPool pool(small_blocks(4));
    auto inner = stream_of(
        pool,
        [](std::span<std::byte> block) {
          std::memset(block.data(), static_cast<int>(use_much_stack() % 128), block.size());
        },
        4);
    std::size_t read = 0;
    auto outer = stream_of(
        pool,
        [&](std::span<std::byte> block) {
          (void)use_much_stack();
          std::memcpy(block.data(), inner.data() + read, block.size());
          read += block.size();
        },
        4);
    const auto expected = static_cast<char>(use_much_stack() % 128);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < 4 * kBlockBytes; i += 1000) wrong += outer.data()[i] != expected;
    EXPECT_EQ(wrong, 0U);
    EXPECT_TRUE(tiny.in_place());
  }).join();
}

// The handler takes little of a signal stack before it leaves it.
TYPED_TEST(SignalStacks, TheHandlerTakesWhatTheDocumentsSay) {
  std::thread([] {
    const auto returns = action_of([](int) {}, SA_ONSTACK);
    struct sigaction before {};
    sigaction(SIGUSR1, &returns, &before);
    SignalStack stack(64 << 10);
    raise(SIGUSR1);
    const std::size_t frame = stack.take_used();
    sigaction(SIGUSR1, &before, nullptr);
    EXPECT_GT(frame, 0U);
    EXPECT_TRUE(stream_works());
    const std::size_t used = stack.take_used();
    EXPECT_GT(used, 0U);
    EXPECT_LE(used, frame + kHandlerBytes);
    BlockPool pool(small_blocks(2));
    const auto stream = failing_stream(pool);
    EXPECT_TRUE(guarded([&] { touch(stream.data()); }));
    EXPECT_LE(stack.take_used(), frame + kHandlerBytes);
  }).join();
}

// A handler of another signal that comes meanwhile and wants the signal stack does not run over the
// frames that are on it.
TYPED_TEST(SignalStacks, OtherSignalsLeaveTheFramesAlone) {
  std::thread([] {
    const auto handler = action_of(&note_stack_and_use_much_alone, SA_ONSTACK);
    struct sigaction before {};
    sigaction(SIGUSR1, &handler, &before);
    const SignalStack tiny(kHandlerBytes);
    watched_stack = &tiny;
    BlockPool pool(small_blocks(2));
    auto stream = stream_of(
        pool,
        [](std::span<std::byte> block) {
          raise(SIGUSR1);
          EXPECT_FALSE(was_on_watched_stack);
          block[0] = std::byte{7};
        },
        8);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(touch(stream.data() + i * kBlockBytes), 7);
    EXPECT_TRUE(tiny.in_place());
    sigaction(SIGUSR1, &before, nullptr);
  }).join();
}

// An earlier handler is called where the kernel would, or where there is as much room.
TYPED_TEST(SignalStacks, AnEarlierHandlerHasTheStackItAskedFor) {
  std::thread([this] {
    const SignalStack tiny(kHandlerBytes);
    watched_stack = &tiny;
    this->start_behind(action_of(&note_stack, SA_ONSTACK));
    touch_forbidden_page();
    EXPECT_TRUE(was_on_watched_stack);
    this->start_behind(action_of(&note_stack_and_use_much));
    touch_forbidden_page();
    EXPECT_FALSE(was_on_watched_stack);
    EXPECT_TRUE(tiny.in_place());
    EXPECT_TRUE(stream_works());
  }).join();
}

TYPED_TEST(SignalStacks, AnEarlierHandlerMayLeaveByAJump) {
  std::thread([this] {
    for (const int flags : {SA_ONSTACK, 0}) {
      this->start_behind(action_of(&leave, flags));
      for (int round = 0; round < 10; ++round) {
        const SignalStack tiny(kHandlerBytes);
        volatile bool left = true;
        if (sigsetjmp(way_out, 1) == 0) {
          touch_forbidden_page();
          left = false;
        }
        EXPECT_TRUE(left);
        EXPECT_TRUE(stream_works());
      }
    }
  }).join();
}

// The jump leaves the thread with a stack of the library's. The address sanitizer unmaps what a
// thread that ends has for a signal stack.
TYPED_TEST(SignalStacks, AThreadMayUnmapWhatAJumpHasLeftIt) {
  this->start_behind(action_of(&leave));
  for (int round = 0; round < 3; ++round) {
    std::thread([] {
      const SignalStack tiny(kHandlerBytes);
      if (sigsetjmp(way_out, 1) == 0) touch_forbidden_page();
      stack_t none{}, left{};
      none.ss_flags = SS_DISABLE;
      EXPECT_EQ(sigaltstack(&none, &left), 0);
      if (!tiny.contains(left.ss_sp)) {
        EXPECT_EQ(munmap(left.ss_sp, left.ss_size), 0);
      }
    }).join();
    std::thread([] {
      const SignalStack tiny(kHandlerBytes);
      EXPECT_TRUE(stream_works());
    }).join();
  }
}

TYPED_TEST(SignalStacks, AStackOverflowIsReportedByTheEarlierHandler) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&report_overflow, SA_ONSTACK));
        overflow_in_a_thread();
      },
      ExitedWithCode(42), "stack overflow reported");
}

// A thread without a signal stack has nothing to run a handler on when its own is exhausted.
TYPED_TEST(SignalStacks, WithoutASignalStackAnOverflowEndsTheProcess) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&report_overflow, SA_ONSTACK));
        std::thread([] {
          // Sanitizers give each thread one.
          stack_t none{};
          none.ss_flags = SS_DISABLE;
          sigaltstack(&none, nullptr);
          volatile int depth = 0;
          overflow(&depth);
        }).join();
      },
      KilledBySignal(SIGSEGV), "^$");
}

// The kernel puts such a stack back when the handler is left, and the next signal begins at its
// top.
TYPED_TEST(SignalStacks, ASignalThatWaitsForAJumpLeavesItsFramesAlone) {
  if (kThreadSanitizer) {
    GTEST_SKIP()
        << "throwing allocates, which the thread sanitizer reports inside any signal handler";
  }
  constexpr int kAutoDisarm = std::numeric_limits<int>::min();  // SS_AUTODISARM of linux/signal.h
  EXPECT_EXIT(
      {
        const SignalStack stack(128 << 10, kAutoDisarm);
        const struct sigaction action = action_of(&fill_stack, SA_ONSTACK);
        sigaction(SIGUSR2, &action, nullptr);
        BlockPool pool(small_blocks(2));
        auto stream = stream_of(pool, [](std::span<std::byte>) {
          sigset_t signals;
          sigemptyset(&signals);
          sigaddset(&signals, SIGUSR2);
          pthread_sigmask(SIG_BLOCK, &signals, nullptr);
          raise(SIGUSR2);
          throw Error(EIO, "nothing to be read");
        });
        const Failure failure = guarded([&] { touch(stream.data()); });
        end_process(came && failure.error == EIO && stack.in_place() ? 42 : 1);
      },
      ExitedWithCode(42), "");
}

bool refuse_maps = false;

TYPED_TEST(SignalStacks, WithoutMemoryForAStackTheTouchFails) {
  // In a process that has no stack to reuse.
  EXPECT_EXIT(
      {
        const SignalStack stack(64 << 10);
        BlockPool pool(small_blocks(2));
        auto stream = stream_of(pool, [](std::span<std::byte> block) { block[0] = std::byte{7}; });
        os::set_failure_hook([](os::MemoryCall call) noexcept {
          return call == os::MemoryCall::kMap && refuse_maps ? ENOMEM : 0;
        });
        refuse_maps = true;
        const Failure failure = guarded([&] { touch(stream.data()); });
        refuse_maps = false;
        std::fprintf(stderr, "%s\n", failure.message().c_str());
        if (!stack.in_place() || failure.error != ENOMEM) end_process(1);
        end_process(touch(stream.data()) == 7 ? 42 : 1);
      },
      ExitedWithCode(42), "no memory for a stack to serve faults on");
}

}  // namespace

}  // namespace vortex::test

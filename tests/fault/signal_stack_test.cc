// Which stacks faults are received and served on: in a thread that has an alternate signal stack,
// on that, and its streams' functions on one of the library's, which has room. Where they fail,
// control leaves the stacks of the library's, and the thread has its own again.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_source.h"
#include "tests/support/sanitizers.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"

namespace vortex::test::signal_stack_test { namespace {

constexpr std::size_t kBlockBytes = kMinBlockBytes;

// What our handler takes beside the signal's frame, as limits.md says. Sanitizers take more.
constexpr std::size_t kHandlerBytes = std::size_t{kShadowMemory ? 16 : 2} << 10;

// A signal stack for the calling thread, as small as the kernel accepts plus what a handler needs.
class SignalStack {
 public:
  explicit SignalStack(std::size_t more_bytes, int flags = 0)
      : memory_(static_cast<std::size_t>(sysconf(_SC_MINSIGSTKSZ)) + more_bytes, kPaint) {
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    stack.ss_flags = flags;
    sigaltstack(&stack, &before_);
  }
  ~SignalStack() { sigaltstack(&before_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  bool contains(const void* address) const {
    return address >= memory_.data() && address < memory_.data() + memory_.size();
  }

  // Whether it is the calling thread's, and the thread is not on it.
  bool in_place() const {
    stack_t now{};
    sigaltstack(nullptr, &now);
    return now.ss_sp == memory_.data() && now.ss_size == memory_.size() &&
           (now.ss_flags & (SS_ONSTACK | SS_DISABLE)) == 0;
  }

  // The most that was used since the last call.
  std::size_t take_used() {
    const auto lowest =
        std::find_if(memory_.begin(), memory_.end(), [](char c) { return c != kPaint; });
    const auto used = static_cast<std::size_t>(memory_.end() - lowest);
    std::fill(memory_.begin(), memory_.end(), kPaint);
    return used;
  }

 private:
  static constexpr char kPaint = 0x5a;
  std::vector<char> memory_;
  stack_t before_{};
};

auto stream_of(BlockPool& pool, std::function<void(std::span<std::byte>)> fill,
               std::size_t blocks = 1) {
  return input_from_callback<char>(
      pool,
      [fill = std::move(fill)](std::span<std::byte> block, std::uint64_t) {
        fill(block);
        return block.size();
      },
      {}, blocks * kBlockBytes);
}

// A stream of which nothing can be read.
auto failing_stream(BlockPool& pool) {
  return stream_of_bytes(pool, patterned_bytes(kBlockBytes), {}, failing_at(0));
}

bool stream_works() {
  BlockPool pool(small_blocks(2));
  auto stream = stream_of(pool, [](std::span<std::byte> block) { block[0] = std::byte{7}; });
  return touch(stream.data()) == 7;
}

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

[[noreturn]] void end_elsewhere() { end_process(43); }

// Go and Java make an exception of the fault like this.
void go_on_elsewhere(int, siginfo_t*, void* context) {
  auto* const machine = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
  machine->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(&end_elsewhere);
  machine->uc_mcontext.gregs[REG_RSP] = (machine->uc_mcontext.gregs[REG_RSP] & ~greg_t{15}) - 8;
#elif defined(__aarch64__)
  machine->uc_mcontext.pc = reinterpret_cast<std::uintptr_t>(&end_elsewhere);
#else
  (void)machine;
  end_elsewhere();
#endif
}

// Both signals: an access that cannot be served is a bus error where others serve faults.
template <typename EngineType>
class SmallStacks : public EngineTest<EngineType> {};
TYPED_TEST_SUITE(SmallStacks, AllEngines, EngineNames);

TYPED_TEST(SmallStacks, GuardedFailuresLeaveThemAsTheyWere) {
  for (const int flags : {0, static_cast<int>(1U << 31)}) {  // SS_AUTODISARM
    std::thread([flags] {
      const SignalStack tiny(kHandlerBytes, flags);
      BlockPool pool(small_blocks(4));
      for (int round = 0; round < 100; ++round) {
        auto stream = failing_stream(pool);
        const Failure failure = guarded([&] { touch(stream.data()); });
        EXPECT_EQ(failure.error, EIO);
        EXPECT_TRUE(tiny.in_place());
      }
      EXPECT_TRUE(stream_works());
    }).join();
  }
}

// A scope in a callback takes what fails inside it; one around takes the rest.
TYPED_TEST(SmallStacks, GuardedScopesNest) {
  std::thread([] {
    const SignalStack tiny(kHandlerBytes);
    BlockPool pool(small_blocks(6));
    auto broken = failing_stream(pool);
    int inner_error = 0;
    auto careful = stream_of(pool, [&](std::span<std::byte> block) {
      inner_error = guarded([&] { touch(broken.data()); }).error;
      block[0] = std::byte{7};
    });
    auto careless = stream_of(
        pool, [&](std::span<std::byte> block) { block[0] = std::byte(touch(broken.data())); });
    char value = 0;
    EXPECT_FALSE(guarded([&] { value = touch(careful.data()); }));
    EXPECT_EQ(value, 7);
    EXPECT_EQ(inner_error, EIO);
    EXPECT_TRUE(tiny.in_place());
    EXPECT_TRUE(guarded([&] { touch(careless.data()); }));
    EXPECT_TRUE(tiny.in_place());
    EXPECT_TRUE(stream_works());
  }).join();
}

TYPED_TEST(SmallStacks, AnEarlierHandlerMayGoOnElsewhere) {
  EXPECT_EXIT(
      {
        this->start_behind(action_of(&go_on_elsewhere, SA_ONSTACK));
        const SignalStack stack(64 << 10);
        BlockPool pool(small_blocks(2));
        touch(failing_stream(pool).data());
      },
      ExitedWithCode(43), "the test says so");
}

}  // namespace

}  // namespace vortex::test::signal_stack_test

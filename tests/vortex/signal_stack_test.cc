// Which stack faults are served on: the thread's own, also where it has an alternate signal stack.
// The price is in docs/decisions.md, "Faults are served on the thread's own stack"; these tests
// hold both sides of it.
#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/memory_source.h"
#include "tests/vortex/engine_suite.h"
#include "vortex/input_stream.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

namespace vortex {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr std::size_t kBlockBytes = kMinBlockBytes;

// A signal stack for the calling thread, as small as the kernel accepts plus what a handler that
// reports needs.
class SignalStack {
 public:
  explicit SignalStack(std::size_t more_bytes)
      : memory_(std::max<std::size_t>(getauxval(AT_MINSIGSTKSZ), 2048) + more_bytes) {
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    sigaltstack(&stack, &before_);
  }
  ~SignalStack() { sigaltstack(&before_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  bool contains(const void* address) const {
    return address >= memory_.data() && address < memory_.data() + memory_.size();
  }

 private:
  std::vector<char> memory_;
  stack_t before_{};
};

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

template <typename EngineType>
class SignalStacks : public test::EngineTest<EngineType> {};
TYPED_TEST_SUITE(SignalStacks, test::SignalEngines, test::EngineNames);

TYPED_TEST(SignalStacks, CallbacksHaveTheThreadsStack) {
  std::thread([] {
    const SignalStack tiny(0);
    BlockPool pool({.pool_bytes = 2 * kBlockBytes, .block_bytes = kBlockBytes});
    bool on_signal_stack = true;
    std::uint64_t sum = 0;
    auto stream = input_from_callback<char>(
        pool,
        [&](std::span<std::byte> block, std::uint64_t) {
          char here = 0;
          on_signal_stack = tiny.contains(&here);
          sum = use_much_stack();
          block[0] = std::byte{7};
          return block.size();
        },
        {}, kBlockBytes);
    EXPECT_EQ(*static_cast<const volatile char*>(stream.data()), 7);
    EXPECT_FALSE(on_signal_stack);
    EXPECT_EQ(sum, use_much_stack());
  }).join();
}

// Nested faults too, of which a signal stack would hold none.
TYPED_TEST(SignalStacks, NestedCallbacksHaveIt) {
  std::thread([] {
    const SignalStack tiny(0);
    BlockPool pool({.pool_bytes = 4 * kBlockBytes, .block_bytes = kBlockBytes});
    auto inner = input_from_callback<char>(
        pool,
        [](std::span<std::byte> block, std::uint64_t) {
          std::memset(block.data(), static_cast<int>(use_much_stack() % 128), block.size());
          return block.size();
        },
        {}, 4 * kBlockBytes);
    auto outer = input_from_callback<char>(
        pool,
        [&inner](std::span<std::byte> block, std::uint64_t offset) {
          (void)use_much_stack();
          std::memcpy(block.data(), inner.data() + offset, block.size());
          return block.size();
        },
        {}, 4 * kBlockBytes);
    const auto expected = static_cast<char>(use_much_stack() % 128);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < 4 * kBlockBytes; i += 1000) wrong += outer.data()[i] != expected;
    EXPECT_EQ(wrong, 0U);
  }).join();
}

// The price: when the thread's stack is exhausted there is nothing to run a handler on, ours or one
// from before ours. The process ends as it would without any handler.
TYPED_TEST(SignalStacks, AStackOverflowEndsTheProcessWithoutTheEarlierHandler) {
  EXPECT_EXIT(
      {
        this->start_behind(test::action_of(&report_overflow, SA_ONSTACK));
        overflow_in_a_thread();
      },
      KilledBySignal(SIGSEGV), "^$");
}

// The way out for who needs the report more than streams at that moment.
TYPED_TEST(SignalStacks, WithoutTheEngineTheOverflowIsReported) {
  EXPECT_EXIT(
      {
        this->start_behind(test::action_of(&report_overflow, SA_ONSTACK));
        test::dispatcher().stop();
        overflow_in_a_thread();
      },
      ExitedWithCode(42), "stack overflow reported");
}

}  // namespace
}  // namespace vortex

// Failures in threads with an alternate signal stack: control leaves the stacks of the library's,
// and the thread has its own again.
#include <gtest/gtest.h>
#include <ucontext.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "tests/fault/engine_suite.h"
#include "tests/fault/signal_stacks.h"
#include "tests/support/child_process.h"
#include "vortex/guarded.h"

namespace vortex::test { namespace {

using ::testing::ExitedWithCode;

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

}  // namespace vortex::test

#include "vortex/thread/masked_thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/temporary_folder.h"
#include "vortex/sorter.h"

namespace vortex::masked_thread_test { namespace {

constexpr int kHandled = 42;
void end_with_42(int) { _exit(kHandled); }

// SIGFPE on processors whose division raises it; elsewhere by raise(), which the kernel delivers to
// the calling thread as well.
void divide_by_zero() {
#if defined(__x86_64__) || defined(__i386__)
  int quotient = 1, rest = 0;
  const int divisor = 0;
  asm volatile("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(divisor));
#else
  raise(SIGFPE);
#endif
}

void run_masked(std::function<void()> body, ThreadSignals signals) {
  MaskedThread thread;
  ASSERT_EQ(thread.start(std::move(body), signals), 0);
  thread.join();
}

class MaskedThreadDeathTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, MaskedThreadDeathTest,
                         testing::Values(SIGFPE, SIGILL, SIGTRAP, SIGBUS, SIGSEGV));

// The signal is sent to the thread itself, as by an instruction.
TEST_P(MaskedThreadDeathTest, RunsTheHandlerOfItsOwnFaults) {
  EXPECT_EXIT(
      {
        signal(GetParam(), end_with_42);
        run_masked([] { raise(GetParam()); }, ThreadSignals::kOwnFaults);
        _exit(1);
      },
      testing::ExitedWithCode(kHandled), "");
}

std::atomic<bool> dividing{false};
bool by_value(std::uint64_t a, std::uint64_t b) {
  if (dividing) divide_by_zero();
  return a < b;
}

// Its last merge, in the sorter's thread, divides.
[[noreturn]] void sort_and_divide(const std::string& folder) {
  signal(SIGFPE, end_with_42);
  SortResources options;
  options.memory_bytes = 1 << 20;
  options.folders = {folder};
  Sorter<std::uint64_t, decltype(&by_value)> sorter(options, &by_value);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) sorter.push(i * 0x9e3779b97f4a7c15);
  sorter.sort();
  dividing = true;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < sorter.size(); ++i) sum += sorter.data()[i];
  _exit(sum == 0 ? 1 : 2);
}

TEST(SorterThreadDeathTest, AComparatorThatDividesByZeroReachesTheHandler) {
  const test::TemporaryFolder folder;
  EXPECT_EXIT(sort_and_divide(folder.path().string()), testing::ExitedWithCode(kHandled), "");
}

// Nothing else reaches it: a handler of the program for other signals never runs there.
TEST(MaskedThread, HasAllOtherSignalsBlocked) {
  sigset_t blocked;
  run_masked([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); }, ThreadSignals::kOwnFaults);
  EXPECT_EQ(sigismember(&blocked, SIGFPE), 0);
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF, SIGABRT}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
}

TEST(MaskedThread, HasAllSignalsBlockedUnlessItTakesItsOwnFaults) {
  sigset_t blocked;
  run_masked([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); }, ThreadSignals::kNone);
  for (const int signal : {SIGINT, SIGUSR1, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGINT), 0) << "the maker's mask is as it was";
}

TEST(MaskedThread, RunsAgainAfterItsEnd) {
  int runs = 0;
  MaskedThread thread;
  EXPECT_FALSE(thread.started());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(thread.start([&] { ++runs; }), 0);
    EXPECT_TRUE(thread.started());
    thread.join();
    thread.join();
  }
  EXPECT_EQ(runs, 3);
}

// The thread is the parent's; waiting for it in the child would never end.
TEST(MaskedThread, IsNotWaitedForInAForkedChild) {
  std::atomic<bool> stop{false};
  MaskedThread thread;
  ASSERT_EQ(thread.start([&] {
    while (!stop) sched_yield();
  }),
            0);
  EXPECT_EXIT(
      {
        thread.join();
        _exit(kHandled);
      },
      testing::ExitedWithCode(kHandled), "");
  stop = true;
}

}  // namespace

}  // namespace vortex::masked_thread_test

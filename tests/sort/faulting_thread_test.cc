#include "sort/job/faulting_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"
#include "vortex/sorter.h"

namespace vortex {
namespace {

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

class FaultingThreadDeathTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, FaultingThreadDeathTest,
                         testing::Values(SIGFPE, SIGILL, SIGTRAP, SIGBUS, SIGSEGV));

// The signal is sent to the thread itself, as by an instruction.
TEST_P(FaultingThreadDeathTest, RunsTheHandlerOfItsOwnFaults) {
  EXPECT_EXIT(
      {
        signal(GetParam(), end_with_42);
        FaultingThread([] { raise(GetParam()); });
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
TEST(FaultingThread, HasAllOtherSignalsBlocked) {
  sigset_t blocked;
  FaultingThread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); });
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF, SIGABRT}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
}

}  // namespace
}  // namespace vortex

// What the other tests of this room rely on: that a hang is seen, and what waits is named.
#include "tests/trust/call_tracer.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/prctl.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/environment.h"

namespace vortex::test::call_tracer_test { namespace {

constexpr int kCannotLook = 77;

// In the child: a thread that nobody wakes. Steps go on until it sleeps, so that patience begins
// then, however busy the machine is. Ends where nobody may look at what threads do.
[[noreturn]] int wait_for_ever(CallLedger& ledger) {
  std::atomic<pid_t> number = 0;
  const int never_changes = 0;
  std::thread sleeper([&] {
    prctl(PR_SET_NAME, "the sleeper");
    number = static_cast<pid_t>(syscall(SYS_gettid));
    for (;;) syscall(SYS_futex, &never_changes, FUTEX_WAIT_PRIVATE, 0, nullptr);
  });
  while (number == 0) ++ledger.steps;
  const std::string call = "/proc/self/task/" + std::to_string(number) + "/syscall";
  for (std::string told; !told.starts_with(std::to_string(SYS_futex) + " "); ++ledger.steps) {
    told = text_of(call);
    if (told.empty()) _exit(kCannotLook);
  }
  for (;;) sleeper.join();
}

TEST(CallTracer, AHangIsNamed) {
  CallTracer tracer(1);
  if (const std::string refusal = tracer.refusal(); !refusal.empty()) {
    END_TEST_WITHOUT(Environment::kSeccomp, refusal);
  }
  const TracedEnd end = tracer.run({}, [&] { return wait_for_ever(tracer.ledger()); });
  if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == kCannotLook) {
    GTEST_SKIP() << "/proc does not tell what threads wait for";
  }
  EXPECT_TRUE(end.hung);
  EXPECT_TRUE(WIFSIGNALED(end.status)) << end.status;
  const std::size_t at = end.waits.find("the sleeper");
  ASSERT_NE(at, std::string::npos) << end.waits;
  const std::string sleeper = end.waits.substr(at, end.waits.find("\n  at", at) - at);
  EXPECT_NE(sleeper.find("system call " + std::to_string(SYS_futex) + " "), std::string::npos)
      << end.waits;
}

// Its calls are signs of life, but no step comes.
TEST(CallTracer, ACallThatIsMadeAgainForEverIsAHang) {
  constexpr std::uint64_t kMost = 1000;
  CallTracer tracer(1, kMost);
  if (const std::string refusal = tracer.refusal(); !refusal.empty()) {
    END_TEST_WITHOUT(Environment::kSeccomp, refusal);
  }
  CallLedger& ledger = tracer.ledger();
  const TracedEnd end = tracer.run({kind_of("fsync")}, [&] {
    alarm(60);  // it ends where nobody sees it
    ledger.arm(1, true);
    while (fsync(STDERR_FILENO) != 0) {
    }
    return 0;
  });
  EXPECT_TRUE(end.hung) << end.status;
  EXPECT_GE(ledger.failed, kMost);
  if (end.waits.find("system call ") == std::string::npos) return;  // /proc does not tell
  EXPECT_NE(end.waits.find("system call " + std::to_string(SYS_fsync) + " "), std::string::npos)
      << end.waits;
}

}  // namespace

}  // namespace vortex::test::call_tracer_test

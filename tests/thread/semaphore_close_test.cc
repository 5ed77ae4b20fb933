// Closing a semaphore while somebody is about to take a unit.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "tests/support/threads.h"
#include "vortex/thread/futex.h"

namespace vortex { namespace {

// close() changes the count to wake sleepers; that change must not be taken for a unit.
TEST(FutexSemaphore, CloseHandsOutNothing) {
  constexpr std::size_t kRounds = 20'000;
  std::deque<FutexSemaphore> semaphores(kRounds);
  std::atomic<std::size_t> taken{0};
  test::SpinBarrier barrier(2);
  test::run_together(2, [&](std::size_t who) {
    for (FutexSemaphore& semaphore : semaphores) {
      barrier.arrive_and_wait();
      if (who == 0) {
        semaphore.close();
      } else if (semaphore.acquire()) {
        ++taken;
      }
    }
  });
  EXPECT_EQ(taken.load(), 0u);
}

}  // namespace

}  // namespace vortex

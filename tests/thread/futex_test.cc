// Locks and semaphores under contention.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/threads.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/this_thread.h"

namespace vortex::futex_test { namespace {

using test::run_together;

TEST(FutexMutex, OneHolderAtATime) {
  constexpr std::size_t kThreads = 8;
  constexpr std::uint64_t kRounds = 20000;
  FutexMutex mutex;
  std::uint64_t counter = 0;  // no atomic: the lock is what keeps it right
  run_together(kThreads, [&](std::size_t) {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      mutex.lock();
      ++counter;
      mutex.unlock();
    }
  });
  EXPECT_EQ(counter, kThreads * kRounds);
}

// Holders that keep the lock long enough for the others to sleep.
TEST(FutexMutex, SleepersAreWoken) {
  constexpr std::size_t kThreads = 4;
  constexpr int kRounds = 500;
  FutexMutex mutex;
  int counter = 0;
  run_together(kThreads, [&](std::size_t) {
    for (int i = 0; i < kRounds; ++i) {
      mutex.lock();
      const int before = counter;
      std::this_thread::yield();
      counter = before + 1;
      mutex.unlock();
    }
  });
  EXPECT_EQ(counter, static_cast<int>(kThreads) * kRounds);
}

TEST(FutexMutex, TryLock) {
  FutexMutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  std::thread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
  mutex.unlock();
  std::thread([&] {
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  }).join();
}

bool held_by_me(const FutexMutex& mutex) { return mutex.held_by(current_thread_id()); }

TEST(FutexMutex, KnowsItsHolder) {
  FutexMutex mutex;
  EXPECT_FALSE(held_by_me(mutex));
  mutex.lock();
  EXPECT_TRUE(held_by_me(mutex));
  std::thread([&] { EXPECT_FALSE(held_by_me(mutex)); }).join();
  mutex.unlock();
  EXPECT_FALSE(held_by_me(mutex));

  // Under contention too: nobody else is ever taken for the holder.
  std::atomic<int> wrong{0};
  run_together(4, [&](std::size_t) {
    for (int i = 0; i < 5000; ++i) {
      if (held_by_me(mutex)) ++wrong;
      mutex.lock();
      if (!held_by_me(mutex)) ++wrong;
      mutex.unlock();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(FutexMutex, ThreadIdIsTheKernels) {
  EXPECT_EQ(current_thread_id(), static_cast<std::int32_t>(syscall(SYS_gettid)));
  std::thread([] {
    EXPECT_EQ(current_thread_id(), static_cast<std::int32_t>(syscall(SYS_gettid)));
  }).join();
}

TEST(FutexSemaphore, CountsExactly) {
  FutexSemaphore semaphore(2);
  EXPECT_TRUE(semaphore.try_acquire());
  EXPECT_TRUE(semaphore.acquire());
  EXPECT_FALSE(semaphore.try_acquire());
  semaphore.release(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(semaphore.try_acquire());
  EXPECT_FALSE(semaphore.try_acquire());
}

// As many units are taken as are released; a lost wake-up would hang the test.
TEST(FutexSemaphore, NoUnitIsLost) {
  constexpr std::size_t kTakers = 3;
  constexpr std::uint64_t kEach = 20000;
  FutexSemaphore semaphore;
  std::atomic<std::uint64_t> taken{0};
  run_together(kTakers + 2, [&](std::size_t thread) {
    if (thread < kTakers) {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        if (semaphore.acquire()) ++taken;
      }
    } else {
      std::uint32_t piece = 1;
      for (std::uint64_t left = kTakers * kEach / 2; left > 0; left -= piece) {
        piece = std::min<std::uint32_t>(piece % 5 + 1, static_cast<std::uint32_t>(left));
        semaphore.release(piece);
        if (left % 64 == 0) std::this_thread::yield();
      }
    }
  });
  EXPECT_EQ(taken, kTakers * kEach);
  EXPECT_FALSE(semaphore.try_acquire());
}

// Two threads hand one unit back and forth: each hand-over is a wake-up that must not get lost.
TEST(FutexSemaphore, PingPong) {
  constexpr int kRounds = 20000;
  FutexSemaphore ping, pong;
  std::uint64_t turns = 0;  // no atomic: the semaphores order the accesses
  run_together(2, [&](std::size_t thread) {
    for (int i = 0; i < kRounds; ++i) {
      if (thread == 0) {
        ++turns;
        ping.release();
        pong.acquire();
      } else {
        ping.acquire();
        ++turns;
        pong.release();
      }
    }
  });
  EXPECT_EQ(turns, 2U * kRounds);
}

TEST(FutexSemaphore, ReleaseWakesAsManyAsItBrings) {
  constexpr std::uint32_t kWaiters = 4;
  FutexSemaphore semaphore;
  std::vector<std::thread> waiters;
  for (std::uint32_t i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] { EXPECT_TRUE(semaphore.acquire()); });
  }
  while (semaphore.sleeps() < kWaiters) std::this_thread::yield();
  // They are asleep, or about to be and then find the count changed.
  for (int chance = 0; chance < 1000; ++chance) std::this_thread::yield();
  semaphore.release(kWaiters);
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(FutexSemaphore, CloseWakesAll) {
  constexpr std::size_t kWaiters = 8;
  FutexSemaphore semaphore;
  std::atomic<std::size_t> turned_away{0};
  std::vector<std::thread> waiters;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      if (!semaphore.acquire()) ++turned_away;
    });
  }
  while (semaphore.sleeps() < kWaiters) std::this_thread::yield();
  semaphore.close();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(turned_away, kWaiters);
}

TEST(FutexSemaphore, ClosedHandsNothingOut) {
  FutexSemaphore semaphore(3);
  EXPECT_FALSE(semaphore.closed());
  semaphore.close();
  EXPECT_TRUE(semaphore.closed());
  EXPECT_FALSE(semaphore.try_acquire());
  EXPECT_FALSE(semaphore.acquire());
  semaphore.release();
  EXPECT_FALSE(semaphore.acquire());
  semaphore.close();
  EXPECT_FALSE(semaphore.acquire());
  EXPECT_EQ(semaphore.sleeps(), 0U);
}

// Several threads at once on the way to sleep, some about to take what others wait for.
TEST(FutexSemaphore, NobodySleepsThroughClose) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kRounds = 3000;
  std::unique_ptr<FutexSemaphore> semaphore;
  std::atomic<std::size_t> let_go{0};
  test::SpinBarrier barrier(kThreads);
  run_together(kThreads, [&](std::size_t thread) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      if (thread == 0) semaphore = std::make_unique<FutexSemaphore>(1);
      barrier.arrive_and_wait();
      if (thread == 0) {
        semaphore->close();
      } else {
        while (semaphore->acquire()) {
        }
        ++let_go;
      }
      barrier.arrive_and_wait();
    }
  });
  EXPECT_EQ(let_go, (kThreads - 1) * kRounds);
}

TEST(Futex, ErrnoIsKept) {
  FutexSemaphore semaphore;
  FutexMutex mutex;
  test::Gate holding;
  std::thread other([&] {
    mutex.lock();
    holding.open();
    while (semaphore.sleeps() == 0) std::this_thread::yield();
    semaphore.release();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    mutex.unlock();
  });
  holding.wait();
  errno = EXDEV;
  EXPECT_TRUE(semaphore.acquire());
  EXPECT_EQ(errno, EXDEV);
  mutex.lock();
  EXPECT_EQ(errno, EXDEV);
  mutex.unlock();
  EXPECT_EQ(errno, EXDEV);
  semaphore.close();
  EXPECT_EQ(errno, EXDEV);
  other.join();
}

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

}  // namespace vortex::futex_test

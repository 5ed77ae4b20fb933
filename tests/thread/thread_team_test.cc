#include "vortex/detail/array/thread_team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "vortex/thread/control_groups.h"

namespace vortex::thread_team_test { namespace {

using namespace detail;

class ThreadTeamOf : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadTeamOf, testing::Values(1u, 2u, 7u));

TEST_P(ThreadTeamOf, DoesEachPartOnce) {
  ThreadTeam team(GetParam());
  EXPECT_EQ(team.threads(), GetParam());
  for (const std::size_t parts : {0u, 1u, 2u, 3u, 100u, 5000u}) {
    std::vector<int> done(parts);  // no atomics: run() orders what parts write before its return
    team.run(parts, [&](std::size_t part) { ++done[part]; });
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), std::size_t{0}), parts);
    for (const int times : done) EXPECT_EQ(times, 1);
  }
}

TEST_P(ThreadTeamOf, ShortJobsOneAfterTheOther) {
  ThreadTeam team(GetParam());
  std::size_t sum = 0;
  for (std::size_t round = 0; round < 2000; ++round) {
    std::size_t squares[3] = {};
    team.run(3, [&, round](std::size_t part) { squares[part] = round * part; });
    sum += squares[0] + squares[1] + squares[2];
  }
  EXPECT_EQ(sum, std::size_t{3} * 2000 * 1999 / 2);
}

// All threads work at once: every part waits until all have begun.
TEST_P(ThreadTeamOf, WorksOnAllThreads) {
  ThreadTeam team(GetParam());
  test::SpinBarrier barrier(GetParam());
  std::atomic<unsigned> here{0};
  const pthread_t caller = pthread_self();
  std::atomic<bool> caller_works{false};
  team.run(GetParam(), [&](std::size_t) {
    barrier.arrive_and_wait();
    ++here;
    if (pthread_equal(caller, pthread_self()) != 0) caller_works = true;
  });
  EXPECT_EQ(here, GetParam());
  EXPECT_TRUE(caller_works);
}

TEST_P(ThreadTeamOf, ThrowsTheExceptionOfAPartWhenAllHaveStopped) {
  ThreadTeam team(GetParam());
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> running{0};
    std::atomic<std::size_t> begun{0};
    bool thrown = false;
    try {
      team.run(1000, [&](std::size_t part) {
        ++running;
        ++begun;
        if (part == 10) {
          --running;
          throw std::runtime_error("part 10");
        }
        --running;
      });
    } catch (const std::runtime_error& error) {
      thrown = true;
      EXPECT_EQ(std::string(error.what()), "part 10");
      EXPECT_EQ(running, 0);
    }
    ASSERT_TRUE(thrown);
    EXPECT_GE(begun, 11u);
    int after = 0;
    team.run(1, [&](std::size_t) { ++after; });
    EXPECT_EQ(after, 1);
  }
}

TEST_P(ThreadTeamOf, BeginsNoPartAfterAnException) {
  ThreadTeam team(GetParam());
  std::atomic<std::size_t> begun{0};
  EXPECT_THROW(team.run(std::size_t{1} << 40,
                        [&](std::size_t) {
                          ++begun;
                          throw std::runtime_error("each");
                        }),
               std::runtime_error);
  EXPECT_LE(begun, GetParam());
}

// Exceptions of several parts at once: one reaches the caller, the others are dropped.
TEST_P(ThreadTeamOf, KeepsOneOfSeveralExceptions) {
  ThreadTeam team(GetParam());
  test::SpinBarrier barrier(GetParam());
  EXPECT_THROW(team.run(GetParam(),
                        [&](std::size_t) {
                          barrier.arrive_and_wait();
                          throw std::runtime_error("all");
                        }),
               std::runtime_error);
}

TEST(ThreadTeam, HasACoreForEachThreadUnlessToldOtherwise) {
  EXPECT_EQ(ThreadTeam(0).threads(), usable_cores());
  EXPECT_EQ(ThreadTeam::resolve(0), usable_cores());
  EXPECT_EQ(ThreadTeam::resolve(5), 5u);
}

// Its affinity is that of the thread that asks.
TEST(ThreadTeam, OfASortHasNoMoreThanThereAreCores) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const unsigned assumed = assumed_cores();
    assume_cores(0);
    EXPECT_EQ(ThreadTeam::resolve(1), 1u);
    EXPECT_EQ(ThreadTeam::resolve(5), 1u);
    EXPECT_EQ(ThreadTeam(5).threads(), 5u);
    assume_cores(3);
    EXPECT_EQ(ThreadTeam::resolve(0), 1u);
    EXPECT_EQ(ThreadTeam::resolve(2), 2u);
    EXPECT_EQ(ThreadTeam::resolve(5), 3u);
    assume_cores(assumed);
  }).join();
}

TEST(ThreadTeam, ItsThreadsRunNoHandlerOfTheProgram) {
  ThreadTeam team(2);
  test::SpinBarrier barrier(2);
  const pthread_t caller = pthread_self();
  sigset_t blocked;
  sigemptyset(&blocked);
  team.run(2, [&](std::size_t) {
    barrier.arrive_and_wait();
    if (pthread_equal(caller, pthread_self()) == 0) pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
  EXPECT_EQ(sigismember(&blocked, SIGFPE), 0);
}

// The threads are the parent's. The child works alone and does not wait for their end.
TEST(ThreadTeamDeathTest, AForkedChildWorksAlone) {
  ThreadTeam team(3);
  EXPECT_EXIT(
      {
        int done = 0;
        {
          ThreadTeam& inherited = team;
          inherited.run(10, [&](std::size_t) { ++done; });
        }
        _exit(done);
      },
      testing::ExitedWithCode(10), "");
}

TEST(ThreadTeamDeathTest, AForkedChildMayDestroyIt) {
  auto* const team = new ThreadTeam(3);
  EXPECT_EXIT(
      {
        delete team;
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
  delete team;
}

// In a child whose address space holds no stacks beside those of threads that have ended, which the
// C library keeps some of.
[[noreturn]] void work_with_few_threads() {
  constexpr unsigned kTooMany = 64;
  const rlimit none{std::size_t{1} << 20, std::size_t{1} << 20};
  if (setrlimit(RLIMIT_AS, &none) != 0) _exit(1);
  ThreadTeam team(kTooMany);
  std::atomic<int> done{0};
  team.run(10, [&](std::size_t) { ++done; });
  _exit(team.threads() < kTooMany && done == 10 ? 7 : 2);
}

TEST(ThreadTeamDeathTest, GoesOnWithFewerWhereTheSystemRefusesThreads) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow has no limit";
  EXPECT_EXIT(work_with_few_threads(), testing::ExitedWithCode(7), "");
}

}  // namespace

}  // namespace vortex::thread_team_test

// Whole jobs in a program that has signals and faults of its own, which come at any moment: each
// reaches its owner once, and the jobs do what they would do without them.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/support/child_process.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/trust/jobs/whole_jobs.h"

namespace vortex::test::foreign_signals_test { namespace {

constexpr std::size_t kPageBytes = 4096;

// The program's own, with what its handlers have seen.
std::atomic<std::uint64_t> signals_seen{0};
std::atomic<std::uint64_t> faults_seen{0};
char* page_of_program = nullptr;

int signal_of_program() { return SIGRTMIN + 3; }

void on_signal(int) {
  const int error = errno;
  signals_seen.fetch_add(1, std::memory_order_relaxed);
  errno = error;
}

// A fault that is not the program's ends it.
void on_fault(int, siginfo_t* info, void*) {
  auto* const at = static_cast<char*>(info->si_addr);
  if (at < page_of_program || at >= page_of_program + kPageBytes) _exit(3);
  faults_seen.fetch_add(1, std::memory_order_relaxed);
  mprotect(page_of_program, kPageBytes, PROT_READ | PROT_WRITE);
}

// Before the library handles any. Calls that wait are interrupted, and do not go on by themselves.
void install_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(signal_of_program(), &action, nullptr);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  page_of_program =
      static_cast<char*>(mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

// While it is there, the thread that does the job, and those that it starts itself, get one signal
// after the other, and another thread faults.
class Disturbance {
 public:
  // Waits for the first signal, so that no job goes without.
  Disturbance() : thread_([this] { disturb(); }) {
    const std::uint64_t before = signals_seen;
    while (signals_seen == before && !done_) sched_yield();
  }
  ~Disturbance() {
    done_.store(true);
    thread_.join();
  }
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

  // Valid when it is gone.
  static inline std::uint64_t signals = 0;
  static inline std::uint64_t faults = 0;

 private:
  void disturb() {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal_of_program());
    pthread_sigmask(SIG_BLOCK, &own, nullptr);
    while (!done_.load()) {
      if (sigqueue(getpid(), signal_of_program(), {}) == 0) ++signals;
      mprotect(page_of_program, kPageBytes, PROT_NONE);
      *static_cast<volatile char*>(page_of_program) = 1;
      ++faults;
      // One that is lost is waited for no longer than this.
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (signals_seen < signals && std::chrono::steady_clock::now() < end) sched_yield();
      if (signals_seen < signals) done_ = true;
    }
  }

  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses the others
};

std::string complaint_of_disturbed(const WholeJob& job) {
  job.prepare();
  std::string complaint;
  {
    const Disturbance disturbance;
    try {
      job.run();
    } catch (const std::exception& error) {
      complaint = error.what();
    }
  }
  if (!complaint.empty()) return complaint;
  if (signals_seen.load() != Disturbance::signals) return "a signal was lost, or came twice";
  if (faults_seen.load() != Disturbance::faults) return "a fault was lost, or came twice";
  return job.complaint(true, false);
}

TEST(ForeignSignals, ReachTheirOwnersAndDisturbNoJob) {
  if (kThreadSanitizer) GTEST_SKIP() << "handlers are called late";
  const int status = in_child([] {
    install_handlers();
    auto random = test_random();
    const int times = long_tests() ? 200 : 4;
    for (const std::string& name : job_names()) {
      const WholeJob job = make_job(name, random);
      for (int i = 0; i < times; ++i) {
        const std::string complaint = complaint_of_disturbed(job);
        if (complaint.empty()) continue;
        std::fprintf(stderr, "%s, time %d: %s\n", name.c_str(), i, complaint.c_str());
        return 1;
      }
    }
    std::fprintf(stderr, "%llu signals, %llu faults\n",
                 static_cast<unsigned long long>(Disturbance::signals),
                 static_cast<unsigned long long>(Disturbance::faults));
    return 0;
  });
  EXPECT_EQ(status, 0) << "seed " << test_seed();
}

}}  // namespace vortex::test::foreign_signals_test

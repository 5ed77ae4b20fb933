// Threads that start together, and that wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "vortex/thread/futex.h"

namespace vortex::test {

// Where `threads` threads meet, again and again. Spins: those who arrive leave within nanoseconds
// of each other, which is what makes races happen.
class SpinBarrier {
 public:
  explicit SpinBarrier(std::size_t threads) : threads_(threads) {}

  void arrive_and_wait() {
    const std::size_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

 private:
  const std::size_t threads_;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::size_t> round_{0};
};

// Runs body(0) ... body(count - 1), each in a thread of its own, all at once; returns when all have
// ended.
template <typename Body>
void run_together(std::size_t count, Body body) {
  SpinBarrier start(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&start, &body, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A thread that must pass a point before the test goes on: wait() returns after open(), on whatever
// threads they are called. Works inside a fault.
class Gate {
 public:
  void open() noexcept { passes_.close(); }
  void wait() noexcept { passes_.acquire(); }
  bool is_open() const noexcept { return passes_.closed(); }

 private:
  FutexSemaphore passes_;
};

inline std::size_t threads_of_process() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}
// Whether there are no more soon: one that has ended is there a little longer.
inline bool has_no_more_threads(std::size_t count) {
  constexpr int kMostTurns = 100'000;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (threads_of_process() <= count) return true;
    std::this_thread::yield();
  }
  return false;
}

// Whether the kernel has put a thread of this process to sleep.
inline bool asleep(std::int32_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t at = text.rfind(") ");
  return at != std::string::npos && text[at + 2] == 'S';
}

}  // namespace vortex::test

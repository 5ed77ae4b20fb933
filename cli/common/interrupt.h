// Signals that ask the program to end, as a request to stop.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <stop_token>

#include "vortex/error.h"

namespace vortex::cli {

// From start() on, SIGINT, SIGTERM and SIGHUP, unless they were ignored, request a stop. After one,
// system calls of the thread that made this are interrupted again and again (EINTR), for one that
// waits for the other end of a FIFO would never look at the request; disks try again, so that
// nothing else is cut short, and the pauses grow, so that what begins anew each time gets done.
// The first process of a container, which the kernel spares signals that it does not handle, is
// asked like any other. Where the system refuses the thread that waits for signals, they do what
// they did before. To be started before any other thread, one at a time. Uses SIGURG.
class Interrupt {
 public:
  Interrupt() = default;
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Once. Returns what a signal asks to stop.
  std::stop_token start();

  // Returns the result of `work`. When `work` throws an Error after a signal came, ends the process
  // by that signal, as the shell expects it.
  template <typename Work>
  auto end_process_or(Work work) {
    try {
      return work();
    } catch (const Error&) {
      if (const int signal = received_.load()) end_process_by(signal);
      throw;
    }
  }

 private:
  [[noreturn]] void end_process_by(int signal) noexcept;
  void wait_for_signal() noexcept;
  void restore() noexcept;

  std::stop_source source_;
  sigset_t signals_{};
  sigset_t mask_before_{};
  struct sigaction action_before_ {};
  const pthread_t maker_ = pthread_self();
  std::atomic<int> received_{0};
  std::atomic<bool> ending_{false};
  bool started_ = false;
  pthread_t thread_{};
};

}  // namespace vortex::cli

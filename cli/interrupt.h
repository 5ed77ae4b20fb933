// Signals that ask the program to end, as a request to stop.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <stop_token>

namespace vortex::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP, unless they were ignored, request a stop; nothing is
// interrupted in the middle. Make it before any other thread, one at a time.
class Interrupt {
 public:
  // Throws Error.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const noexcept { return source_.get_token(); }

  // Ends the process by the signal that came, as the shell expects it; returns if none did.
  void end_process_if_requested();

 private:
  static void* wait_for_signal(void* self) noexcept;

  std::stop_source source_;
  sigset_t signals_{};
  sigset_t mask_before_{};
  std::atomic<int> received_{0};
  pthread_t thread_{};
};

}  // namespace vortex::cli

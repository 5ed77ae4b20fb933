// A thread of ours that touches the arrays of streams.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <functional>

namespace vortex::inline v0 {

// Runs a function in a thread that gets no signals but those that its own instructions raise
// (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP), so that it runs a handler of the program only for
// what the program's code in it does, such as a comparator that divides by zero. The function must
// not throw.
class FaultingThread {
 public:
  // Throws Error when the system refuses a thread.
  explicit FaultingThread(std::function<void()> body);
  // Waits for its end. A forked child, which does not have the thread, does not.
  ~FaultingThread();
  FaultingThread(const FaultingThread&) = delete;
  FaultingThread& operator=(const FaultingThread&) = delete;

 private:
  static void* run(void* thread) noexcept;

  std::function<void()> body_;
  pthread_t thread_{};
  pid_t owner_;
};

}  // namespace vortex::inline v0

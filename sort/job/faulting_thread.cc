#include "sort/job/faulting_thread.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "vortex/error.h"
#include "vortex/os/masked_thread.h"

namespace vortex::inline v0 {

FaultingThread::FaultingThread(std::function<void()> body)
    : body_(std::move(body)), owner_(getpid()) {
  if (const int error = start_masked_thread(&thread_, &FaultingThread::run, this)) {
    throw Error(error, "the system refuses a thread");
  }
}

FaultingThread::~FaultingThread() {
  if (getpid() == owner_) pthread_join(thread_, nullptr);
}

void* FaultingThread::run(void* thread) noexcept {
  // What an instruction of the thread's own raises. The kernel ends a process that has such a
  // signal blocked, without its handler.
  sigset_t faults;
  sigemptyset(&faults);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigaddset(&faults, signal);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  static_cast<FaultingThread*>(thread)->body_();
  return nullptr;
}

}  // namespace vortex::inline v0

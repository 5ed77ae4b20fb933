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
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  static_cast<FaultingThread*>(thread)->body_();
  return nullptr;
}

}  // namespace vortex::inline v0

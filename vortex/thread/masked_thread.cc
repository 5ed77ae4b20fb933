#include "vortex/thread/masked_thread.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

void* run(void* body) noexcept {
  (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(body)))();
  return nullptr;
}

// The thread inherits the mask of its maker.
int start_with(const sigset_t& mask, const pthread_attr_t* attributes, pthread_t* thread,
               void* body) noexcept {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &mask, &before);
  const int error = pthread_create(thread, attributes, run, body);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

int MaskedThread::start(std::function<void()> body, ThreadSignals signals) {
  // What threw here would leave callers to wait for the threads that they have started before.
  std::unique_ptr<std::function<void()>> copy(new (std::nothrow)
                                                  std::function<void()>(std::move(body)));
  if (!copy) return ENOMEM;
  sigset_t mask;
  sigfillset(&mask);
  int error = EINVAL;
  if (signals == ThreadSignals::kOwnFaults) {
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&mask, fault);
  } else {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    error = start_with(mask, &attributes, &thread_, copy.get());
    pthread_attr_destroy(&attributes);
  }
  // Also for programs whose thread-local variables do not fit a small stack.
  if (error == EINVAL) error = start_with(mask, nullptr, &thread_, copy.get());
  if (error != 0) return error;
  copy.release();  // the thread has it
  owner_ = getpid();
  return 0;
}

void MaskedThread::join() noexcept {
  if (owner_ == getpid()) pthread_join(thread_, nullptr);
  owner_ = 0;
}

}}  // namespace vortex::v0

#include "vortex/os/masked_thread.h"

#include <signal.h>

namespace vortex::inline v0 {

int start_masked_thread(pthread_t* thread, void* (*run)(void*), void* argument) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(thread, nullptr, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace vortex::inline v0

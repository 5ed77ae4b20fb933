#include "cli/interrupt.h"

#include <unistd.h>

#include "io/masked_thread.h"
#include "vortex/error.h"

namespace vortex::cli {
namespace {

// What the destructor sends to end the thread.
constexpr int kEnd = SIGUSR2;

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      sigaddset(&signals_, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
  // Only the thread has it blocked and waits for it.
  sigaddset(&signals_, kEnd);
  if (const int error = start_masked_thread(&thread_, wait_for_signal, this)) {
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    throw Error(error, "start the thread that waits for signals");
  }
}

Interrupt::~Interrupt() {
  pthread_kill(thread_, kEnd);
  pthread_join(thread_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void* Interrupt::wait_for_signal(void* self) noexcept {
  auto& interrupt = *static_cast<Interrupt*>(self);
  for (;;) {
    int signal = 0;
    if (sigwait(&interrupt.signals_, &signal) != 0) continue;
    if (signal == kEnd) return nullptr;
    interrupt.received_.store(signal);
    interrupt.source_.request_stop();
  }
}

void Interrupt::end_process_if_requested() {
  const int received = received_.load();
  if (received == 0) return;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(received, &action, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  kill(getpid(), received);
}

}  // namespace vortex::cli

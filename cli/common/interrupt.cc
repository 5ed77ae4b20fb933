#include "cli/common/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace vortex::cli {

namespace {

// The signal that the destructor sends to end the thread, and that the thread sends to wake the
// thread that made the Interrupt. Nobody else has a use for it, but anybody may send it. Sending
// one of the signals for real-time fails where the queue is full (RLIMIT_SIGPENDING).
constexpr int kWake = SIGURG;
constexpr long kFirstPauseMs = 50;
constexpr long kLongestPauseMs = 10'000;
// The usual one would be most of what a program with little address space has.
constexpr std::size_t kStackBytes = std::size_t{512} << 10;

// What waits in the kernel when kWake comes goes on with SA_RESTART; without, it ends with EINTR.
void handle_wake(int flags, struct sigaction* before) {
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  wake.sa_flags = flags;
  sigaction(kWake, &wake, before);
}

// A sandbox may refuse to send a signal to one thread (tgkill). One that is sent to the process
// goes to any thread that waits for it, or that has not blocked it.
void send_wake(pthread_t thread) {
  if (pthread_kill(thread, kWake) != 0) kill(getpid(), kWake);
}

}  // namespace

std::stop_token Interrupt::start() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      sigaddset(&signals_, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
  handle_wake(SA_RESTART, &action_before_);  // until a stop is asked for, whoever sends it
  // Only the thread has it blocked and waits for it. Nothing else comes to the thread either.
  sigaddset(&signals_, kWake);
  sigset_t all;
  sigset_t others;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &others);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const auto body = [](void* self) -> void* {
    static_cast<Interrupt*>(self)->wait_for_signal();
    return nullptr;
  };
  started_ = pthread_create(&thread_, &attributes, body, this) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &others, nullptr);
  if (!started_) {
    restore();
    return source_.get_token();
  }
  // Whoever started the program may have blocked it.
  sigemptyset(&others);
  sigaddset(&others, kWake);
  pthread_sigmask(SIG_UNBLOCK, &others, nullptr);
  return source_.get_token();
}

Interrupt::~Interrupt() {
  if (!started_) return;
  ending_ = true;
  // Where it is sent to the whole process, nobody else may take it.
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, kWake);
  pthread_sigmask(SIG_BLOCK, &wake, nullptr);
  send_wake(thread_);
  pthread_join(thread_, nullptr);
  restore();
}

void Interrupt::restore() noexcept {
  sigaction(kWake, &action_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Interrupt::wait_for_signal() noexcept {
  long pause_ms = kFirstPauseMs;
  for (;;) {
    const bool requested = received_.load() != 0;
    const timespec pause{.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1'000'000};
    if (requested) pause_ms = std::min(2 * pause_ms, kLongestPauseMs);
    const int signal =
        requested ? sigtimedwait(&signals_, nullptr, &pause) : sigwaitinfo(&signals_, nullptr);
    if (ending_) return;
    if (signal > 0 && signal != kWake) {
      received_.store(signal);
      handle_wake(0, nullptr);
      source_.request_stop();
    }
    if (received_.load() != 0) send_wake(maker_);
  }
}

void Interrupt::end_process_by(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  kill(getpid(), signal);
  // The first process of a container outlives that; this is how a shell would tell.
  _exit(128 + signal);
}

}  // namespace vortex::cli

#include "vortex/engine/earlier_handler.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace vortex { inline namespace v0 {

namespace {

constinit EarlierHandler* kept = nullptr;

}  // namespace

EarlierHandler& EarlierHandler::keep(const struct sigaction& action) {
  for (EarlierHandler* handler = kept; handler != nullptr; handler = handler->next_) {
    if (handler->equals(action)) return *handler;
  }
  auto* const handler = new EarlierHandler(action);
  handler->next_ = std::exchange(kept, handler);
  return *handler;
}

void run_default_action(int signal, siginfo_t* info) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  // A fault comes again when the instruction does. A signal that was sent has to be sent again.
  if (sent_by_somebody(info)) {
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
  }
}

bool EarlierHandler::is_default() const noexcept {
  return spent_.load(std::memory_order_relaxed) ||
         ((action_.sa_flags & SA_SIGINFO) == 0 && action_.sa_handler == SIG_DFL);
}

bool EarlierHandler::is_ignored() const noexcept {
  return (action_.sa_flags & SA_SIGINFO) == 0 && action_.sa_handler == SIG_IGN;
}

void EarlierHandler::deliver(int signal, siginfo_t* info, void* context) noexcept {
  // The kernel does not let a fault be ignored either.
  if (is_default() || (is_ignored() && !sent_by_somebody(info))) {
    run_default_action(signal, info);
    return;
  }
  if (is_ignored()) return;
  if ((action_.sa_flags & static_cast<int>(SA_RESETHAND)) != 0 &&
      spent_.exchange(true, std::memory_order_relaxed)) {
    run_default_action(signal, info);
    return;
  }
  sigset_t blocked = action_.sa_mask;
  if ((action_.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((action_.sa_flags & SA_SIGINFO) != 0) {
    action_.sa_sigaction(signal, info, context);
  } else {
    action_.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool EarlierHandler::wants_room() const noexcept {
  return !is_default() && !is_ignored() && (action_.sa_flags & SA_ONSTACK) == 0;
}

struct sigaction EarlierHandler::restored() const noexcept {
  if (!is_default()) return action_;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  return action;
}

bool EarlierHandler::equals(const struct sigaction& action) const noexcept {
  if (spent_.load(std::memory_order_relaxed) || action.sa_flags != action_.sa_flags) return false;
  if ((action.sa_flags & SA_SIGINFO) != 0 ? action.sa_sigaction != action_.sa_sigaction
                                          : action.sa_handler != action_.sa_handler) {
    return false;
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&action.sa_mask, signal) != sigismember(&action_.sa_mask, signal)) return false;
  }
  return true;
}

}}  // namespace vortex::v0

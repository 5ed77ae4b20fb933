#include "vortex/engine/handler_places.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "vortex/engine/handler_stack.h"
#include "vortex/engine/machine_context.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"

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
  // Where a sandbox refuses to have it sent with what it told, it goes without that.
  if (sent_by_somebody(info) &&
      syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info) != 0) {
    if (raise(signal) != 0) kill(getpid(), signal);
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

std::size_t HandlerPlaces::next(EarlierHandler& handler, bool anew) noexcept {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  do {
    last_ = (last_ + 1) % kPlaces;
  } while (last_ == first);
  behind_[last_].store(&handler, std::memory_order_release);
  if (anew) first_.store(last_, std::memory_order_relaxed);
  return last_;
}

void HandlerPlaces::forward_here(const Signal& signal) noexcept {
  std::size_t place = signal.place;
  // Handlers that pass a signal on may do so in a circle, for instance one that was there before us
  // and installs itself once more. A signal that arrives a second time while it is being forwarded
  // (the same signal frame, further down the stack; a record of a handler that left by longjmp lies
  // at the same height or further down itself) goes to the handler from before the first place, and
  // the third time to nobody.
  Forwarding& forwarding = thread_state().forwarding;
  const Forwarding before = forwarding;
  const auto* const frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  const HandlerStack* const stack = current_handler_stack();
  const bool again =
      signal.context == before.context && stack == before.stack && frame < before.frame;
  forwarding = again ? before : Forwarding{signal.context, frame, stack, 0};
  if ((forwarding.places & (1U << place)) != 0) place = first_.load(std::memory_order_relaxed);
  if ((forwarding.places & (1U << place)) != 0) {
    run_default_action(signal.number, signal.info);
  } else {
    forwarding.places |= 1U << place;
    behind_[place]
        .load(std::memory_order_acquire)
        ->deliver(signal.number, signal.info, signal.context);
  }
  forwarding = before;
}

void HandlerPlaces::forward(const Signal& signal) noexcept {
  const bool wants_room = behind_[signal.place].load(std::memory_order_acquire)->wants_room();
  const auto go_on = [&]() noexcept { forward_here(signal); };
  if (!wants_room || !call_with_room(signal.context, go_on)) go_on();
}

void HandlerPlaces::forward_refused(const Signal& signal) noexcept {
  const std::uintptr_t access = goes_on_at(signal.context);
  forward(signal);
  if (goes_on_at(signal.context) == access) run_default_action(signal.number, signal.info);
}

struct sigaction installed_action(int signal) noexcept {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action;
}

void install_handler(int signal, HandlerPlaces::Function function) {
  struct sigaction action {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | (kStacksCanBeChanged ? SA_ONSTACK : 0);
  sigemptyset(&action.sa_mask);
  bind_calls_of_handlers();
  if (sigaction(signal, &action, nullptr) != 0) {
    throw Error(errno, std::string("cannot install a ") +
                           (signal == SIGBUS ? "SIGBUS" : "SIGSEGV") + " handler");
  }
}

}}  // namespace vortex::v0

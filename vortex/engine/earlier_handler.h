// A signal handler of the program's that stands behind ours, and how to call it.
#pragma once

#include <signal.h>

#include <atomic>

namespace vortex { inline namespace v0 {

// An action as it was when ours replaced it. Never freed: a signal handler of any thread may be
// about to call it.
class EarlierHandler {
 public:
  // The handler of an action, which is made once and kept for ever. One thread at a time.
  static EarlierHandler& keep(const struct sigaction& action);

  EarlierHandler(const EarlierHandler&) = delete;
  EarlierHandler& operator=(const EarlierHandler&) = delete;

  // Does what the kernel would do if this action were installed: calls the handler's function with
  // these arguments, on this stack, under the mask and flags it was installed with. The default
  // action, and SIG_IGN for a fault, end the process: they are put in place, and the instruction
  // faults again. Async-signal-safe.
  void deliver(int signal, siginfo_t* info, void* context) noexcept;

  // Whether the kernel would call it on the thread's own stack. It may count on more room than an
  // alternate signal stack has: see call_with_room().
  bool wants_room() const noexcept;

  // The action to put back when ours is taken away.
  struct sigaction restored() const noexcept;

  // Whether this is the same action, and still has all its calls.
  bool equals(const struct sigaction& action) const noexcept;

 private:
  explicit EarlierHandler(const struct sigaction& action) noexcept : action_(action) {}

  bool is_default() const noexcept;
  bool is_ignored() const noexcept;

  const struct sigaction action_;
  EarlierHandler* next_ = nullptr;  // of those that are kept
  std::atomic<bool> spent_{false};  // SA_RESETHAND: it has had its one call
};

// Whether a signal was sent by kill() or the like, as opposed to raised by the processor.
inline bool sent_by_somebody(const siginfo_t* info) noexcept { return info->si_code <= 0; }

// Ends the process by this signal when the handler that calls this returns, at the latest.
// Async-signal-safe.
void run_default_action(int signal, siginfo_t* info) noexcept;

}}  // namespace vortex::v0

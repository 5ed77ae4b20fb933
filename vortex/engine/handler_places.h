// Which handlers of the program's stand behind ours, and how a signal gets to them.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace vortex { inline namespace v0 {

// An action as it was when ours replaced it. Never freed: a signal handler of any thread may be
// about to call it.
class EarlierHandler {
 public:
  // The handler of an action, which is made once and kept for ever. One thread at a time.
  static EarlierHandler& keep(const struct sigaction& action);

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

// The handler that the kernel calls for a signal is ours. It has several places, each with a
// function of its own; whoever puts it in front once more takes the next one. A handler that was
// put in front of ours remembers the function it replaced. It passes a signal that it does not want
// on to that function (or puts the function back). The signal must then end up with the handlers
// that were there before that handler, not with that handler itself.
class HandlerPlaces {
 public:
  static constexpr std::size_t kPlaces = 8;
  using Function = void (*)(int, siginfo_t*, void*);

  struct Signal {
    std::size_t place;  // whose function got it
    int number;
    siginfo_t* info;
    void* context;
  };

  // The place that was out of use longest, from now on in front of `handler`; `anew`: the first one
  // of a handler that was away. One thread at a time, as are all that follow but forward().
  std::size_t next(EarlierHandler& handler, bool anew) noexcept;
  struct sigaction restored(std::size_t place) const noexcept {
    return behind_[place].load(std::memory_order_relaxed)->restored();
  }

  // A signal that is none of ours. Async-signal-safe.
  void forward(const Signal& signal) noexcept;
  // A signal of an access which nobody can serve. A handler that returned to it expects it to work
  // now. It never will, and the process ends.
  void forward_refused(const Signal& signal) noexcept;

 private:
  void forward_here(const Signal& signal) noexcept;

  std::array<std::atomic<EarlierHandler*>, kPlaces>
      behind_{};  // the handler that each passes signals to
  std::atomic<std::size_t> first_{0};
  std::size_t last_ = 0;  // the one taken last
};

// The functions of all places: each calls Handle(place, signal, info, context).
template <auto Handle>
struct HandlerFunctions {
  template <std::size_t Place>
  static void function(int signal, siginfo_t* info, void* context) noexcept {
    Handle(Place, signal, info, context);
  }

  static constexpr std::array<HandlerPlaces::Function, HandlerPlaces::kPlaces> kAll =
      []<std::size_t... Place>(std::index_sequence<Place...>) {
    return std::array<HandlerPlaces::Function, HandlerPlaces::kPlaces>{&function<Place>...};
  }
  (std::make_index_sequence<HandlerPlaces::kPlaces>());

  // The place whose function this is; kPlaces when it is none of ours.
  static std::size_t place_of(const struct sigaction& action) noexcept {
    if ((action.sa_flags & SA_SIGINFO) == 0) return HandlerPlaces::kPlaces;
    std::size_t place = 0;
    while (place < kAll.size() && kAll[place] != action.sa_sigaction) ++place;
    return place;
  }
};

// What is installed for the signal.
struct sigaction installed_action(int signal) noexcept;

// Installs a function of ours, on the signal stacks of threads. Throws Error.
void install_handler(int signal, HandlerPlaces::Function function);

}}  // namespace vortex::v0

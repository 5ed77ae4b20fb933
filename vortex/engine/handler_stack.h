// Stacks of the library's own, for what its signal handlers call.
#pragma once

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 {

// Whether handlers can go to another stack on this processor. Elsewhere they stay on those of the
// threads that they interrupt, whatever these are.
#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool kStacksCanBeChanged = true;
#else
inline constexpr bool kStacksCanBeChanged = false;
#endif

// One such stack. While a thread is on it, it is also the thread's alternate signal stack: signals
// that come meanwhile continue on it, those with SA_ONSTACK too, and do not begin at the top of the
// stack that the thread left, over the frames that are there. Never freed.
struct HandlerStack {
  bool contains(const void* address) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - begin) < bytes;
  }
  std::byte* top() const noexcept { return begin + bytes; }

  std::byte* begin;
  std::size_t bytes;
  HandlerStack* next = nullptr;  // of all
  std::atomic<bool> in_use{true};

  // These belong to the thread that is on it.
  std::byte* left_at = nullptr;  // where the stack that it left is free from, downwards
  std::uint64_t mask = 0;        // the signals that were blocked
  stack_t replaced{};            // its alternate stack inside the handler
  stack_t interrupted{};         // and in the code that the handler interrupted
};

// Calls `function(argument)` in a handler, where there is room: on a stack of the library's if the
// caller runs on an alternate signal stack of the thread's, which its owner may have made for no
// more than a crash report, and where it is otherwise. False: there is no memory for a stack, and
// nothing has been called. `context` is the signal's. Async-signal-safe.
bool call_with_room(const void* context, void (*function)(void*) noexcept, void* argument) noexcept;

// The same for a callable that takes nothing.
template <typename Function>
bool call_with_room(const void* context, const Function& function) noexcept {
  return call_with_room(
      context, [](void* argument) noexcept { (*static_cast<const Function*>(argument))(); },
      const_cast<Function*>(&function));
}

// Before there are handlers: calls what these call of the C library on any stack, for whose lazy
// binding the dynamic linker saves all registers, some KiB, which a small signal stack lacks.
void bind_calls_of_handlers() noexcept;

// The stack of the library's that the caller runs on; null: on another one.
HandlerStack* current_handler_stack() noexcept;

// Goes on at `target`, a place on the stack `stack` of the library's or, where that is null, on one
// of the thread's, with all signals blocked: one that came on the way would begin on the stack that
// is left. Async-signal-safe.
[[noreturn]] void jump_to(sigjmp_buf& target, const HandlerStack* stack,
                          const sigset_t& mask) noexcept;

// At the target: only the signals of `mask` are blocked from now on.
void end_jump() noexcept;

}}  // namespace vortex::v0

// The state that the fault handler keeps for each thread, and code that control must not leave.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct GuardFrame;
struct HandlerStack;
class Region;

// A region that a thread is inside of: because it faulted there, or because a call does what a
// fault would. They nest when a callback touches another stream.
struct ServiceFrame {
  Region* region;  // pinned
  ServiceFrame* outer;
  const void* context;  // the signal's; null: a call
};

// A fault that is none of ours, while a handler from before ours has it.
struct Forwarding {
  const void* context = nullptr;        // the signal frame
  const std::byte* frame = nullptr;     // our stack frame when it first came by
  const HandlerStack* stack = nullptr;  // the one of ours that this lies on; null: none
  std::uint32_t places = 0;             // bit i: it has come by trampoline i
};

// Lives in the initial TLS block (never allocated on first touch, which could call malloc inside
// the handler), hence the model attribute on every declaration.
struct ThreadState {
  ServiceFrame* serving = nullptr;  // innermost
  GuardFrame* guard = nullptr;      // innermost vortex::guarded() of this thread
  Forwarding forwarding;
  const Region* doubted = nullptr;  // the region whose doubtful fault it serves
  HandlerStack* stack = nullptr;  // the one that the thread is on, or has left by a jump of its own
  std::uint64_t mask_behind_jump = 0;  // the signals to be blocked where a jump of ours has landed
};

[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadState g_thread_state;

inline ThreadState& thread_state() noexcept { return g_thread_state; }

// While it lives, the guarded() calls that this thread is inside of do not count: a touch that
// cannot be served ends the process, instead of jumping over frames whose destructors must run.
// Guarded scopes that begin meanwhile count. Does not allocate.
class VORTEX_EXPORT UnguardedScope {
 public:
  UnguardedScope() noexcept;
  ~UnguardedScope();
  UnguardedScope(const UnguardedScope&) = delete;
  UnguardedScope& operator=(const UnguardedScope&) = delete;

 private:
  GuardFrame* const hidden_;
};

}}  // namespace vortex::v0

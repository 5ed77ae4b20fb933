// The checks of _FORTIFY_SOURCE take a jump from an alternate signal stack for one into a frame
// that is gone, when that stack lies above the thread's own.
#undef _FORTIFY_SOURCE

#include "vortex/engine/handler_stack.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "vortex/engine/thread_state.h"
#include "vortex/os/memory.h"

// Calls function(argument, where) with the stack pointer at `top`; `where` is the stack pointer of
// the stack that is left.
extern "C" void vortex_v0_call_on_stack(std::byte* top, void (*function)(void*, std::byte*),
                                        void* argument) noexcept;

// Debuggers and profilers find the way back by the frame pointer.
#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .globl vortex_v0_call_on_stack
  .hidden vortex_v0_call_on_stack
  .type vortex_v0_call_on_stack, @function
vortex_v0_call_on_stack:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rsi, %rax
  movq %rbp, %rsi
  movq %rdi, %rsp
  movq %rdx, %rdi
  callq *%rax
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  retq
  .cfi_endproc
  .size vortex_v0_call_on_stack, .-vortex_v0_call_on_stack
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text
  .p2align 2
  .globl vortex_v0_call_on_stack
  .hidden vortex_v0_call_on_stack
  .type vortex_v0_call_on_stack, %function
vortex_v0_call_on_stack:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  mov x9, x1
  mov x1, x29
  mov sp, x0
  mov x0, x2
  blr x9
  mov sp, x29
  .cfi_def_cfa_register sp
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size vortex_v0_call_on_stack, .-vortex_v0_call_on_stack
  .popsection
)");
#else
// Never called: see kStacksCanBeChanged.
void vortex_v0_call_on_stack(std::byte* top, void (*function)(void*, std::byte*),
                             void* argument) noexcept {
  function(argument, top);
}
#endif

// The address sanitizer has it, where the program does: it forgets what it knows of the frames
// that a jump leaves behind.
extern "C" __attribute__((weak)) void __asan_handle_no_return();

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kLeastBytes = std::size_t{256} << 10;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

std::atomic<HandlerStack*> all{nullptr};

// As large as the stacks of the program's threads are, within bounds. Pages come as they are
// touched.
std::size_t stack_bytes() noexcept {
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  const std::size_t page = os::page_bytes();
  return std::clamp<std::size_t>(limit.rlim_cur, kLeastBytes, kMostBytes) / page * page;
}

// A page for the record, a guard, and the stack. The record is no part of the stack: a thread that
// ends may unmap what it finds to be its signal stack (the address sanitizer does).
HandlerStack* make_stack() noexcept {
  const std::size_t page = os::page_bytes();
  const std::size_t bytes = stack_bytes();
  int error = 0;
  std::byte* const begin = os::reserve(2 * page + bytes, &error);
  if (begin == nullptr) return nullptr;
  std::byte* const usable = begin + 2 * page;
  if (os::map_memory(begin, page, &error) == nullptr ||
      os::map_memory(usable, bytes, &error) == nullptr) {
    os::unmap(begin, 2 * page + bytes);
    return nullptr;
  }
  // A stack uses a few pages of its top, not a huge one.
  os::advise(usable, bytes, MADV_NOHUGEPAGE);
  auto* const stack = new (begin) HandlerStack{usable, bytes};
  stack->next = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(stack->next, stack, std::memory_order_release)) {
  }
  return stack;
}

HandlerStack* take_stack() noexcept {
  HandlerStack* stack = all.load(std::memory_order_acquire);
  for (; stack != nullptr; stack = stack->next) {
    if (!stack->in_use.load(std::memory_order_relaxed) &&
        !stack->in_use.exchange(true, std::memory_order_acquire)) {
      return stack;
    }
  }
  return make_stack();
}

void give_back(HandlerStack& stack) noexcept {
  stack.in_use.store(false, std::memory_order_release);
}

// In the kernel's form, which is small, as the stack may be where this is called.
void set_mask(std::uint64_t mask, std::uint64_t* before) noexcept {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, before, sizeof mask);
}
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

void set_alternate_stack(const stack_t& stack, stack_t* before) noexcept {
  syscall(SYS_sigaltstack, &stack, before);
}

bool on_alternate_stack(const ucontext_t& context) noexcept {
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const auto* const begin = static_cast<const std::byte*>(context.uc_stack.ss_sp);
  return static_cast<std::size_t>(here - begin) < context.uc_stack.ss_size;
}

struct Call {
  HandlerStack* stack;
  void (*function)(void*) noexcept;
  void* argument;
};

// On the stack, with all signals blocked: one that came before the kernel knows of the stack would
// begin on the one that was left, over its frames.
void arrive(void* argument, std::byte* left_at) {
  const Call call = *static_cast<const Call*>(argument);
  HandlerStack& stack = *call.stack;
  stack.left_at = left_at;
  stack_t alternate{};
  alternate.ss_sp = stack.begin;
  alternate.ss_size = stack.bytes;
  set_alternate_stack(alternate, &stack.replaced);
  set_mask(stack.mask, nullptr);
  call.function(call.argument);
}

[[noreturn]] void jump(sigjmp_buf& target) noexcept {
  // By its address, which the dynamic linker has found beforehand: to look it up here would take
  // some kilobytes of the stack.
  void (*const volatile jump_there)(sigjmp_buf, int) = &siglongjmp;
  jump_there(target, 1);
  __builtin_unreachable();
}

struct Jump {
  sigjmp_buf* target;
  HandlerStack* left;
};

// Back on the stack that the thread had left.
[[noreturn]] void land(void* argument, std::byte* /*left_at*/) {
  const Jump way = *static_cast<const Jump*>(argument);
  set_alternate_stack(way.left->interrupted, nullptr);
  give_back(*way.left);
  jump(*way.target);
}

}  // namespace

void bind_calls_of_handlers() noexcept {
  static_cast<void>(stack_bytes());
  stack_t now{};
  syscall(SYS_sigaltstack, nullptr, &now);
  sigset_t mask{};
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  if (sigismember(&mask, SIGSEGV) == 0) sigaddset(&mask, SIGSEGV);
}

HandlerStack* current_handler_stack() noexcept {
  HandlerStack* const stack = thread_state().stack;
  return stack != nullptr && stack->contains(__builtin_frame_address(0)) ? stack : nullptr;
}

bool call_with_room(const void* context, void (*function)(void*) noexcept,
                    void* argument) noexcept {
  const auto& interrupted = *static_cast<const ucontext_t*>(context);
  if (!kStacksCanBeChanged || !on_alternate_stack(interrupted) ||
      current_handler_stack() != nullptr) {
    function(argument);
    return true;
  }
  ThreadState& thread = thread_state();
  // A handler of the program's left it by a jump of its own.
  if (HandlerStack* const stale = std::exchange(thread.stack, nullptr)) give_back(*stale);
  HandlerStack* const stack = take_stack();
  if (stack == nullptr) return false;
  stack->interrupted = interrupted.uc_stack;
  set_mask(kAllSignals, &stack->mask);
  thread.stack = stack;
  Call call{stack, function, argument};
  vortex_v0_call_on_stack(stack->top(), &arrive, &call);
  thread.stack = nullptr;
  set_alternate_stack(stack->replaced, nullptr);
  give_back(*stack);
  return true;
}

void jump_to(sigjmp_buf& target, const HandlerStack* stack, const sigset_t& mask) noexcept {
  ThreadState& thread = thread_state();
  std::memcpy(&thread.mask_behind_jump, &mask, sizeof thread.mask_behind_jump);
  set_mask(kAllSignals, nullptr);
  HandlerStack* const here = current_handler_stack();
  if (here == nullptr || here == stack) jump(target);
  thread.stack = const_cast<HandlerStack*>(stack);
  if (__asan_handle_no_return != nullptr) __asan_handle_no_return();
  Jump way{&target, here};
  vortex_v0_call_on_stack(here->left_at, &land, &way);
  __builtin_unreachable();
}

void end_jump() noexcept { set_mask(thread_state().mask_behind_jump, nullptr); }

}}  // namespace vortex::v0

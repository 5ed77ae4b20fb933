// The processor's report of a fault, and where the interrupted code goes on.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "vortex/engine/fault_server.h"

namespace vortex { inline namespace v0 {

// Whether the faulting instruction read or wrote.
inline Access access_of(const ucontext_t* context) noexcept {
#if defined(__x86_64__)
  // Bit 1 of the page-fault error code: set for a write.
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? Access::kWrite : Access::kRead;
#elif defined(__aarch64__)
  // Among the records behind the registers is the syndrome of the exception: bit 6 is set for a
  // write, but also, beside bit 8, for the maintenance of a cache, which the kernel calls a read.
  constexpr std::uint64_t kWrite = std::uint64_t{1} << 6, kMaintenance = std::uint64_t{1} << 8;
  const auto* at = reinterpret_cast<const std::byte*>(context->uc_mcontext.__reserved);
  const auto* const end = at + sizeof context->uc_mcontext.__reserved;
  while (at + sizeof(esr_context) <= end) {
    const auto* const record = reinterpret_cast<const _aarch64_ctx*>(at);
    if (record->magic == ESR_MAGIC) {
      const std::uint64_t esr = reinterpret_cast<const esr_context*>(at)->esr;
      return (esr & (kWrite | kMaintenance)) == kWrite ? Access::kWrite : Access::kRead;
    }
    if (record->size == 0) break;
    at += record->size;
  }
  return Access::kUnknown;
#else
  (void)context;
  return Access::kUnknown;
#endif
}

// Where the interrupted code goes on when the handler returns. A handler may have changed it: Go
// and Java go on where they make an exception of the fault. 0 where it is not known.
inline std::uintptr_t goes_on_at(const void* context) noexcept {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.pc;
#else
  (void)context;
  return 0;
#endif
}

}}  // namespace vortex::v0

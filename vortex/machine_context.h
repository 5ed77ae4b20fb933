// What the processor said about a fault.
#pragma once

#include <ucontext.h>

#include "vortex/fault.h"

namespace vortex {

// Whether the faulting instruction read or wrote.
inline Access access_of(const ucontext_t* context) noexcept {
#if defined(__x86_64__) || defined(__i386__)
  // Bit 1 of the page-fault error code: set for a write.
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? Access::kWrite : Access::kRead;
#else
  (void)context;
  return Access::kUnknown;
#endif
}

}  // namespace vortex

// The error of the stream behind a handle, and how another thread causes one.
#pragma once

#include <cerrno>

#include "capi/stream/handle.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 { namespace capi {

inline int failure_of(const Handle& handle, const Stream& stream) noexcept {
  return answer(handle, [&] { stream.failure().throw_if_failed(); });
}

inline void cancel(Stream& stream, int error, const char* cause) noexcept {
  stream.cancel(error > 0 ? error : errno_from(error, ECANCELED),
                cause != nullptr ? cause : "it was cancelled");
}

}}}  // namespace vortex::v0::capi

// How the C interface names the ways between a file and memory.
#pragma once

#include <cerrno>
#include <string>

#include "vortex/c.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex::inline v0::capi {

inline Caching caching_of(int caching) {
  switch (caching) {
    case VTX_CACHING_AUTO:
      return Caching::kAuto;
    case VTX_CACHING_DIRECT:
      return Caching::kDirect;
    case VTX_CACHING_BUFFERED:
      return Caching::kBuffered;
  }
  throw Error(EINVAL, "there is no caching " + std::to_string(caching));
}

}  // namespace vortex::inline v0::capi

// An array to write of the C interface, whatever is behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/output_stream.h"

struct vtx_output : vortex::capi::Handle {
  virtual vortex::OutputStreamBase& stream() noexcept = 0;
};

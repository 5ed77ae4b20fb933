// Options that the C interface has for files of every kind.
#pragma once

#include <cerrno>
#include <string>

#include "capi/stream/handle.h"
#include "vortex/block_pool.h"
#include "vortex/c.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

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

// The fields that readers, writers and arrays share.
template <typename Options, typename Given>
void set_file_options(Options& options, const Given& wanted, BlockPool* pool) {
  options.pool = pool;
  options.block_bytes = wanted.block_bytes;
  set_unless_zero(options.comeback_blocks, wanted.comeback_blocks);
  options.caching = caching_of(wanted.caching);
}

// The fields that readers and arrays share.
template <typename Options, typename Given>
void set_reading_options(Options& options, const Given& wanted, BlockPool* pool) {
  set_file_options(options, wanted, pool);
  options.memory_bytes = wanted.memory_bytes;
  set_unless_zero(options.read_ahead, wanted.read_ahead);
  set_unless_zero(options.cursors, wanted.cursors);
}

}}}  // namespace vortex::v0::capi

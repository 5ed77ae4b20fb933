// System calls on the memory of streams.
//
// The kernel's own accesses raise no SIGSEGV: a bare read(2) or write(2) on stream memory that is
// not placed fails with EFAULT or, when the first part is placed, comes back short without an
// error. These helpers place each part first (see also prefault() of the streams).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

namespace vortex::inline v0 {

// Writes bytes [offset, offset + bytes) of the stream to the descriptor, all of them. Throws Error:
// the stream's failure, EINVAL behind the stream's window, ERANGE beyond the end of the data
// (before anything is written where the length is known, else before the first block that does not
// hold all that is wanted of it), or what write(2) reports. Not inside a fault.
void write_from_stream(int descriptor, InputStreamBase& stream, std::uint64_t offset,
                       std::uint64_t bytes);

// Reads from the descriptor into [offset, offset + bytes) of the stream, until that is full or the
// descriptor is at its end; returns how many bytes were read. Throws as above. Not inside a fault.
std::uint64_t read_into_stream(int descriptor, OutputStreamBase& stream, std::uint64_t offset,
                               std::uint64_t bytes);

}  // namespace vortex::inline v0

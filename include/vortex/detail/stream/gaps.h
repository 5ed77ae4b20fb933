// The contents of the bytes that a writer of a stream or a file leaves out.
#pragma once

#include <cstdint>

namespace vortex { inline namespace v0 {

// The bytes that a reader finds where the writer has left bytes out of a block that it touched.
enum class Gaps : std::uint8_t {
  kZeros,        // each block is cleared before the writer gets it, which costs a pass over it
  kUnspecified,  // whatever the memory held, the data of other users of the pool included: for
                 // writers that write every byte
};

}}  // namespace vortex::v0

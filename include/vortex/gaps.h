// What an output stream promises about bytes that are not written.
#pragma once

#include <cstdint>

namespace vortex::inline v0 {

// What is found where a writer has left bytes out of a block that it touched.
enum class Gaps : std::uint8_t {
  kZeros,        // each block is cleared before the writer gets it, which costs a pass over it
  kUnspecified,  // whatever the memory held, the data of other users of the pool included: for
                 // writers that write every byte
};

}  // namespace vortex::inline v0

#include "vortex/block_window.h"

#include <cerrno>

#include "vortex/error.h"

namespace vortex {

void check_prefault_range(const std::string& stream, std::uint64_t first, std::uint64_t last,
                          std::uint64_t floor, std::size_t window_blocks) {
  if (last - first >= window_blocks) {
    throw Error(EINVAL, "stream '" + stream + "': the range to place spans " +
                            std::to_string(last - first + 1) + " blocks, and the window holds " +
                            std::to_string(window_blocks) + ": raise the comeback");
  }
  if (first < floor) {
    throw Error(EINVAL, "stream '" + stream + "': the range to place begins in block " +
                            std::to_string(first) + ", and the window has moved on to block " +
                            std::to_string(floor));
  }
}

}  // namespace vortex

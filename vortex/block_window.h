// What the streams that move blocks through a window have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vortex {

// The cause recorded when the kernel refuses to move a block.
inline constexpr const char kCannotMoveBlock[] =
    "the kernel refuses to move a block (ENOMEM: vm.max_map_count is exhausted by maps of others)";

// Throws Error(EINVAL) unless blocks [first, last] can be placed together in a window of
// `window_blocks` whose oldest block is `floor`.
void check_prefault_range(const std::string& stream, std::uint64_t first, std::uint64_t last,
                          std::uint64_t floor, std::size_t window_blocks);

}  // namespace vortex

// What streams say when a block cannot be moved.
#pragma once

namespace vortex::inline v0 {

// The cause recorded when the kernel refuses to move a block.
inline constexpr const char kCannotMoveBlock[] =
    "the kernel refuses to move a block (ENOMEM: vm.max_map_count is exhausted by maps of others, "
    "or RLIMIT_DATA has no room for a second pool)";

}  // namespace vortex::inline v0

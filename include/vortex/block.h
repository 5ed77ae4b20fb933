// The unit that moves.
#pragma once

#include <cstdint>

namespace vortex::inline v0 {

// Names one block of a pool: an index, cheap to copy. Whoever holds it owns the block, by
// convention of take and give back; the type does not enforce it.
struct Block {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t index = kNone;

  explicit operator bool() const noexcept { return index != kNone; }
  friend bool operator==(Block, Block) = default;
};

// What asking for a block gives.
struct BlockGrant {
  Block block;    // resting, contents unspecified; none when error is not 0
  int error = 0;  // EAGAIN: a maximum is reached or the pool has no block to spare; ENOMEM: the
                  // system refused the memory for a block not populated yet
};

}  // namespace vortex::inline v0

// Blocks that change hands where they are.
#pragma once

#include <cstddef>

#include "vortex/block_pool.h"

namespace vortex { inline namespace v0 {

// A sink or a source may take blocks over at the addresses of the stream that held them, instead of
// at home, so that the next stream moves them there in one step: half of all moves. Meanwhile the
// stream that gave a block away can still touch it (see Handover::kInPlace).
//
// Every move of such a block goes through place(), by the streams at both ends and whoever holds it
// between. Called inside faults: no allocation, no exceptions.
class InPlaceHandover {
 public:
  // BlockPool::place() for a block that the caller owns; its home is an address like any other.
  virtual int place(Block block, std::byte* address) noexcept = 0;

  // The lowest address of a block within [begin, end), whoever owns it; `end` when there is none.
  virtual std::byte* lowest_placed(std::byte* begin, std::byte* end) noexcept = 0;

  // Brings every block within [begin, end) home: those addresses are about to go.
  virtual void recall(std::byte* begin, std::byte* end) noexcept = 0;

 protected:
  ~InPlaceHandover() = default;
};

}}  // namespace vortex::v0

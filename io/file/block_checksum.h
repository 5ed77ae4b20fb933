// A checksum of a block that a disk is to keep.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Tells blocks apart that a disk has changed from those that were written: flipped bits, sectors
// that are old, or that lie elsewhere in the block. Against accidents, not against attackers. Sums
// of products of halves of words, as in XXH3 (Collet), with a key for each place: it goes as fast
// as memory with AVX2, at a third to a half of that without, and the value is the same. Lives as
// long as the process at most: another build may have another value.
//
// Async-signal-safe, any thread.
VORTEX_EXPORT std::uint32_t block_checksum(const std::byte* begin, std::size_t bytes) noexcept;

// What a message says of blocks that have another one, behind their place.
inline constexpr const char* kOtherBytes = ": other bytes than were written there";

// The same by plain loops, to test it.
VORTEX_EXPORT std::uint32_t plain_block_checksum(const std::byte* begin,
                                                 std::size_t bytes) noexcept;

}}  // namespace vortex::v0

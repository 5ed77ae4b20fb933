// The key that belongs at a place, without moving anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sort/memory/shares.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

struct NthKey {
  std::uint64_t bits;
  std::size_t less;  // how many keys are less
};

// The key that place `nth` has when the keys are sorted; there are more keys than that. One pass:
// two keys of a sample that are likely to enclose it are found, the keys below are counted, those
// between are gathered and searched in the same way. Where the sample was wrong, bytes of the keys
// are counted, from the highest, in eight passes. Takes a byte a key, 4 where they are fewer than
// 2^18; throws std::bad_alloc.
NthKey nth_key(const KeySource& keys, std::size_t nth, Shares& shares);

}}}  // namespace vortex::v0::detail

// The key that belongs at a place, without moving anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "sort/memory/shares.h"
#include "vortex/detail/array/compiled_calls.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

struct NthKey {
  std::uint64_t bits;
  std::size_t less;  // how many keys are less
};

// The key that place `nth` has when the keys are sorted; there are more keys than that. One pass:
// two keys of a sample that are likely to enclose it are found, the keys below are counted, those
// between are gathered and searched in the same way. Where the sample was wrong, another one is
// taken of the keys that are left; where that does not help, bytes of the keys are counted, from
// the highest, in eight passes. Takes 6 MiB and one percent of the records' bytes at most; throws
// std::bad_alloc. A test gives it less room for keys, of 8 KiB at least.
NthKey nth_key(const KeySource& keys, std::size_t nth, std::size_t record_bytes, Shares& shares,
               std::size_t most_room = ~std::size_t{0});

// The calls of compiled_calls.h with shares of the records that are given: a test counts who works
// on them.
void select(const Selection& all, std::size_t k, Shares& shares);
// Makes shares of so many records.
using SharesOf = std::function<std::unique_ptr<Shares>(std::size_t count)>;
// The most of k for which each of several threads keeps its own k least keys: room of a MiB.
inline constexpr std::size_t kMostKeptByEach = std::size_t{1} << 15;
void partial_sort(const Selection& all, std::size_t k, const SharesOf& shares_of,
                  std::size_t most_kept_by_each = kMostKeptByEach);

}}}  // namespace vortex::v0::detail

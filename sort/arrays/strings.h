// Views of strings and the index that sorts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sort/arrays/string_sort.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// How many threads sort that many strings, of those that a sort's options give.
VORTEX_EXPORT unsigned threads_for_strings(std::size_t count, unsigned threads);

// Puts the views into the order of the index, whose values are their places and which it uses up.
// With `drops_same`, those whose entries have the chunk kSameKey are left out. Returns how many are
// in front then.
VORTEX_EXPORT std::size_t arrange_views(std::span<std::string_view> views,
                                        std::span<IndexEntry> index, bool drops_same,
                                        detail::ThreadTeam& team);

}}  // namespace vortex::v0

// Arrays of numbers whose type is known when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/detail/record/sort_key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// The inverse of keys_of_numbers(): puts the numbers that have these bits to numbers[begin] and
// behind.
void write_numbers(void* numbers, const NumberForm& form, std::size_t begin, std::size_t count,
                   const std::uint64_t* bits) noexcept;

// A place from `begin` on such that none in front of it has a key with bits less than `bound`,
// which is a key's: `end`, or one with such a key soon behind it.
std::size_t skip_not_less(const void* numbers, const NumberForm& form, std::size_t begin,
                          std::size_t end, std::uint64_t bound) noexcept;

// Sorts as sort() of a span of them does. Numbers of 1 and 2 bytes are counted.
VORTEX_EXPORT void sort_numbers(void* numbers, const NumberForm& form, std::size_t count,
                                unsigned threads);

}}}  // namespace vortex::v0::detail

// Sizes and other numbers as people write them, and the largest size of a sort's memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "vortex/sort_resources.h"

namespace vortex::cli {

// A number with an optional unit: k, M, G, T and KiB, MiB, GiB, TiB are powers of 1024 (as for GNU
// sort), kB, MB, GB, TB powers of 1000; upper and lower case mean the same. Whole numbers only.
// Throws Error(EINVAL); `what` begins the message.
std::uint64_t parse_size(std::string_view text, const std::string& what);

// A whole number from `least` to `most`, without a unit. Throws Error(EINVAL); `what` begins the
// message.
std::uint64_t parse_count(std::string_view text, const std::string& what, std::uint64_t least,
                          std::uint64_t most);

// The most memory that a sort of the program is given: what this process may take, less what it
// takes beside the memory that it was told to sort in.
std::uint64_t most_memory_bytes(const MemoryLimits& limits) noexcept;

}  // namespace vortex::cli

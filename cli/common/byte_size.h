// Sizes and other numbers as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vortex::cli {

// A number with an optional unit: k, M, G, T and KiB, MiB, GiB, TiB are powers of 1024 (as for GNU
// sort), kB, MB, GB, TB powers of 1000; upper and lower case mean the same. Whole numbers only.
// Throws Error(EINVAL); `what` begins the message.
std::uint64_t parse_size(std::string_view text, const std::string& what);

// A whole number from `least` to `most`, without a unit. Throws Error(EINVAL); `what` begins the
// message.
std::uint64_t parse_count(std::string_view text, const std::string& what, std::uint64_t least,
                          std::uint64_t most);

}  // namespace vortex::cli

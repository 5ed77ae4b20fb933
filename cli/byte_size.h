// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vortex::cli {

// A number with an optional unit: k, M, G, T and KiB, MiB, GiB, TiB are powers of 1024 (as for GNU
// sort), kB, MB, GB, TB powers of 1000; upper and lower case mean the same. Whole numbers only.
// Throws Error(EINVAL); `what` begins the message.
std::uint64_t parse_size(std::string_view text, const std::string& what);

}  // namespace vortex::cli

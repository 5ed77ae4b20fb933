// MD5 (RFC 1321).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace vortex { inline namespace v0 {

using Md5Digest = std::array<unsigned char, 16>;

Md5Digest md5(std::string_view text) noexcept;

}}  // namespace vortex::v0

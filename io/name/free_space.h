// How much a file system has left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Bytes that unprivileged writers may still take, of the file system of a folder or of an open
// file. None where the file system does not tell how large it is (ramfs, tmpfs without a limit,
// many in user space or on a network): unknown is not zero. Throws Error: what statvfs(3) reports.
VORTEX_EXPORT std::optional<std::uint64_t> free_bytes_in(const std::string& folder);
// None, too, where the system refuses to say. May be called inside a fault.
std::optional<std::uint64_t> free_bytes_around(int file) noexcept;

}}  // namespace vortex::v0

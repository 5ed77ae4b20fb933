// Files that end in the middle of an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vortex { inline namespace v0 {

// Throws Error(EINVAL) where `length` bytes are no whole elements. `name` is the file's.
void expect_whole_elements(const std::string& name, std::uint64_t length,
                           std::size_t element_bytes);

}}  // namespace vortex::v0

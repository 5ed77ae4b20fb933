// The place of data in files, as readers and writers take it from a striped file.
#pragma once

#include <concepts>
#include <memory>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// Which bytes lie in which file and at which place of it: one file, or several on several disks.
// Readers and writers take one; see striped_file.h.
class FileLayout;

}}  // namespace vortex::v0

template <>
struct std::default_delete<vortex::FileLayout> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::FileLayout*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  VORTEX_EXPORT void operator()(vortex::FileLayout* layout) const noexcept;
};

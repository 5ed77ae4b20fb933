// How files are read and written, and what that took.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

namespace vortex::inline v0 {

// Which bytes lie in which file and at which place of it: one file, or several on several disks.
// Readers and writers take one; see striped_file.h.
class FileLayout;

}  // namespace vortex::inline v0

template <>
struct std::default_delete<vortex::FileLayout> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::FileLayout*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  void operator()(vortex::FileLayout* layout) const noexcept;
};

namespace vortex::inline v0 {

// How a file is read or written.
enum class Caching : std::uint8_t {
  kAuto,  // reading: each request through the page cache if it holds the data, around it otherwise;
          // writing: around it
  kDirect,    // around the page cache; through it only where the file system refuses that
  kBuffered,  // through the page cache
};

struct FileSourceStatistics {
  std::uint64_t requests = 0;
  std::uint64_t cached_requests = 0;  // of those, through the page cache
  std::uint64_t bytes = 0;
  std::uint64_t waits = 0;  // takes that found their block not there yet
  std::uint64_t waited_ns = 0;
};

struct FileSinkStatistics {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t waits = 0;  // takes that found all blocks on their way to the disk
  std::uint64_t waited_ns = 0;
};

}  // namespace vortex::inline v0

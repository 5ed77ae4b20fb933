// How files are read and written, and what that took.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "vortex/detail/export.h"
#include "vortex/detail/gaps.h"

namespace vortex::inline v0 {

// Which bytes lie in which file and at which place of it: one file, or several on several disks.
// Readers and writers take one; see striped_file.h.
class FileLayout;

class BlockPool;
class Disk;

}  // namespace vortex::inline v0

template <>
struct std::default_delete<vortex::FileLayout> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::FileLayout*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  VORTEX_EXPORT void operator()(vortex::FileLayout* layout) const noexcept;
};

namespace vortex::inline v0 {

// How a file is read or written.
enum class Caching : std::uint8_t {
  kAuto,  // reading: each request through the page cache if it holds the data, around it otherwise;
          // writing: around it
  kDirect,    // around the page cache; through it only where the file system refuses that
  kBuffered,  // through the page cache
};

struct FileReaderOptions {
  std::size_t block_bytes = 0;      // 0: 2 MiB, less for files smaller than the pool
  std::size_t comeback_blocks = 1;  // M: how far the reader may go back
  std::size_t read_ahead = 4;       // N: requests beyond the block in use
  std::size_t request_bytes = 0;    // 0: a block, or several small ones
  Caching caching = Caching::kAuto;
  Disk* disk = nullptr;  // null: one of its own. Must outlive the reader
  BlockPool* pool =
      nullptr;  // null: one of its own, of about the size needed. Must outlive the reader
  // Address space for data whose length nobody knows beforehand: more than that cannot be read.
  // Halved, down to a gigabyte, when the system refuses; see InputStreamBase::reserved_bytes().
  std::uint64_t unknown_length_bytes = std::uint64_t{1} << 40;
  std::string name = {};  // for messages; the path by default
};

struct FileWriterOptions {
  std::size_t block_bytes = 0;      // 0: 2 MiB, less when `expected_bytes` is small
  std::size_t comeback_blocks = 1;  // L: how far the writer may go back
  std::size_t write_behind = 4;     // requests under way
  std::size_t request_bytes = 0;    // 0: a block, or several small ones
  Caching caching = Caching::kAuto;
  Gaps gaps = Gaps::kZeros;          // kUnspecified saves the disks' threads a pass over them
  bool sync = false;                 // finish() returns when data and name have reached the disk
  bool replace = true;               // an existing file gives way at finish(); otherwise EEXIST
  std::uint64_t expected_bytes = 0;  // space to reserve now, so that a full disk shows now; 0: none
  Disk* disk = nullptr;              // null: one of its own. Must outlive the writer
  BlockPool* pool =
      nullptr;  // null: one of its own, of about the size needed. Must outlive the writer
  std::uint64_t reserve_bytes = std::uint64_t{1}
                                << 40;  // address space: the most that can be written
  std::uint64_t least_reserve_bytes = std::uint64_t{1}
                                      << 30;  // accepted when the system refuses more
  std::string name = {};                      // for messages; the path by default
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

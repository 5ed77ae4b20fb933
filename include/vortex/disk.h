// Disks: the queues of requests through which files are read and written, and how fast they are.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// A queue of requests and the backend that carries them out. A program makes one to share it
// between files, or to choose its backend and depth, and passes it on; nothing else can be done
// with it.
class Disk;

}}  // namespace vortex::v0

// A disk that open_disk() made waits for its requests when it is destroyed.
template <>
struct std::default_delete<vortex::Disk> {
  constexpr default_delete() noexcept = default;
  template <typename Derived>
  requires std::convertible_to<Derived*, vortex::Disk*>
  constexpr default_delete(const default_delete<Derived>&) noexcept {}
  VORTEX_EXPORT void operator()(vortex::Disk* disk) const noexcept;
};

namespace vortex { inline namespace v0 {

// How a file is read or written.
enum class Caching : std::uint8_t {
  kAuto,  // reading: each request through the page cache if it holds the data, around it otherwise;
          // writing: around it
  kDirect,    // around the page cache; through it only where the file system refuses that
  kBuffered,  // through the page cache
};

struct DiskOptions {
  std::string name = "disk";
  unsigned depth = 0;  // requests issued at once, at most 4096; 0: what the backend does best with
};

struct DiskStatistics {
  std::string backend;
  std::string fallback;  // why a better backend is not used; empty when the best one is
  std::string
      registration;         // how the memory of the blocks is known to the kernel, or why it is not
  std::uint64_t reads = 0;  // requests that ended, and their bytes
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t failures = 0;        // requests that ended with an error
  std::uint64_t attempts = 0;        // system calls or submissions
  std::uint64_t fixed_attempts = 0;  // of those, with registered memory
  std::uint64_t retries = 0;         // after EINTR or EAGAIN
  std::uint64_t short_transfers = 0;
  std::uint64_t waits = 0;  // calls of wait() that found the request under way
  std::uint64_t waited_ns = 0;
  unsigned peak_in_flight = 0;
};

enum class DiskBackend : std::uint8_t {
  kBest,  // io_uring, or threads where it is refused
  kUring,
  kThreads,
};

struct OpenDiskOptions : DiskOptions {
  DiskBackend backend = DiskBackend::kBest;
};

// With kBest, a refusal of io_uring is no error: the statistics of the disk say why it is served by
// threads. Throws Error when the backend that was asked for cannot be had, and EINVAL for a depth
// beyond its limit.
VORTEX_EXPORT std::unique_ptr<Disk> open_disk(const OpenDiskOptions& options = {});

// In bytes a second, never 0.
struct VORTEX_EXPORT DiskSpeed {
  double read = 0;
  double write = 0;
  // The speed of reading while as many bytes are written at the same time. A full-duplex disk comes
  // near the smaller of the two speeds above, a half-duplex one only half as far.
  double copy = 0;

  // The least time in which the disk can read and write these bytes, in any order.
  double seconds(std::uint64_t read_bytes, std::uint64_t written_bytes) const noexcept;
};

struct DiskSpeedOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;  // of each of the two files, at most
  // Writing, reading and copying each end early after so long, once the requests under way have
  // ended. A disk that is slow is measured with less data.
  std::uint64_t most_ns = 500'000'000;
  std::size_t request_bytes = std::size_t{1} << 20;  // a multiple of 4096
  unsigned depth = 4;                          // requests under way, of each kind, at most 4096
  std::function<std::uint64_t()> now_ns = {};  // the disk's clock; none: the machine's
};

// Writes a temporary file in the folder, reads it, and copies it to another one: around the page
// cache where the file system can, synced, the room allocated before. Takes up to three times
// `most_ns`, and the time of `depth` requests each.
//
// Blocks; allocates 2 * depth * request_bytes of memory. Throws Error: ENOSPC, and whatever the
// folder or the disk reports. The files have no names and are gone afterwards in any case.
VORTEX_EXPORT DiskSpeed measure_disk_speed(Disk& disk, const std::string& folder,
                                           const DiskSpeedOptions& options = {});

// What each request costs a disk beside the time for its bytes, in bytes that it could have moved
// meanwhile: near 0 where any place is as good as another, megabytes where an arm goes there.
//
// Writes a temporary file of options.bytes, then reads small parts of it at places far apart, and
// then parts of options.request_bytes, each for at most options.most_ns. A file that the cache of
// the disk holds whole shows no arm: the larger it is, the better. Blocks, allocates and throws as
// measure_disk_speed() does. 0 where so little was written in the time that there is that nothing
// can be told.
VORTEX_EXPORT double measure_request_cost(Disk& disk, const std::string& folder,
                                          const DiskSpeedOptions& options = {});

}}  // namespace vortex::v0

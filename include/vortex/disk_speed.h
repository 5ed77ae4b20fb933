// How fast a disk is, measured: the yardstick for whatever moves data through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "vortex/disk.h"

namespace vortex::inline v0 {

// In bytes a second, never 0.
struct DiskSpeed {
  double read = 0;
  double write = 0;
  // Of reading, and of writing as much at the same time. A full-duplex disk comes near the smaller
  // of the two above, a half-duplex one only half as far.
  double copy = 0;

  // The least time in which so much can be read and written, in any order.
  double seconds(std::uint64_t read_bytes, std::uint64_t written_bytes) const noexcept;
};

struct DiskSpeedOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;    // of each of the two files
  std::size_t request_bytes = std::size_t{1} << 20;  // a multiple of 4096
  unsigned depth = 4;                                // requests under way, of each kind
  std::function<std::uint64_t()> now_ns = {};        // the disk's clock; none: the machine's
};

// Writes a temporary file in the folder, reads it, and copies it to another one: around the page
// cache where the file system can, synced, the room allocated before.
//
// Blocks; allocates 2 * depth * request_bytes of memory. Throws Error: ENOSPC, and whatever the
// folder or the disk reports. The files have no names and are gone afterwards in any case.
DiskSpeed measure_disk_speed(Disk& disk, const std::string& folder,
                             const DiskSpeedOptions& options = {});

}  // namespace vortex::inline v0

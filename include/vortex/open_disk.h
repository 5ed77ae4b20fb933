// Choosing a backend.
#pragma once

#include <memory>

#include "io/disk/disk.h"
#include "io/disk/uring_disk.h"

namespace vortex::inline v0 {

enum class DiskBackend : std::uint8_t {
  kBest,  // io_uring, or threads where it is refused
  kUring,
  kThreads,
};

struct OpenDiskOptions : DiskOptions {
  DiskBackend backend = DiskBackend::kBest;
};

// With kBest, a refusal of io_uring is no error: the statistics of the disk say why it is served by
// threads. Throws Error when the backend that was asked for cannot be had.
std::unique_ptr<Disk> open_disk(const OpenDiskOptions& options = {});

// How many threads a disk that open_disk() makes has, where the options leave its depth open. Opens
// one to find out, with kBest.
unsigned threads_of_disk(DiskBackend backend);

}  // namespace vortex::inline v0

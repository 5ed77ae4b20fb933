// What a sort may use: memory, disks, and the ears of who waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "vortex/disk.h"
#include "vortex/file_access.h"
#include "vortex/prefetch_kind.h"
#include "vortex/sort_progress.h"

namespace vortex::inline v0 {

// Makes the disk of a folder in which runs are kept, or, for an empty name, the one that inputs are
// read and the output is written with. Disks of a kind or a depth of one's own come in here.
using SortDiskFunction = std::function<std::unique_ptr<Disk>(const std::string& folder)>;

// The same for sorts of files and for sorters.
struct SortResources {
  // For everything that is resident: blocks, scratch, tables, streams, buffers, and of the program
  // 16 MiB, or a thirty-second part of this where that is less. 0: default_memory_bytes().
  std::uint64_t memory_bytes = 0;
  // Where runs are kept, a disk each. Empty: the folder of the output where that is a file, else
  // $TMPDIR or /tmp.
  std::vector<std::string> folders = {};
  std::size_t block_bytes = 0;  // 0: what suits the memory
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  DiskBackend backend = DiskBackend::kBest;
  Caching caching = Caching::kAuto;  // of inputs, runs and output; runs go around the page cache
                                     // unless this is kBuffered
  SortDiskFunction open_disk = {};   // instead of disks of the backend
  std::uint64_t seed = 1;            // which run lies on which disk
  std::stop_token stop = {};         // the sort ends with Error(ECANCELED) soon after a request
  // Called about once a megabyte by the thread that sorts: the one that pushes or has called the
  // sort, and for the array of a sorter the thread that merges. May throw, which ends the sort.
  SortProgressFunction progress = {};
};

}  // namespace vortex::inline v0

// The folders of a sort: the disk of each, what requests cost it, and whether there is room for
// runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vortex/disk.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// The disk of a folder, or, if `folder` is empty, of inputs and output: made by `open_disk` if
// there is one, else by the backend. It reports to the log that the calling thread works for.
// Throws Error as vortex::open_disk() does.
std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder);

// The file system that a folder lies in. Throws Error: ENOTDIR, and what stat(2) reports.
dev_t file_system_of(const std::string& folder);

// $TMPDIR, or /tmp.
std::string temporary_folder();

// Where the runs of a sort are kept unless it is said: beside its output, or, when that is no file,
// in temporary_folder().
std::string default_run_folder(const std::string& output);

// The folders of the resources, or temporary_folder(). Throws Error as file_system_of() does.
std::vector<std::string> folders_of_sorter(const SortResources& resources);

// Whether files in the folder can give parts of their space back. Throws Error: what open(2)
// reports.
bool punches_holes(const std::string& folder);

// What a request costs the disk of one of these folders, one at least, at most, in bytes: see
// measure_request_cost(). Each file system is measured once in the life of the process, all at a
// time, which takes three tenths of a second at most, 16 MiB of room and 1 MiB of memory each; one
// where that fails counts for nothing, since the sort will say what is wrong. Throws Error as
// file_system_of() does. Any number of threads may call it.
std::uint64_t request_cost_of(const SortResources& resources,
                              const std::vector<std::string>& folders);

// Throws Error(ENOSPC) unless the file systems of the folders, each counted once, have room for
// `bytes` of runs together. One that does not tell how large it is may have it.
void expect_room_for_runs(const std::vector<std::string>& folders, std::uint64_t bytes);

}}  // namespace vortex::v0

// The folders in which runs are kept, and whether there is room for them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace vortex::inline v0 {

// The file system that a folder lies in. Throws Error: ENOTDIR, and what stat(2) reports.
dev_t file_system_of(const std::string& folder);

// $TMPDIR, or /tmp.
std::string temporary_folder();

// Where the runs of a sort are kept unless it is said: beside its output, or, when that is no file,
// in temporary_folder().
std::string default_run_folder(const std::string& output);

// Whether files in the folder can give parts of their space back. Throws Error: what open(2)
// reports.
bool punches_holes(const std::string& folder);

// Throws Error(ENOSPC) unless the file systems of the folders, each counted once, have room for so
// many bytes of runs together. One that does not tell how large it is may have it.
void expect_room_for_runs(const std::vector<std::string>& folders, std::uint64_t bytes);

}  // namespace vortex::inline v0

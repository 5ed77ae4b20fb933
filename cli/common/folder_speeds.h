// Where runs are kept, as -T says it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "vortex/sort_resources.h"

namespace vortex::cli {

// $TMPDIR, or /tmp.
std::string temporary_folder();

// Measures a folder's disk: bytes a second of writing a run there and reading it again, each.
double measured_speed(const std::string& folder);

// Each argument is DIR or DIR:SPEED; SPEED is a size a second, or "auto", for which `measure` is
// called. Text behind the last colon is part of DIR where it holds a slash: a folder whose name
// holds a colon is written with a slash behind it. Sets folders and folder_speeds. Throws
// Error(EINVAL): a wrong SPEED, or some folders with and some without one.
void parse_run_folders(const std::vector<std::string>& arguments,
                       const std::function<double(const std::string& folder)>& measure,
                       SortResources& resources);

}  // namespace vortex::cli

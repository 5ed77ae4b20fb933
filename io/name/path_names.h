// Names of files, as open(2) understands them.
#pragma once

#include <string>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// The folder that a path's file lies in.
VORTEX_EXPORT std::string folder_of(const std::string& path);
// What the file is called there.
std::string name_in_folder(const std::string& path);

// A path of this process's own that leads to what a descriptor has open, where there is a /proc.
std::string path_of_descriptor(int descriptor);

// The path with the symbolic links at its end followed, whether or not there is a file behind the
// last of them; what is no regular file is left as it is. Throws Error(ELOOP).
VORTEX_EXPORT std::string followed_links(const std::string& path);

}}  // namespace vortex::v0

// Whether a file is replaced, or its contents.
#pragma once

#include <cstdint>

namespace vortex { inline namespace v0 {

// Where an output has the name of a file that exists, a new file takes that name when the output is
// whole: nobody ever sees a part of it, and the old file's hard links keep the old contents. Or the
// contents of the file are replaced then: it keeps its hard links, owner and place, and may lie in
// a folder that takes no new file, or be mounted. The new contents wait in a folder of runs, and an
// error while they are copied leaves a part of them, which the error says.
enum class InPlace : std::uint8_t {
  kNever,
  kWhereNeeded,  // where no new file can take the name
  kAlways,
};

}}  // namespace vortex::v0

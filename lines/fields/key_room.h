// What keys throw that do not fit in the room that they were given.
#pragma once

#include <cerrno>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// The sort catches it, and looks for more room.
class KeyRoomFull : public Error {
 public:
  KeyRoomFull() : Error(EMSGSIZE, "a key is longer than the memory has room for") {}
};

}}  // namespace vortex::v0

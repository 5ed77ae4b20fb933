// The error that a call ends with.
#pragma once

#include <string>

#include "vortex/error.h"

namespace vortex::test {

// 0, or the errno value of the Error that `call` throws, whose message is told.
template <typename Call>
int error_of(const Call& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code().value();
  }
  return 0;
}

}  // namespace vortex::test

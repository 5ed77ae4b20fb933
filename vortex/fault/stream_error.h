// The exception that the failure of a stream becomes.
#pragma once

#include <string>

#include "vortex/detail/stream/export.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// For programs that tell people what happened and not where in a stream.
class VORTEX_EXPORT StreamError : public Error {
 public:
  // what() is failure.message(), of which `text` is all but the system's word.
  StreamError(const Failure& failure, const std::string& text);
  ~StreamError() override;

  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

}}  // namespace vortex::v0

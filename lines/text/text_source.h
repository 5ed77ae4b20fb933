// Where the text of an input comes from.
#pragma once

#include <string_view>

namespace vortex { inline namespace v0 {

// A text, a piece at a time. One thread at a time; after an exception it can only be destroyed.
class TextSource {
 public:
  virtual ~TextSource() = default;

  // The next piece, valid until the following call; empty: the text has ended. The first one holds
  // four bytes, unless the text is shorter. Waits for it, so not inside guarded(). Throws Error.
  virtual std::string_view next() = 0;
};

}}  // namespace vortex::v0

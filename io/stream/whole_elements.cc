#include "io/stream/whole_elements.h"

#include <cerrno>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

void expect_whole_elements(const std::string& name, std::uint64_t length,
                           std::size_t element_bytes) {
  const std::uint64_t rest = length % element_bytes;
  if (rest == 0) return;
  throw Error(EINVAL, "'" + name + "' is " + std::to_string(length) +
                          " bytes long, which is no multiple of an element's " +
                          std::to_string(element_bytes) + ": the last " + std::to_string(rest) +
                          " would be left out; read elements of another size, or set allow_rest");
}

}}  // namespace vortex::v0

// Errors of calls made outside a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

#include "vortex/printable.h"

namespace vortex::inline v0 {

// What every constructor and call outside a fault throws. code() carries the errno value; what()
// names the operation, the object (stream, pool, path), the limit that was hit and, where there is
// one, the way out, and ends with the system's word for the errno value. It is one line that a
// terminal can be given: a name with control characters in it has them escaped, see printable().
class Error : public std::system_error {
 public:
  Error(int errno_value, const std::string& message)
      : std::system_error(errno_value, std::generic_category(), printable(message)),
        message_size_(printable(message).size()) {}

  // what() without the system's word: for messages around this one, which have a code of their own.
  std::string_view message() const noexcept { return {what(), message_size_}; }

 private:
  std::size_t message_size_;
};

// The errno value that an exception carries; `otherwise` where it carries none. Neither allocates
// nor throws, like message_of().
int errno_of(const std::exception& exception, int otherwise) noexcept;

// What an exception says: Error::message(), else what(). The result lives as long as the exception.
std::string_view message_of(const std::exception& exception) noexcept;

// "2 MiB", "1.5 GiB", "4097 bytes": exact when a unit divides the count, two digits otherwise.
std::string format_bytes(std::uint64_t bytes);

}  // namespace vortex::inline v0

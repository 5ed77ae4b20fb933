#include "io/transfer.h"

#include <sys/uio.h>

#include <cerrno>

namespace vortex {

std::int64_t transfer(const Attempt& attempt) noexcept {
  const int saved = errno;
  const iovec* const memory = attempt.memory.data();
  const int count = static_cast<int>(attempt.memory_count);
  const auto offset = static_cast<off_t>(attempt.offset);
  const bool sequential = attempt.offset == Request::kSequential;
  ssize_t moved = 0;
  if (attempt.operation == Operation::kRead) {
    moved = sequential ? readv(attempt.file, memory, count)
                       : preadv(attempt.file, memory, count, offset);
  } else {
    moved = sequential ? writev(attempt.file, memory, count)
                       : pwritev(attempt.file, memory, count, offset);
  }
  const std::int64_t result = moved >= 0 ? moved : -static_cast<std::int64_t>(errno);
  errno = saved;
  return result;
}

}  // namespace vortex

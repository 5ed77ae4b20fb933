#include "io/disk/request.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// pwritev(2) that a race detector does not watch. What is written may be memory that a program
// changes whenever it likes: taking away the right to do so comes between its stores and the write,
// which a detector cannot know.
ssize_t write_at(int file, const iovec* memory, int count, off_t offset) noexcept {
  return static_cast<ssize_t>(syscall(SYS_pwritev, file, memory, count, offset, 0));
}

}  // namespace

void Request::prepare_attempt() noexcept {
  attempt_.operation = operation;
  attempt_.file = file;
  attempt_.offset = offset == kSequential ? kSequential : offset + bytes_done;
  attempt_.bytes = bytes - bytes_done;
  attempt_.memory_count = 0;
  iovec* const parts = pieces != nullptr ? pieces->attempt.data() : &one_piece_;
  attempt_.memory = parts;
  std::size_t position = bytes_done;
  std::size_t left = attempt_.bytes;
  while (left > 0) {
    const std::size_t within = position % piece_bytes;
    const std::size_t size = std::min(left, piece_bytes - within);
    std::byte* const begin = pieces != nullptr ? pieces->begins[position / piece_bytes] : memory;
    parts[attempt_.memory_count++] = {begin + within, size};
    position += size;
    left -= size;
  }
}

void RequestQueue::push(Request& request) noexcept {
  request.next_ = nullptr;
  (last_ != nullptr ? last_->next_ : first_) = &request;
  last_ = &request;
}

Request* RequestQueue::pop() noexcept {
  Request* const request = first_;
  if (request == nullptr) return nullptr;
  first_ = request->next_;
  if (first_ == nullptr) last_ = nullptr;
  return request;
}

std::int64_t transfer(const Attempt& attempt) noexcept {
  const KeptErrno kept;
  const iovec* const memory = attempt.memory;
  const int count = static_cast<int>(attempt.memory_count);
  const auto offset = static_cast<off_t>(attempt.offset);
  const bool sequential = attempt.offset == Request::kSequential;
  ssize_t moved = 0;
  if (attempt.operation == Operation::kRead) {
    moved = sequential ? readv(attempt.file, memory, count)
                       : preadv(attempt.file, memory, count, offset);
  } else {
    moved = sequential ? writev(attempt.file, memory, count)
                       : write_at(attempt.file, memory, count, offset);
  }
  return moved >= 0 ? moved : -static_cast<std::int64_t>(errno);
}

std::int64_t transfer_at_once(const Attempt& attempt) noexcept {
  const KeptErrno kept;
  struct stat status {};
  // A read takes what is there; a file takes everything.
  if (attempt.operation == Operation::kRead || fstat(attempt.file, &status) != 0 ||
      (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode))) {
    return transfer(attempt);
  }
  ssize_t moved = pwritev2(attempt.file, attempt.memory, static_cast<int>(attempt.memory_count), -1,
                           RWF_NOWAIT);
  if (moved < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    // Some kernels cannot do that. There a pipe that has room at all takes PIPE_BUF bytes.
    const iovec first{attempt.memory[0].iov_base,
                      std::min<std::size_t>(attempt.memory[0].iov_len, PIPE_BUF)};
    moved = writev(attempt.file, &first, 1);
  }
  return moved >= 0 ? moved : -static_cast<std::int64_t>(errno);
}

}}  // namespace vortex::v0

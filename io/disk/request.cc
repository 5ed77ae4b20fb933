#include "io/disk/request.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

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

}}  // namespace vortex::v0

// An output that is written in pieces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lines/record/byte_output.h"
#include "lines/record/stored_record.h"

namespace vortex { inline namespace v0 {

// What a cursor gives, in pieces: a writer's array has room for a part of the output where address
// space is short. Records that are there many times come some at a time.
template <typename Cursor>
class OutputPieces {
 public:
  explicit OutputPieces(Cursor& cursor) noexcept : cursor_(cursor) {}

  // From here on next() is false once the output has got `limit` bytes.
  void begin_piece(const FramedOutput& out, std::uint64_t limit) noexcept {
    out_ = &out;
    limit_ = limit;
  }
  static constexpr SpanKind kWork = Cursor::kWork;
  bool next() {
    if (out_->bytes() >= limit_) return false;
    if (left_ == 0) {
      more_ = cursor_.next();
      if (!more_) return false;
      left_ = cursor_.count();
    }
    count_ = std::min<std::uint64_t>(left_, kBytesAtOnce / (stored().record.size() + 1) + 1);
    left_ -= count_;
    return true;
  }
  const StoredRecord& stored() const noexcept { return cursor_.stored(); }
  std::uint64_t count() const noexcept { return count_; }
  // False behind the last record.
  bool more() const noexcept { return more_; }

 private:
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 20;

  Cursor& cursor_;
  const FramedOutput* out_ = nullptr;
  std::uint64_t limit_ = 0;
  std::uint64_t left_ = 0;  // of the record that the cursor stands at
  std::uint64_t count_ = 0;
  bool more_ = true;
};

}}  // namespace vortex::v0

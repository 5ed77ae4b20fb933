#include "lines/text_cursor.h"

#include <utility>

#include "lines/record_keys.h"

namespace vortex::inline v0 {

TextCursor::TextCursor(FramedInput& input, const LineSortOptions& options, UseHeader use_header)
    : input_(input),
      options_(options),
      order_(options.order),
      use_header_(std::move(use_header)),
      header_left_(options.header_records) {}

bool TextCursor::next_batch() {
  batch_ = input_.next();
  at_ = 0;
  next_offset_ = input_.first_offset();
  if (batch_.empty()) return false;
  for (; header_left_ > 0 && at_ < batch_.size(); --header_left_) {
    next_offset_ += batch_[at_].size() + framing_bytes(options_.framing);
    if (use_header_) use_header_(batch_[at_]);
    ++at_;
  }
  if (order_.has_keys) make_keys(*options_.order.keys, batch_, keys_);
  return true;
}

bool TextCursor::advance() {
  const bool first = records_ == 0;
  if (!first) {
    key_before_.assign(stored_.key);
    if (order_.record_decides || order_.whole_keys != nullptr)
      record_before_.assign(stored_.record);
  }
  while (at_ == batch_.size()) {
    if (!next_batch()) return false;
  }
  offset_ = next_offset_;
  stored_.record = batch_[at_];
  stored_.key = order_.has_keys ? keys_.key(at_) : stored_.record;
  next_offset_ += stored_.record.size() + framing_bytes(options_.framing);
  ++at_;
  ++records_;
  differ_ =
      first ? Difference{0, -1} : difference({key_before_, record_before_}, stored_, order_, 0);
  return true;
}

}  // namespace vortex::inline v0

#include "lines/text/text_cursor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lines/fields/key_bytes.h"
#include "lines/record/record_keys.h"
#include "lines/text/text_division.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

TextCursor::TextCursor(FramedInput& input, const LineSortOptions& options, LongRoomBudget& budget,
                       UseHeader use_header)
    : input_(input),
      options_(options),
      budget_(budget),
      order_(options.order),
      use_header_(std::move(use_header)),
      header_left_(options.header_records),
      long_key_(budget),
      long_key_before_(budget),
      long_record_before_(budget) {}

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
  keys_to_ = at_;
  return true;
}

void TextCursor::make_more_keys() {
  const auto left = batch_.subspan(at_);
  const std::size_t together = records_together(left);
  key_is_long_ = together == 0;
  keys_from_ = at_;
  keys_to_ = at_ + std::max<std::size_t>(together, 1);
  if (!key_is_long_) return make_keys(*options_.order.keys, left.first(together), keys_);
  long_key_.grow_to_most();
  keys_ = KeyBatch(long_key_.span());
  try {
    make_keys(*options_.order.keys, left.first(1), keys_);
  } catch (const KeyRoomFull&) {
    refuse(at_, "with its key and the one in front of it");
  }
  long_key_.shrink(keys_.key(0).size());
}

// Keeps the record in hand before the next one is read.
void TextCursor::keep_record() {
  if (order_.has_keys && key_is_long_) {
    long_key_before_.swap(long_key_);
    long_key_.shrink(0);
    before_.key = stored_.key;
    keys_ = {};
  } else {
    before_.key = copy(stored_.key, key_before_, long_key_before_);
  }
  if (order_.record_decides || order_.whole_keys != nullptr) {
    before_.record = copy(stored_.record, record_before_, long_record_before_);
  }
}

std::string_view TextCursor::copy(std::string_view text, std::string& room, LongRoom& long_room) {
  long_room.shrink(text.size() > kLongRecord ? text.size() : 0);
  if (text.size() <= kLongRecord) return room.assign(text);
  if (!long_room.grow(text.size())) refuse(at_ - 1, "beside the one behind it");
  std::memcpy(long_room.data(), text.data(), text.size());
  return {long_room.data(), text.size()};
}

void TextCursor::refuse(std::size_t index, const std::string& beside) const {
  input_.refuse_long(index, "of " + format_bytes(batch_[index].size()) + " does not fit, " +
                                beside + ", into the " + format_bytes(budget_.bytes()) +
                                " that the memory has for long ones: give more memory");
}

void TextCursor::leave_record_only() noexcept {
  for (LongRoom* const room : {&long_key_, &long_key_before_, &long_record_before_}) {
    room->shrink(0);
  }
}

bool TextCursor::advance() {
  const bool first = records_ == 0;
  if (!first) keep_record();
  while (at_ == batch_.size()) {
    if (!next_batch()) return false;
  }
  if (order_.has_keys && at_ == keys_to_) make_more_keys();
  offset_ = next_offset_;
  stored_.record = batch_[at_];
  stored_.key = order_.has_keys ? keys_.key(at_ - keys_from_) : stored_.record;
  next_offset_ += stored_.record.size() + framing_bytes(options_.framing);
  ++at_;
  ++records_;
  differ_ = first ? Difference{0, -1} : difference(before_, stored_, order_, 0);
  if (expects_order_ && differ_.order > 0) throw NotInParts("records that are not sorted");
  return true;
}

}}  // namespace vortex::v0

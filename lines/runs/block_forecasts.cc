#include "lines/runs/block_forecasts.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace vortex { inline namespace v0 {

StoredOrder forecast_order(const StoredOrder& order) noexcept {
  StoredOrder result = order;
  result.unique = false;
  result.record_decides = order.record_decides || order.whole_keys != nullptr;
  result.whole_keys = nullptr;
  return result;
}

ForecastWriter::ForecastWriter(const StoredOrder& order, std::size_t bytes_of_block,
                               std::uint64_t most_blocks)
    : records_decide_(forecast_order(order).record_decides),
      bytes_of_block_(bytes_of_block),
      noted_(BlockForecasts::kMaxKnown),
      known_(BlockForecasts::kMaxKnown) {
  forecasts_.bytes_.reserve(static_cast<std::size_t>(
      most_blocks * (BlockForecasts::kHeadBytes + bytes_of_block) + BlockForecasts::kMaxKnown));
}

void ForecastWriter::note(const StoredRecord& stored) noexcept {
  const std::size_t room = std::min(known_bytes_ + bytes_left_, BlockForecasts::kMaxKnown);
  noted_key_ = std::min(stored.key.size(), room);
  if (noted_key_ > 0) std::memcpy(noted_.data(), stored.key.data(), noted_key_);
  noted_bytes_ = noted_key_;
  noted_cut_ = noted_key_ < stored.key.size();
  if (!records_decide_ || noted_cut_) return;
  const std::size_t of_record = std::min(stored.record.size(), room - noted_key_);
  if (of_record > 0) std::memcpy(noted_.data() + noted_key_, stored.record.data(), of_record);
  noted_bytes_ += of_record;
  noted_cut_ = of_record < stored.record.size();
}

void ForecastWriter::add_block() {
  const std::string_view known(known_.data(), known_bytes_);
  const std::string_view noted(noted_.data(), noted_bytes_);
  const std::size_t shared = common_prefix(known, noted, 0);
  const std::size_t own = std::min(noted.size() - shared, bytes_left_);
  bytes_left_ = std::min(bytes_left_ - own + bytes_of_block_, BlockForecasts::kMaxKnown);
  const bool cut = noted_cut_ || shared + own < noted.size();
  BlockForecasts::Head head;
  head.shared = static_cast<std::uint16_t>(shared);
  head.own = static_cast<std::uint16_t>(own);
  head.key = static_cast<std::uint16_t>(std::min(noted_key_, shared + own) |
                                        (cut ? BlockForecasts::Head::kCut : 0));
  char bytes[BlockForecasts::kHeadBytes];
  std::memcpy(bytes, &head, sizeof bytes);
  forecasts_.bytes_.insert(forecasts_.bytes_.end(), bytes, bytes + sizeof bytes);
  const char* const from = noted.data() + shared;
  forecasts_.bytes_.insert(forecasts_.bytes_.end(), from, from + own);
  std::memcpy(known_.data() + shared, from, own);
  known_bytes_ = shared + own;
}

BlockForecasts ForecastWriter::finish() {
  forecasts_.bytes_.shrink_to_fit();
  return std::move(forecasts_);
}

ForecastCursor::ForecastCursor(const BlockForecasts& forecasts, const StoredOrder& forecast_order,
                               std::uint64_t begin, std::uint64_t end, std::uint64_t blocks)
    : order_(forecast_order),
      end_(end),
      blocks_(blocks),
      next_(forecasts.first_blocks_),
      at_(forecasts.bytes_.data()) {
  while (next_ < begin) decode();
}

BlockForecasts::Head ForecastCursor::decode() {
  BlockForecasts::Head head;
  std::memcpy(&head, at_, sizeof head);
  at_ += sizeof head;
  known_.resize(head.shared);
  known_.append(at_, head.own);
  at_ += head.own;
  ++next_;
  return head;
}

// What is cut comes in front of what it is the beginning of. Where no more of it will be known, it
// is taken to be as far in the order as in its run.
StoredRecord ForecastCursor::shown(std::string& text, const BlockForecasts::Head& head) const {
  using Head = BlockForecasts::Head;
  text = known_;
  if ((head.key & Head::kCut) != 0) {
    const bool descending = order_.flip != 0;
    if (text.size() == BlockForecasts::kMaxKnown) {
      const auto part =
          static_cast<std::uint32_t>((((next_ - 1) << 31) / blocks_) ^ (descending ? ~0U : 0U));
      for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(part >> shift);
    } else if (descending) {
      text.append(sizeof(std::uint64_t), '\xff');
    }
  }
  const std::string_view all = text;
  if (!order_.has_keys) return {all, all};
  const std::size_t key = head.key & ~Head::kCut;
  // Nothing of the record is known where its key is cut.
  const bool whole_key = key < known_.size() || (head.key & Head::kCut) == 0;
  return whole_key ? StoredRecord{all.substr(0, key), all.substr(key)} : StoredRecord{all, {}};
}

bool ForecastCursor::advance() {
  if (next_ >= end_) return false;
  const BlockForecasts::Head head = decode();
  const unsigned other = 1 - text_;
  const StoredRecord now = shown(texts_[other], head);
  // A guess may be out of order.
  if (!std::exchange(first_, false) && difference(stored_, now, order_, 0).order > 0) return true;
  stored_ = now;
  text_ = other;
  return true;
}

}}  // namespace vortex::v0

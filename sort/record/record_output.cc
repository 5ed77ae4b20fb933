#include "sort/record/record_output.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

namespace {

// Of records that nobody wants, at a time: little beside the least memory.
constexpr std::size_t kNowhereBytes = std::size_t{4} << 10;

}  // namespace

std::size_t room_in_block(std::uint64_t done, std::size_t record_bytes, std::size_t block_bytes,
                          std::size_t most_bytes) noexcept {
  const std::uint64_t border = detail::round_up(done + record_bytes, block_bytes);
  const std::uint64_t room = std::min({border - done, std::uint64_t{most_bytes},
                                       std::uint64_t{std::max(kMaxRoomBytes, record_bytes)}});
  return static_cast<std::size_t>(room - room % record_bytes);
}

std::span<std::byte> room_in_blocks(std::byte* array, std::uint64_t done, std::size_t record_bytes,
                                    std::size_t block_bytes, std::size_t wide,
                                    std::uint64_t most_bytes) noexcept {
  if (wide == 0) {
    return {array + done,
            room_in_block(done, record_bytes, block_bytes, static_cast<std::size_t>(most_bytes))};
  }
  const std::uint64_t end = (done / block_bytes + 1 + wide) * block_bytes;
  auto bytes = static_cast<std::size_t>(std::min(end - done, most_bytes));
  bytes -= bytes % record_bytes;
  for (std::uint64_t at = detail::round_up(done, block_bytes); at < done + bytes;
       at += block_bytes) {
    *static_cast<volatile std::byte*>(array + at) = std::byte{};
  }
  return {array + done, bytes};
}

void append_records(RecordOutput& out, const std::byte* records, std::uint64_t count,
                    std::size_t record_bytes) {
  for (std::uint64_t left = count * record_bytes; left > 0;) {
    const std::span<std::byte> room = out.room(left);
    detail::copy_past_caches(room.data(), records, room.size());
    out.written(room.size());
    records += room.size();
    left -= room.size();
  }
}

void append_reversed(RecordOutput& out, const std::byte* records, std::uint64_t count,
                     std::size_t record_bytes) {
  for (std::uint64_t left = count * record_bytes; left > 0;) {
    const std::span<std::byte> room = out.room(left);
    for (std::size_t at = 0; at < room.size(); at += record_bytes) {
      left -= record_bytes;
      std::memcpy(room.data() + at, records + left, record_bytes);
    }
    out.written(room.size());
  }
}

std::span<std::byte> PointerOutput::room_of_head(std::size_t most_bytes) noexcept {
  if (head_.size() < record_bytes_) return in_both_;
  const std::size_t room =
      std::min({head_.size(), most_bytes, std::max(kMaxRoomBytes, record_bytes_)});
  return head_.first(room - room % record_bytes_);
}

void PointerOutput::written_to_head(std::size_t bytes) noexcept {
  if (bytes > head_.size()) {
    std::memcpy(head_.data(), in_both_.data(), head_.size());
    done_ = bytes - head_.size();
    std::memcpy(to_, in_both_.data() + head_.size(), static_cast<std::size_t>(done_));
    bytes = head_.size();
  }
  head_ = head_.subspan(bytes);
}

void NotedEnds::written(std::size_t bytes) {
  if (bytes != 0) {
    if (std::exchange(empty_, false)) std::memcpy(first_.data(), room_.data(), first_.size());
    std::memcpy(last_.data(), room_.data() + bytes - last_.size(), last_.size());
  }
  out_.written(bytes);
}

FirstOfEqual::FirstOfEqual(const RecordOrder& order, RecordOutput& out)
    : order_(order), out_(out), last_(order.record_bytes()) {}

void FirstOfEqual::written(std::size_t bytes) {
  const std::size_t record_bytes = last_.size();
  const std::size_t kept = order_.keep_first_of_equal(room_.data(), bytes / record_bytes,
                                                      records_ == 0 ? nullptr : last_.data());
  if (kept == 0) return;
  std::memcpy(last_.data(), room_.data() + (kept - 1) * record_bytes, record_bytes);
  records_ += kept;
  out_.written(kept * record_bytes);
}

std::span<std::byte> FirstOutput::room(std::size_t most_bytes) {
  const std::size_t record_bytes = last_.size();
  if (left_ > 0) {
    room_ = out_.room(static_cast<std::size_t>(
        std::min<std::uint64_t>(most_bytes, detail::saturating_product(left_, record_bytes))));
    return room_;
  }
  const std::size_t at_once = std::max(kNowhereBytes / record_bytes, std::size_t{1}) * record_bytes;
  if (nowhere_.empty()) nowhere_.resize(at_once);
  return std::span(nowhere_).first(std::min(at_once, most_bytes));
}

void FirstOutput::written(std::size_t bytes) {
  if (left_ == 0 || bytes == 0) return;
  left_ -= bytes / last_.size();
  if (left_ == 0) std::memcpy(last_.data(), room_.data() + bytes - last_.size(), last_.size());
  out_.written(bytes);
}

SortedOutput::SortedOutput(const RecordOrder& order, bool unique, std::uint64_t most,
                           RecordOutput& out)
    : most_(most), to_(&out) {
  if (most != 0) to_ = &first_.emplace(*to_, order.record_bytes(), most);
  if (unique) to_ = &unique_.emplace(order, *to_);
}

std::uint64_t SortedOutput::records(std::uint64_t sorted) const noexcept {
  const std::uint64_t kept = unique_ ? unique_->records() : sorted;
  return most_ == 0 ? kept : std::min(kept, most_);
}

}}  // namespace vortex::v0

#include "lines/memory/recent_keys.h"

#include <algorithm>
#include <bit>

#include "sort/record/key_chunk.h"

namespace vortex { inline namespace v0 {

namespace {

// One key in this many must be found for the search to go on; else it pauses.
constexpr std::uint64_t kSample = 4096;
constexpr std::uint64_t kWorthwhile = 16;
constexpr std::uint64_t kWorthwhileToCount = 4;
constexpr std::uint64_t kPause = 16 * kSample;

std::uint64_t hash_of(std::string_view key, std::uint64_t first_chunk) noexcept {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::uint64_t hash = first_chunk * kFactor;
  for (std::size_t at = kChunkBytes; at < key.size(); at += kChunkBytes) {
    hash = ((hash ^ hash >> 32) ^ chunk_at(key, at)) * kFactor;
  }
  return hash;
}

}  // namespace

RecentKeys::RecentKeys(std::size_t most_bytes, const StoredOrder& order)
    : order_(order),
      by_record_(order.counted || order.whole_keys != nullptr),
      table_(std::bit_floor(std::clamp(most_bytes, 2 * sizeof(Place), kMostBytes) / sizeof(Place))),
      shift_(64 - std::countr_zero(table_.size())) {}

void RecentKeys::find(std::string_view bytes) noexcept {
  chunk_ = chunk_at(bytes, 0);
  // The upper bits choose the place, for only they depend on every byte of a short key.
  slot_ = &table_[hash_of(bytes, chunk_) >> shift_];
}

bool RecentKeys::contains(std::string_view key, std::string_view record) noexcept {
  slot_ = nullptr;
  if (skip_ > 0) {
    --skip_;
    return false;
  }
  if (asked_ == kSample) {
    if (found_ < kSample / (order_.counted ? kWorthwhileToCount : kWorthwhile)) skip_ = kPause;
    asked_ = found_ = 0;
  }
  ++asked_;
  const std::string_view bytes = by_record_ ? record : key;
  find(bytes);
  if (slot_->stored == nullptr || slot_->chunk != chunk_) return false;
  if (!ends_string(chunk_)) {
    const StoredRecord stored = stored_record_at(slot_->stored, order_.has_keys);
    if ((by_record_ ? stored.record : stored.key) != bytes) return false;
  }
  if (order_.counted) {
    if (slot_->repeats == kMaxRepeats) return false;
    ++slot_->repeats;
  }
  slot_->found = true;
  ++found_;
  return true;
}

bool RecentKeys::passes(std::uint64_t keys) noexcept {
  if (skip_ < keys) return false;
  skip_ -= keys;
  slot_ = nullptr;
  return true;
}

void RecentKeys::forget() noexcept {
  for (Place& place : table_) give_count(place);
  std::fill(table_.begin(), table_.end(), Place{});
  slot_ = nullptr;
}

}}  // namespace vortex::v0

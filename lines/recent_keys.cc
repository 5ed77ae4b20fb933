#include "lines/recent_keys.h"

#include <algorithm>
#include <bit>

#include "lines/key_chunk.h"

namespace vortex::inline v0 {
namespace {

// A table that the cache of a core holds, and no more than a part in 128 of the records' memory.
constexpr std::size_t kMaxPlaces = std::size_t{1} << 15;
constexpr std::size_t kShare = 128;
// One key in so many must be found for the search to go on; else it pauses.
constexpr std::uint64_t kSample = 4096;
constexpr std::uint64_t kWorthwhile = 16;
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

RecentKeys::RecentKeys(std::size_t arena_bytes, bool has_keys)
    : has_keys_(has_keys),
      table_(std::bit_floor(
          std::clamp<std::size_t>(arena_bytes / kShare / sizeof(Place), 2, kMaxPlaces))),
      shift_(64 - std::countr_zero(table_.size())) {}

bool RecentKeys::contains(std::string_view key) noexcept {
  slot_ = nullptr;
  if (skip_ > 0) {
    --skip_;
    return false;
  }
  if (asked_ == kSample) {
    if (found_ < kSample / kWorthwhile) skip_ = kPause;
    asked_ = found_ = 0;
  }
  ++asked_;
  chunk_ = chunk_at(key, 0);
  // By the upper bits, which alone depend on every byte of a short key.
  slot_ = &table_[hash_of(key, chunk_) >> shift_];
  if (slot_->stored == nullptr || slot_->chunk != chunk_) return false;
  if (!ends_string(chunk_) && stored_record_at(slot_->stored, has_keys_).key != key) return false;
  ++found_;
  return true;
}

void RecentKeys::forget() noexcept {
  std::fill(table_.begin(), table_.end(), Place{});
  slot_ = nullptr;
}

}  // namespace vortex::inline v0

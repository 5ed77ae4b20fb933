// Whether the records of an input become less.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Compares records in the order in which they came, as many as are looked at of the last that did:
// how many pairs of them descend, and how many ascend (Kendall's tau). That tells a way down from
// teeth of a saw, and from records in no order, whatever is displaced by less than the way.
class ArrivalTrend {
 public:
  // Looks at the last `records`. Allocates; the rest does not. The order must outlive it.
  ArrivalTrend(const RecordOrder& order, std::size_t records)
      : order_(order),
        every_(std::max<std::size_t>(records / kMost, 1)),
        whole_(!order.leading_bits_decide() && order.record_bytes() <= kMostRecordBytes),
        kept_(whole_ ? kMost * order.record_bytes() : 0) {
    bits_.reserve(kMost);
  }

  // How many more are to come until one is kept.
  std::size_t records_to_next() const noexcept { return every_ - std::min(since_, every_ - 1); }
  // So many came, the last of which can be read; null: it cannot.
  void came(std::size_t count, const std::byte* last) noexcept {
    since_ += count;
    if (since_ < every_ || last == nullptr) return;
    since_ = 0;
    const std::size_t place = came_++ % kMost;
    if (bits_.size() < kMost) bits_.emplace_back();
    bits_[place] = order_.leading_bits(last);
    if (whole_) std::memcpy(kept(place), last, order_.record_bytes());
  }

  bool falls() const noexcept {
    constexpr std::size_t kLeast = 8;
    const std::size_t count = bits_.size();
    if (count < kLeast) return false;
    std::ptrdiff_t descending = 0;
    for (std::size_t i = came_ - count; i < came_; ++i) {
      for (std::size_t before = came_ - count; before < i; ++before) {
        if (less(i, before)) ++descending;
        if (less(before, i)) --descending;
      }
    }
    // Of records in no order, four times what is to be expected by chance.
    const auto n = static_cast<std::ptrdiff_t>(count);
    return 20 * descending > (n - 1) * (3 * n + 40);
  }

 private:
  static constexpr std::size_t kMost = 128;
  static constexpr std::size_t kMostRecordBytes = 256;

  const std::byte* kept(std::size_t place) const noexcept {
    return kept_.data() + place * order_.record_bytes();
  }
  std::byte* kept(std::size_t place) noexcept {
    return kept_.data() + place * order_.record_bytes();
  }
  bool less(std::size_t a, std::size_t b) const noexcept {
    const std::uint64_t left = bits_[a % kMost], right = bits_[b % kMost];
    if (left != right || !whole_) return left < right;
    return order_.less(kept(a % kMost), kept(b % kMost));
  }

  const RecordOrder& order_;
  const std::size_t every_;
  const bool whole_;                 // records are kept, too
  std::vector<std::uint64_t> bits_;  // of the last ones
  std::vector<std::byte> kept_;
  std::size_t since_ = 0;  // that came since one was kept
  std::size_t came_ = 0;   // that were kept
};

}}  // namespace vortex::v0

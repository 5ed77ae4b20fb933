// Which bucket a record belongs to, decided by splitters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "sort/record/record_order.h"

namespace vortex::inline v0 {

// Splits records into buckets in order: record r belongs to the bucket whose number is the number
// of splitters not greater than r; equal records belong to one bucket. Splitters are compared by
// their leading bits; where those are equal, by the whole record if there was room to keep it, and
// else records with equal bits share a bucket.
//
// A table over the range of the splitters' bits leads to the right splitter in a step or two where
// they lie evenly.
template <RecordOrder O>
class BucketSplitters {
 public:
  // `kept_records` is room for whole splitters, or empty. Begins with equal slices of all leading
  // bits. Allocates; set() and the rest do not.
  BucketSplitters(const O& order, unsigned buckets, std::span<std::byte> kept_records)
      : order_(order),
        most_(buckets - 1),
        kept_(order.leading_bits_decide() ? std::span<std::byte>{} : kept_records) {
    if (kept_.size() < most_ * order.record_bytes()) kept_ = {};
    bits_.reserve(most_);
    for (unsigned i = 1; i < buckets; ++i) bits_.push_back(~std::uint64_t{0} / buckets * i);
    whole_ = false;
    make_table();
  }

  // Room for the whole splitters of so many buckets; 0 where they are not needed.
  static std::size_t kept_bytes(const O& order, unsigned buckets) noexcept {
    return order.leading_bits_decide() ? 0 : (buckets - 1) * order.record_bytes();
  }

  // Takes new splitters, in order, from a stream of sorted records: every i-th of `records`.
  // begin_choosing(), then note() for each record in order, then end_choosing(). The old ones are
  // gone at once.
  void begin_choosing(std::uint64_t records) noexcept {
    bits_.clear();
    whole_ = !kept_.empty();
    records_ = records;
    seen_ = 0;
    next_ = next_rank();
  }
  void note(const std::byte* record) noexcept {
    if (seen_++ == next_) [[unlikely]]
      choose(record);
  }
  void end_choosing() noexcept {
    if (!whole_) bits_.erase(std::unique(bits_.begin(), bits_.end()), bits_.end());
    make_table();
  }

  unsigned bucket_of(const std::byte* record) const noexcept {
    if (bits_.empty()) return 0;
    const std::uint64_t bits = order_.leading_bits(record);
    if (bits < low_) return 0;
    const std::uint64_t cell = std::min<std::uint64_t>((bits - low_) >> shift_, kCells - 1);
    std::size_t bucket = table_[cell];
    while (bucket < bits_.size() && bits_[bucket] < bits) ++bucket;
    if (bucket < bits_.size() && bits_[bucket] == bits) bucket = behind_equal(record, bits, bucket);
    return static_cast<unsigned>(bucket);
  }

 private:
  static constexpr std::size_t kCells = 2048;

  std::uint64_t next_rank() const noexcept {
    const std::uint64_t buckets = most_ + 1;
    const std::uint64_t i = bits_.size() + 1;
    // Without the overflow of records * i / buckets.
    return i > most_ ? ~std::uint64_t{0}
                     : records_ / buckets * i + records_ % buckets * i / buckets;
  }

  void choose(const std::byte* record) noexcept {
    // Of fewer records than splitters, several are one record.
    while (next_ < seen_) {
      if (whole_) {
        std::memcpy(kept_.data() + bits_.size() * order_.record_bytes(), record,
                    order_.record_bytes());
      }
      bits_.push_back(order_.leading_bits(record));
      next_ = next_rank();
    }
  }

  // The number of splitters not greater than a record that has the bits of splitter `first`, the
  // first that has them.
  std::size_t behind_equal(const std::byte* record, std::uint64_t bits,
                           std::size_t first) const noexcept {
    if (!whole_) return first + 1;
    std::size_t end = bits_.size();
    while (first < end) {
      const std::size_t middle = first + (end - first) / 2;
      const std::byte* splitter = kept_.data() + middle * order_.record_bytes();
      if (bits_[middle] == bits && !order_.less(record, splitter)) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    return first;
  }

  // Cell c covers the bits from low_ + (c << shift_) on; table_[c] splitters lie before them.
  void make_table() noexcept {
    if (bits_.empty()) return;
    low_ = bits_.front();
    const int width = static_cast<int>(std::bit_width(bits_.back() - low_));
    shift_ = std::max(0, width - static_cast<int>(std::bit_width(kCells - 1)));
    std::size_t before = 0;
    for (std::size_t cell = 0; cell < kCells; ++cell) {
      const std::uint64_t offset = std::uint64_t{cell} << shift_;
      while (before < bits_.size() && bits_[before] - low_ < offset) ++before;
      table_[cell] = static_cast<std::uint16_t>(before);
    }
  }

  const O& order_;
  const std::size_t most_;
  std::span<std::byte> kept_;
  bool whole_ = false;               // the splitters are in kept_, too
  std::vector<std::uint64_t> bits_;  // of the splitters, in order; distinct unless whole_
  std::uint64_t low_ = 0;
  int shift_ = 0;
  std::vector<std::uint16_t> table_ = std::vector<std::uint16_t>(kCells);
  std::uint64_t records_ = 0;  // while choosing: how many there will be, how many there were,
  std::uint64_t seen_ = 0;
  std::uint64_t next_ = 0;  // and the rank of the next splitter
};

}  // namespace vortex::inline v0

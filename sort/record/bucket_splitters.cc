#include "vortex/detail/merge/bucket_splitters.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// A bucket has at least this many cells of the table where the table decides.
constexpr std::uint64_t kLeastCells = 8;

}  // namespace

BucketSplitters::BucketSplitters(const RecordOrder& order, unsigned buckets, unsigned most_buckets,
                                 std::span<std::byte> kept_records)
    : order_(order),
      chosen_(buckets - 1),
      most_(most_buckets - 1),
      kept_(order.leading_bits_decide() ? std::span<std::byte>{} : kept_records) {
  if (kept_.size() < most_ * order.record_bytes()) kept_ = {};
  bits_.reserve(most_ + 1);
  for (unsigned i = 1; i < buckets; ++i) bits_.push_back(~std::uint64_t{0} / buckets * i);
  end_bits();
}

std::size_t BucketSplitters::kept_bytes(const RecordOrder& order, unsigned buckets) noexcept {
  return order.leading_bits_decide() ? 0 : (buckets - 1) * order.record_bytes();
}

void BucketSplitters::begin_choosing(std::uint64_t records) noexcept {
  bits_.clear();
  whole_ = !kept_.empty();
  records_ = records;
  seen_ = 0;
  next_ = next_rank();
}

void BucketSplitters::note(const std::byte* records, std::size_t count) noexcept {
  const std::uint64_t before = seen_;
  while (next_ < before + count) {
    seen_ = next_ + 1;
    choose(records + (next_ - before) * order_.record_bytes());
  }
  seen_ = before + count;
}

void BucketSplitters::end_choosing() noexcept {
  if (!whole_) bits_.erase(std::unique(bits_.begin(), bits_.end()), bits_.end());
  end_bits();
}

bool BucketSplitters::divide(std::size_t bucket, const Border& border, Place place) noexcept {
  if (!has_room()) return false;
  Border at = border;
  if (place == Place::kRounded) {
    at.bits = rounded(border.bits);
    if (!is_between(bucket, at)) at.bits = border.bits;
  } else if (place == Place::kBelow) {
    if (!whole_ && at.bits == 0) return false;
  } else if (!whole_ && !order_.leading_bits_decide()) {
    // Of records with these bits, some may be less.
    if (++at.bits == 0) return false;
  }
  if (!is_between(bucket, at)) return false;
  if (whole_) {
    const std::size_t bytes = order_.record_bytes();
    std::memmove(kept(bucket) + bytes, kept(bucket), (splitters() - bucket) * bytes);
    std::memcpy(kept(bucket), at.record, bytes);
  }
  bits_.insert(bits_.begin() + static_cast<std::ptrdiff_t>(bucket), at.bits);
  make_table();
  return true;
}

void BucketSplitters::join(std::size_t bucket) noexcept {
  bits_.erase(bits_.begin() + static_cast<std::ptrdiff_t>(bucket));
  if (whole_) {
    const std::size_t bytes = order_.record_bytes();
    std::memmove(kept(bucket), kept(bucket) + bytes, (splitters() - bucket) * bytes);
  }
  make_table();
}

bool BucketSplitters::is_least(std::size_t bucket, const Border& border) const noexcept {
  if (bucket == 0 || bits_[bucket - 1] != border.bits) return false;
  return whole_ ? !order_.less(kept(bucket - 1), border.record) : order_.leading_bits_decide();
}

// Whether records lie on both sides of the border, or may.
bool BucketSplitters::is_between(std::size_t bucket, const Border& border) const noexcept {
  if (whole_) {
    return (bucket == 0 || order_.less(kept(bucket - 1), border.record)) &&
           (bucket == splitters() || order_.less(border.record, kept(bucket)));
  }
  return (bucket == 0 || bits_[bucket - 1] < border.bits) &&
         (bucket == splitters() || border.bits < bits_[bucket]);
}

std::uint64_t BucketSplitters::next_rank() const noexcept {
  const std::uint64_t buckets = chosen_ + 1;
  const std::uint64_t i = bits_.size() + 1;
  // Without the overflow of records * i / buckets.
  return i > chosen_ ? ~std::uint64_t{0}
                     : records_ / buckets * i + records_ % buckets * i / buckets;
}

void BucketSplitters::choose(const std::byte* record) noexcept {
  // Where there are fewer records than splitters, several splitters are one record.
  while (next_ < seen_) {
    if (whole_) {
      std::memcpy(kept_.data() + bits_.size() * order_.record_bytes(), record,
                  order_.record_bytes());
    }
    bits_.push_back(order_.leading_bits(record));
    next_ = next_rank();
  }
}

void BucketSplitters::end_bits() noexcept {
  bits_.push_back(~std::uint64_t{0});
  deciding_shift_ = 0;
  make_table();
  if (!move_to_cells()) return;
  deciding_low_ = low_;
  deciding_shift_ = shift_;
  make_table();
}

void BucketSplitters::make_table() noexcept {
  table_decides_ = lie_in_cells();
  if (table_decides_) {
    low_ = deciding_low_;
    shift_ = deciding_shift_;
  } else {
    const std::size_t last = std::max<std::size_t>(splitters(), 1) - 1;
    low_ = bits_.front();
    const int width = static_cast<int>(std::bit_width(bits_[last] - low_));
    shift_ = std::max(0, width - static_cast<int>(std::bit_width(kCells - 1)));
  }
  fill_table();
}

void BucketSplitters::fill_table() noexcept {
  std::size_t before = 0;
  for (std::size_t cell = 0; cell < kCells; ++cell) {
    const std::uint64_t offset = std::uint64_t{cell} << shift_;
    while (before < splitters() && bits_[before] - low_ < offset + (table_decides_ ? 1 : 0)) {
      ++before;
    }
    table_[cell] = static_cast<std::uint16_t>(before);
  }
}

// Whether every splitter is where a cell of the deciding table begins, behind its first.
bool BucketSplitters::lie_in_cells() const noexcept {
  if (deciding_shift_ == 0) return false;
  const std::uint64_t cell = std::uint64_t{1} << deciding_shift_;
  return std::all_of(bits_.begin(), bits_.end() - 1, [&](std::uint64_t bits) {
    if (bits < deciding_low_ + cell) return false;
    const std::uint64_t distance = bits - deciding_low_;
    return distance % cell == 0 && distance >> deciding_shift_ < kCells;
  });
}

// Where a cell of the deciding table begins, if there is one.
std::uint64_t BucketSplitters::rounded(std::uint64_t bits) const noexcept {
  if (deciding_shift_ == 0 || whole_ || bits < deciding_low_) return bits;
  const std::uint64_t cell = std::uint64_t{1} << deciding_shift_;
  return bits - (bits - deciding_low_) % cell;
}

// False, and nothing has changed: some bucket covers too few cells.
bool BucketSplitters::move_to_cells() noexcept {
  // What is left of cell 0 by the first splitter belongs to the first bucket.
  const std::uint64_t cell_bits = std::uint64_t{1} << shift_;
  if (splitters() == 0 || whole_ || shift_ == 0 || low_ < cell_bits) return false;
  const std::uint64_t low = low_ - cell_bits;
  const auto cell_of = [&](std::uint64_t bits) {
    const std::uint64_t halves = (bits - low) >> (shift_ - 1);
    return halves / 2 + halves % 2;
  };
  for (std::size_t i = 1; i < splitters(); ++i) {
    if (cell_of(bits_[i]) - cell_of(bits_[i - 1]) < kLeastCells) return false;
  }
  // A splitter beyond the greatest bits would come before all others.
  const std::uint64_t last = cell_of(bits_[splitters() - 1]);
  if (last >= kCells || last << shift_ > ~std::uint64_t{0} - low) return false;
  low_ = low;
  for (std::size_t i = 0; i < splitters(); ++i) bits_[i] = low + (cell_of(bits_[i]) << shift_);
  return true;
}

}}}  // namespace vortex::v0::detail

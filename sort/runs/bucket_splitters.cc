#include "vortex/detail/merge/bucket_splitters.h"

#include <bit>
#include <cstring>

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// A bucket has at least this many cells of the table where the table decides.
constexpr std::uint64_t kLeastCells = 8;

}  // namespace

BucketSplitters::BucketSplitters(const RecordOrder& order, unsigned buckets,
                                 std::span<std::byte> kept_records)
    : order_(order),
      most_(buckets - 1),
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

void BucketSplitters::take_over(const BucketSplitters& other) noexcept {
  bits_ = other.bits_;
  whole_ = other.whole_;
  if (whole_) std::memcpy(kept_.data(), other.kept_.data(), splitters() * order_.record_bytes());
  make_table();
}

std::uint64_t BucketSplitters::next_rank() const noexcept {
  const std::uint64_t buckets = most_ + 1;
  const std::uint64_t i = bits_.size() + 1;
  // Without the overflow of records * i / buckets.
  return i > most_ ? ~std::uint64_t{0} : records_ / buckets * i + records_ % buckets * i / buckets;
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
  make_table();
}

void BucketSplitters::make_table() noexcept {
  const std::size_t last = std::max<std::size_t>(splitters(), 1) - 1;
  low_ = bits_.front();
  const int width = static_cast<int>(std::bit_width(bits_[last] - low_));
  shift_ = std::max(0, width - static_cast<int>(std::bit_width(kCells - 1)));
  table_decides_ = move_to_cells();
  std::size_t before = 0;
  for (std::size_t cell = 0; cell < kCells; ++cell) {
    const std::uint64_t offset = std::uint64_t{cell} << shift_;
    while (before < splitters() && bits_[before] - low_ < offset + (table_decides_ ? 1 : 0)) {
      ++before;
    }
    table_[cell] = static_cast<std::uint16_t>(before);
  }
}

// False, and nothing has changed: some bucket covers too few cells.
bool BucketSplitters::move_to_cells() noexcept {
  // What is left of cell 0 by the first splitter belongs to the first bucket.
  const std::uint64_t cell_bits = std::uint64_t{1} << shift_;
  if (splitters() == 0 || whole_ || shift_ == 0 || low_ < cell_bits) return false;
  const std::uint64_t low = low_ - cell_bits;
  const auto cell_of = [&](std::uint64_t bits) { return (bits - low + cell_bits / 2) >> shift_; };
  for (std::size_t i = 1; i < splitters(); ++i) {
    if (cell_of(bits_[i]) - cell_of(bits_[i - 1]) < kLeastCells) return false;
  }
  if (cell_of(bits_[splitters() - 1]) >= kCells) return false;
  low_ = low;
  for (std::size_t i = 0; i < splitters(); ++i) bits_[i] = low + (cell_of(bits_[i]) << shift_);
  return true;
}

}}}  // namespace vortex::v0::detail

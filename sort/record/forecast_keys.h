// Keys that foretell when a merge needs a block: a block's forecast is the last key of the block
// before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// The key of a record in as few bytes as decide exactly: the leading bits where they do, else the
// normalised key of a format where it is shorter than the record, else the whole record. A key that
// would be longer than kMaxBytes is cut to the leading bits: where those do not decide, the records
// must be compared where they lie. For forecasts must be exact: a merge with scarce buffers waits
// for ever when it needs its blocks in another order than foretold.
class ForecastKeys {
 public:
  static constexpr std::size_t kMaxBytes = 256;

  explicit ForecastKeys(const RecordOrder& order) : order_(&order) {
    bytes_ = order.record_bytes();
    if (order.leading_bits_decide()) {
      kind_ = Kind::kBits;
      bytes_ = sizeof(std::uint64_t);
    } else if (order.normalised_bytes() != 0 && order.normalised_bytes() < bytes_) {
      kind_ = Kind::kNormalised;
      bytes_ = order.normalised_bytes();
    }
    if (bytes_ > kMaxBytes) {
      exact_ = false;
      kind_ = Kind::kBits;
      bytes_ = sizeof(std::uint64_t);
    }
  }

  // Whether keys decide. If not, neither of two keys may be less than the other though a record is.
  bool exact() const noexcept { return exact_; }

  // The length of one key.
  std::size_t bytes() const noexcept { return bytes_; }

  void make(const std::byte* record, std::byte* key) const noexcept {
    switch (kind_) {
      case Kind::kBits: {
        const std::uint64_t bits = order_->leading_bits(record);
        std::memcpy(key, &bits, sizeof bits);
        return;
      }
      case Kind::kNormalised:
        order_->normalise(record, key);
        return;
      case Kind::kRecord:
        std::memcpy(key, record, bytes_);
        return;
    }
  }

  bool less(const std::byte* left, const std::byte* right) const noexcept {
    switch (kind_) {
      case Kind::kBits: {
        std::uint64_t a = 0, b = 0;
        std::memcpy(&a, left, sizeof a);
        std::memcpy(&b, right, sizeof b);
        return a < b;
      }
      case Kind::kNormalised:
        return std::memcmp(left, right, bytes_) < 0;
      case Kind::kRecord:
        break;
    }
    return order_->less(left, right);
  }

 private:
  enum class Kind : std::uint8_t { kBits, kNormalised, kRecord };

  const RecordOrder* order_;
  Kind kind_ = Kind::kRecord;
  bool exact_ = true;
  std::size_t bytes_ = 0;
};

}}  // namespace vortex::v0

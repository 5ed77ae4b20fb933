// Are records in order, which are equal, and what do they amount to?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/records/record_checksum.h"
#include "vortex/record_order.h"

namespace vortex::cli {

// A summary of a sequence of records, with all that join() needs to summarise two joined ones.
struct OrderSummary {
  std::uint64_t records = 0;
  std::uint64_t checksum = 0;
  std::uint64_t duplicates = 0;                // records whose key is that of the record before
  std::uint64_t descents = 0;                  // records that belong before the record before
  std::optional<std::uint64_t> first_descent;  // the first of those; the sequence begins with 0
  std::vector<std::byte> first;                // the first and the last record, if there are any
  std::vector<std::byte> last;

  bool sorted() const noexcept { return descents == 0; }
};

// The summary of `left` followed by `right`.
OrderSummary join(const RecordFormat& format, const OrderSummary& left, const OrderSummary& right);

// Looks at a sequence piece by piece. add() allocates nothing and reads each byte of a piece in
// order, in steps of kStepBytes, or of a record if that is longer.
class OrderCheck {
 public:
  static constexpr std::size_t kStepBytes = std::size_t{16} << 10;

  explicit OrderCheck(const RecordFormat& format);

  // The next `count` records.
  void add(const std::byte* records, std::uint64_t count) noexcept;

  OrderSummary summary() const;

 private:
  template <typename LeadingBits>
  void compare(const std::byte* records, std::size_t count, LeadingBits leading_bits) noexcept;
  void compare_step(const std::byte* records, std::size_t count) noexcept;

  RecordFormat format_;
  RecordChecksum checksum_;
  OrderSummary found_;  // but its checksum
};

}  // namespace vortex::cli

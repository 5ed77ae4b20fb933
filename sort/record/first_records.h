// The first of many records, while they pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Keeps the first `most` of the records that come, of equal ones the earlier, in memory for a few
// times as many. From the first time on that this is full, a record must come before the last of
// those that were kept then, or it is not even copied: that is one comparison a record, and of
// records in any order few pass it. Those that do are gathered, and cut back to the first again
// when there is no more room.
//
// One thread at a time.
class FirstRecords {
 public:
  // With `unique`, of equal records only the first counts. Allocates; the order outlives it.
  FirstRecords(const RecordOrder& order, std::uint64_t most, bool unique);

  // What it allocates; saturating.
  static std::uint64_t memory_bytes(std::size_t record_bytes, std::uint64_t most) noexcept;

  // Takes records at any address. Reading them may fault.
  void take(const std::byte* records, std::size_t count);
  // Appends those that are kept, in order: `most` at least, if as many came. Once. Throws what
  // `out` throws.
  void emit(RecordOutput& out);

 private:
  void cut();

  const RecordOrder& order_;
  const std::size_t record_bytes_;
  const std::uint64_t most_;
  const bool unique_;
  const std::size_t least_room_;  // in records, for those that come next
  const std::size_t capacity_;
  const std::unique_ptr<std::byte[]> memory_;
  const std::span<std::byte> scratch_;  // for sorting
  std::byte* const records_;
  std::byte* const sorted_;
  std::size_t size_ = 0;
  const std::byte* bound_ = nullptr;  // the last of the first; null: fewer came
};

}}  // namespace vortex::v0

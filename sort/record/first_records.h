// The first of many records, while they pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vortex/record_order.h"
#include "vortex/thread/futex.h"

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

// Which records may still be among the first, while runs are formed: those that come before a
// record that as many as are wanted came before, or were, in a run. One thread takes records; any
// other may tell.
class FirstBound {
 public:
  // The order outlives it.
  explicit FirstBound(const RecordOrder& order);

  // In a run, `record` was the last of as many as are wanted, all of which were taken before.
  // Allocates.
  void tell(const std::byte* record);
  // Those of `count` records that may be among the first: themselves, as long as nothing was told,
  // or copies, valid until the next call. Reading them may fault. Allocates.
  std::span<const std::byte> wanted(const std::byte* records, std::size_t count);

 private:
  const std::byte* bound();

  const RecordOrder& order_;
  const std::size_t record_bytes_;
  std::vector<std::byte> bound_;  // no wanted record comes behind it; empty: none is known
  std::vector<std::byte> wanted_;
  FutexMutex mutex_;             // guards
  std::vector<std::byte> told_;  // the least record that was told since the last call
};

}}  // namespace vortex::v0

// The sorted records of an arena in parts, which several threads write side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lines/memory/line_arena.h"
#include "lines/memory/string_sort.h"
#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 {

// The records of a part, in order. Read by one thread at a time, as a RunMerge is.
class ArenaPart {
 public:
  ArenaPart(std::span<const IndexEntry> index, const StoredOrder& order) noexcept
      : index_(index), order_(order), cursor_(index, order) {}

  // Reads through all records once.
  void measure() noexcept;
  // Behind measure(): the records, each as many times as it is there, and the bytes of their text.
  std::uint64_t counted() const noexcept { return counted_; }
  std::uint64_t text_bytes() const noexcept { return text_bytes_; }

  static constexpr SpanKind kWork = ArenaCursor::kWork;
  void start() noexcept {}
  bool next() noexcept { return cursor_.next(); }
  const StoredRecord& stored() const noexcept { return cursor_.stored(); }
  std::uint64_t count() const noexcept { return cursor_.count(); }

 private:
  const std::span<const IndexEntry> index_;
  const StoredOrder order_;
  ArenaCursor cursor_;
  std::uint64_t counted_ = 0;
  std::uint64_t text_bytes_ = 0;
};

// `parts` parts at most, of about as many records each, one behind the other in the order;
// measured, if they are several. Each of them has `least_bytes` of text at least, or there is but
// one. The arena outlives them.
std::vector<std::unique_ptr<ArenaPart>> divide_arena(const LineArena& arena, unsigned parts,
                                                     std::uint64_t least_bytes,
                                                     detail::ThreadTeam& team);

}}  // namespace vortex::v0

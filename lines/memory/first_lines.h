// Which of the records that come may be among the first of a sort.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lines/memory/line_arena.h"
#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 {

// Of a sort of which only the first records are wanted: a record that no wanted one comes behind,
// the best that sorted arenas have shown.
class FirstLines {
 public:
  // `most` are wanted; 0: all, and nothing here does anything.
  FirstLines(const StoredOrder& order, std::uint64_t most) noexcept;

  // Whether the record is none of the first. An equal one that came before is, or is the same. The
  // key is not looked at where records are their own. Throws what making a whole key throws.
  bool is_behind(std::string_view key, std::string_view record) const {
    if (bound_.empty()) [[likely]]
      return false;
    const std::string_view decides = order_.has_keys ? key : record;
    const std::uint64_t chunk = chunk_at(decides, 0) ^ order_.flip;
    return chunk != bound_chunk_ ? chunk > bound_chunk_ : is_behind_bound({decides, record});
  }

  bool is_limited() const noexcept { return most_ != 0; }
  // Where few are wanted, they are sorted long before the memory is full.
  bool is_time_to_cut(const LineArena& arena) const noexcept {
    return most_ != 0 && arena.records() >= cut_at_;
  }
  // A sorted arena: what is learned from it, unless that is long; and what is behind the first is
  // dropped, as by LineArena::keep_first().
  void note(const LineArena& sorted, detail::ThreadTeam& team);
  bool cut(LineArena& sorted, detail::ThreadTeam& team);

 private:
  bool is_behind_bound(const StoredRecord& record) const;

  const StoredOrder order_;
  const std::uint64_t most_;
  std::string bound_;              // as it is stored
  std::uint64_t bound_chunk_ = 0;  // its first, in the order
  std::uint64_t cut_at_;           // records in an arena
};

}}  // namespace vortex::v0

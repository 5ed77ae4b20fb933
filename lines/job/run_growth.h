// Runs that go on from arena to arena, as far as the order of the input allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lines/job/line_plan.h"
#include "lines/job/line_runs.h"
#include "lines/memory/line_arena.h"
#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 {

// A sorted arena becomes a run of its own where its order says nothing about what comes. Where
// hardly any of the newest records lie among its first ones, the first ones are written and their
// run stays open: the others stay in memory with what comes, and so do the few that have come too
// late for that run. So an input that is sorted, or whose records are displaced by less than the
// memory holds, becomes one run. This is replacement selection (Goetz 1963) in batches, which sorts
// no record of a random input twice.
//
// Where hardly any of the newest lie among its last ones, these are written, as a part of a run
// that falls: the next part comes before them. Equal records are in one part, or in different runs.
//
// One thread at a time; share_of() and write() of different arenas take turns.
class RunGrowth {
 public:
  // What write() has done, in bytes.
  using Told = std::function<void(std::uint64_t)>;

  // The plan and the runs outlive it.
  RunGrowth(const StoredOrder& order, const LinePlan& plan, LineRuns& runs)
      : order_(order), plan_(plan), runs_(runs) {}

  // To be asked for before the arena is sorted, where its newest records are known: a place in it
  // that they do not lie in front of.
  static const char* newest_of(const LineArena& arena) noexcept;
  // What of a sorted arena is to be written now: all of it, or so much that a quarter of its memory
  // becomes free. Throws std::bad_alloc, and what making whole keys throws.
  ArenaShare share_of(const LineArena& sorted, const char* newest, detail::ThreadTeam& team) const;
  // Writes that. With shares of all arenas, and the rest of the last one, every record is in a run.
  void write(const LineArena& sorted, const ArenaShare& share, const Told& told);
  void write_rest(const LineArena& sorted, const Told& told);
  // The same, but in memory, see LineRuns::keep_in_parts(); no run is open.
  std::uint64_t keep(const LineArena& sorted, detail::ThreadTeam& team, const Told& told);
  // What that may take.
  static std::uint64_t most_kept(const LineArena& arena) noexcept;
  // The records that the cursor has not been at, of an arena that was to stay in memory.
  void spill(const LineArena& sorted, ArenaCursor rest, const Told& told);

 private:
  std::size_t behind_edge(const LineArena& sorted) const;
  std::size_t too_late(const LineArena& sorted) const;
  ArenaShare all_of(const LineArena& sorted, std::size_t late) const;
  void write(const LineArena& sorted, std::span<const IndexEntry> entries, bool falls, bool goes_on,
             const Told& told);
  LineRuns::PartEnd end_of(std::span<const IndexEntry> part, const IndexEntry& next) const;
  bool write_in_parts(const LineArena& sorted, std::span<const IndexEntry> entries,
                      const Told& told);
  void append(LineRunWriter& run, ArenaCursor cursor, bool first, const Told& told) const;
  void end_part(const IndexEntry& last);
  void end_open();
  std::uint64_t bytes_of_long_run() const;

  const StoredOrder order_;
  const LinePlan& plan_;
  LineRuns& runs_;
  // Of the open run, as it is stored: its last record, or its first where it falls.
  std::string edge_;
  std::optional<detail::ThreadTeam> writers_;  // of parts, once there are any
};

}}  // namespace vortex::v0

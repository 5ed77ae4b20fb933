#include "lines/job/run_growth.h"

#include <algorithm>

#include "lines/memory/staying_records.h"
#include "sort/plan/memory_limits.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

// The newest records of an arena, from which is known what comes: one in sixteen. Of those, one in
// 32 may lie in front of what the others show.
constexpr std::size_t kNewestShare = 16;
constexpr std::size_t kTolerated = 32;
// A share is a quarter of the arena at least, in records and in bytes: what stays is moved and
// sorted again.
constexpr std::size_t kLeastShare = 4;
// What is kept beside the memory of a sort is little.
constexpr std::ptrdiff_t kMostEdgeBytes = std::ptrdiff_t{64} << 10;
// What reserving a long run counts with, in multiples of its text. A run that reaches its end is
// followed by another.
constexpr std::uint64_t kTimesText = 2;
constexpr std::uint64_t kTimesTextWithKeys = 4;
// In multiples of the memory, where the length of the input is not known.
constexpr std::uint64_t kRunOfUnknown = 64;
// A long run takes no more than this part of the address space that is left.
constexpr std::uint64_t kShareForLongRun = 8;

std::uint64_t most_bytes_of(const LineArena& arena) noexcept {
  return arena.stored_bytes() + arena.records() * kRunPrefixBytes;
}

// How many entries, from `first` on, lie in front of all that are no older than `newest`, if that
// is half of them, else in front of nearly all: then some came out of order.
template <typename Iterator>
std::size_t settled(Iterator first, std::size_t all, const char* newest, detail::ThreadTeam& team) {
  const auto is_newer = [&](std::size_t entry) -> std::uint64_t {
    return stored_at(first[static_cast<std::ptrdiff_t>(entry)]) < newest ? 0 : 1;
  };
  const std::size_t entries = sum_reaches(all, 1, is_newer, team);
  if (entries >= all / 2) return entries;
  return sum_reaches(all, 1 + all / kNewestShare / kTolerated, is_newer, team);
}

// The same of a sorted arena. Those that are the same are together.
std::size_t settled_first(const LineArena& sorted, const char* newest, detail::ThreadTeam& team) {
  const std::span<const IndexEntry> index = sorted.index();
  std::size_t entries = settled(index.begin(), index.size(), newest, team);
  while (entries < index.size() && index[entries].key == kSameKey) ++entries;
  return entries;
}
// How many of its last entries lie behind those: equal ones that stay would be written in front of
// older ones.
std::size_t settled_last(const LineArena& sorted, const char* newest, detail::ThreadTeam& team) {
  const std::span<const IndexEntry> index = sorted.index();
  const StoredOrder& order = sorted.order();
  const bool has_keys = order.has_keys;
  const std::size_t last = settled(index.rbegin(), index.size(), newest, team);
  if (last == 0 || last == index.size()) return last;
  const StoredRecord before = stored_record_at(stored_at(index[index.size() - last - 1]), has_keys);
  const auto behind = std::partition_point(
      index.end() - static_cast<std::ptrdiff_t>(last), index.end(), [&](const auto& entry) {
        return difference(before, stored_record_at(stored_at(entry), has_keys), order, 0).order ==
               0;
      });
  return static_cast<std::size_t>(index.end() - behind);
}

// Some parts, none of which is empty.
std::vector<std::span<const IndexEntry>> parts_of(std::span<const IndexEntry> entries,
                                                  unsigned count) {
  if (count > 1) {
    auto parts = divide_index(entries, count);
    if (std::ranges::none_of(parts, [](const auto& part) { return part.empty(); })) return parts;
  }
  return {entries};
}

// What to write of `all` entries, of which `late` have come too late for the run that is open, and
// the first of which, `settled`, lie in front of what comes. Less than `least` is not worth a
// share.
ArenaShare share_of_entries(std::size_t all, std::size_t late, std::size_t settled, bool is_open) {
  const std::size_t least = std::max<std::size_t>(all / kLeastShare, 1);
  if (!is_open) {
    if (settled < least) return {.entries = all, .ends_before = true};
    return {.entries = settled, .ends_before = true, .goes_on = true};
  }
  if (late <= least && settled >= late + least) {
    return {.begin = late, .entries = settled - late, .goes_on = true};
  }
  // The open run ends with all that may join it. The others begin another one, if the newest are
  // among them; if not, only half an arena is worth a run.
  ArenaShare share{.begin = late, .entries = all - late};
  share.goes_on = settled >= least && settled <= late;
  if (share.goes_on) share.entries += settled;
  if (!share.goes_on && late >= all / 2) share.entries = all;
  return share;
}

// The same where the order is turned round.
ArenaShare turned_round(ArenaShare share, std::size_t all) {
  share.begin = (2 * all - share.begin - share.entries) % all;
  share.falls = true;
  return share;
}

}  // namespace

const char* RunGrowth::newest_of(const LineArena& arena) noexcept {
  return stored_at(arena.index()[arena.records() / kNewestShare]);
}

// The first entry that is not less than the record at the edge of the open run.
std::size_t RunGrowth::behind_edge(const LineArena& sorted) const {
  const StoredRecord edge = stored_record_at(edge_.data(), order_.has_keys);
  const std::span<const IndexEntry> index = sorted.index();
  const auto behind = std::partition_point(index.begin(), index.end(), [&](const auto& entry) {
    const StoredRecord record = stored_record_at(stored_at(entry), order_.has_keys);
    return difference(record, edge, order_, 0).order < 0;
  });
  return static_cast<std::size_t>(behind - index.begin());
}

// Those that have come too late for it, which may be all.
std::size_t RunGrowth::too_late(const LineArena& sorted) const {
  const auto all = static_cast<std::size_t>(sorted.records());
  if (!runs_.is_open()) return all;
  if (runs_.falls()) return all - behind_edge(sorted);
  return runs_.open_one().room() < most_bytes_of(sorted) ? all : behind_edge(sorted);
}

// As much of it to the open run as there is room for, and the others to a run of their own.
ArenaShare RunGrowth::all_of(const LineArena& sorted, std::size_t late) const {
  const auto all = static_cast<std::size_t>(sorted.records());
  const ArenaShare share{.begin = late % all, .entries = all, .ends_before = late == all};
  return runs_.falls() ? turned_round(share, all) : share;
}

ArenaShare RunGrowth::share_of(const LineArena& sorted, const char* newest,
                               detail::ThreadTeam& team) const {
  const auto all = static_cast<std::size_t>(sorted.records());
  const std::size_t late = too_late(sorted);
  const ArenaShare whole = all_of(sorted, late);
  // Of a run no more are wanted.
  if (plan_.first_records != 0 && plan_.first_records < all) return whole;
  const bool is_open = late < all;
  const auto rising = [&] {
    return share_of_entries(all, late, settled_first(sorted, newest, team), is_open);
  };
  const auto falling = [&] {
    return turned_round(share_of_entries(all, late, settled_last(sorted, newest, team), is_open),
                        all);
  };
  ArenaShare share = is_open && runs_.falls() ? falling() : rising();
  if (!is_open && !share.goes_on) share = falling();
  const bool leaves_room =
      share.entries == all || sorted.bytes_beside(share, team) <=
                                  sorted.stored_bytes() - sorted.stored_bytes() / kLeastShare;
  return leaves_room ? share : whole;
}

void RunGrowth::write(const LineArena& sorted, const ArenaShare& share, const Told& told) {
  if (share.ends_before) end_open();
  const std::span<const IndexEntry> index = sorted.index();
  const std::size_t end = std::min(share.begin + share.entries, index.size());
  const auto last = index.subspan(share.begin, end - share.begin);
  const auto first = index.first(share.begin + share.entries - end);
  if (first.empty()) return write(sorted, last, share.falls, share.goes_on, told);
  // One joins the open run, and the other begins the next one.
  write(sorted, share.falls ? first : last, share.falls, false, told);
  write(sorted, share.falls ? last : first, share.falls, share.goes_on, told);
}

void RunGrowth::write_rest(const LineArena& sorted, const Told& told) {
  if (sorted.empty()) return end_open();
  write(sorted, all_of(sorted, too_late(sorted)), told);
}

// To the open run, or to another.
void RunGrowth::write(const LineArena& sorted, std::span<const IndexEntry> entries, bool falls,
                      bool goes_on, const Told& told) {
  falls = falls && (runs_.falls() || goes_on);
  if (!falls && !goes_on && !runs_.is_open() && write_in_parts(sorted, entries, told)) return;
  if (falls || !runs_.is_open()) {
    const std::uint64_t most_bytes = most_bytes_of(sorted);
    runs_.open_run(goes_on && !falls ? std::max(most_bytes, bytes_of_long_run()) : most_bytes);
    if (!runs_.falls()) edge_.clear();
  }
  append(runs_.open_one(), ArenaCursor(entries, order_), falls || edge_.empty(), told);
  if (falls) end_part(entries.back());
  const char* const edge = stored_at(falls ? entries.front() : entries.back());
  const char* end = edge;
  stored_record(end, order_.has_keys);
  if (!goes_on || end - edge > kMostEdgeBytes) return end_open();
  edge_.assign(edge, end);
}

// They come before what the edge is of.
void RunGrowth::end_part(const IndexEntry& last) {
  const StoredRecord record = stored_record_at(stored_at(last), order_.has_keys);
  std::uint64_t in_common = 0;
  if (runs_.falls()) {
    const StoredRecord next = stored_record_at(edge_.data(), order_.has_keys);
    in_common = difference(record, next, order_, 0).chunk;
  }
  runs_.end_part(record, in_common);
}

// Of a part that another one comes behind.
LineRuns::PartEnd RunGrowth::end_of(std::span<const IndexEntry> part,
                                    const IndexEntry& next) const {
  const StoredRecord last = stored_record_at(stored_at(part.back()), order_.has_keys);
  const StoredRecord behind = stored_record_at(stored_at(next), order_.has_keys);
  return {last, difference(last, behind, order_, 0).chunk};
}

// Writes a run of its own by several threads, if it is long.
bool RunGrowth::write_in_parts(const LineArena& sorted, std::span<const IndexEntry> entries,
                               const Told& told) {
  // Each part has address space for all of them.
  const auto parts = parts_of(entries, plan_.run_parts(sorted.stored_bytes()));
  if (parts.size() < 2 || plan_.first_records != 0 || stack_bytes_of_thread() != 0) return false;
  if (!writers_) writers_.emplace(plan_.run_parts(plan_.memory_bytes));
  runs_.form_in_parts(
      parts.size(), most_bytes_of(sorted), *writers_,
      [&](std::size_t part, LineRunWriter& run) {
        append(run, ArenaCursor(parts[part], order_), true, told);
      },
      [&](std::size_t part) { return end_of(parts[part], parts[part + 1].front()); });
  return true;
}

// A byte in front of each record, and of a counted order a count. Whoever has so much in common
// with another that more are needed is that much longer itself. Each part has two pages more.
std::uint64_t RunGrowth::most_kept(const LineArena& arena) noexcept {
  constexpr std::uint64_t kLongHeadShare = 32;
  constexpr std::uint64_t kPagesShare = 16;
  const std::uint64_t of_each = 1 + (arena.order().counted ? kMaxLengthBytes : 0);
  const std::uint64_t stored = arena.stored_bytes();
  return stored + stored / kLongHeadShare + stored / kPagesShare + arena.records() * of_each;
}

std::uint64_t RunGrowth::keep(const LineArena& sorted, detail::ThreadTeam& team, const Told& told) {
  const std::uint64_t worth = sorted.stored_bytes() / plan_.least_part_bytes();
  const auto most = static_cast<unsigned>(std::min<std::uint64_t>(plan_.threads, worth));
  const auto parts = parts_of(sorted.index(), plan_.first_records != 0 ? 1 : most);
  return runs_.keep_in_parts(
      parts.size(), most_bytes_of(sorted), team,
      [&](std::size_t part, LineRunWriter& run) {
        append(run, ArenaCursor(parts[part], order_), true, told);
      },
      [&](std::size_t part) { return end_of(parts[part], parts[part + 1].front()); });
}

// The first that are wanted, behind which nobody looks. `first`: they begin their run, or a part.
void RunGrowth::append(LineRunWriter& run, ArenaCursor cursor, bool first, const Told& told) const {
  StoredRecord before;
  if (!first) before = stored_record_at(edge_.data(), order_.has_keys);
  FirstOfCursor<ArenaCursor> wanted(cursor, plan_.first_records);
  for_each_record(
      wanted,
      [&](const FirstOfCursor<ArenaCursor>& at) {
        const StoredRecord& stored = at.stored();
        const std::uint64_t in_common = first ? 0 : difference(before, stored, order_, 0).chunk;
        run.append(stored, in_common, at.count());
        before = stored;
        first = false;
      },
      told);
}

void RunGrowth::spill(const LineArena& sorted, ArenaCursor rest, const Told& told) {
  runs_.form(most_bytes_of(sorted), [&](LineRunWriter& run) { append(run, rest, true, told); });
}

void RunGrowth::end_open() {
  if (runs_.is_open()) runs_.end_open();
  edge_.clear();
}

std::uint64_t RunGrowth::bytes_of_long_run() const {
  const std::uint64_t wanted =
      plan_.input_bytes ? detail::saturating_product(
                              *plan_.input_bytes, order_.has_keys ? kTimesTextWithKeys : kTimesText)
                        : kRunOfUnknown * plan_.memory_bytes;
  return std::min(wanted, address_space_left() / kShareForLongRun);
}

}}  // namespace vortex::v0

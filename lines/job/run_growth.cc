#include "lines/job/run_growth.h"

#include <algorithm>

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
constexpr std::ptrdiff_t kMostLastBytes = std::ptrdiff_t{64} << 10;
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

// How many entries of a sorted arena lie in front of all that are no older than `newest`, if that
// is half of them, else in front of nearly all: then some came out of order. Equal ones are
// together.
std::size_t settled(const LineArena& arena, const char* newest) noexcept {
  const std::span<const IndexEntry> index = arena.index();
  const auto next = [&](std::size_t entry) {
    while (entry < index.size() && stored_at(index[entry]) < newest) ++entry;
    return entry;
  };
  std::size_t entries = next(0);
  if (entries < index.size() / 2) {
    for (std::size_t i = index.size() / kNewestShare / kTolerated; i > 0; --i) {
      entries = next(std::min(entries + 1, index.size()));
    }
  }
  while (entries < index.size() && index[entries].key == kSameKey) ++entries;
  return entries;
}

}  // namespace

const char* RunGrowth::newest_of(const LineArena& arena) noexcept {
  return stored_at(arena.index()[arena.records() / kNewestShare]);
}

// The first entry that is not less than the last record of the open run.
std::size_t RunGrowth::behind_last(const LineArena& sorted) const {
  const StoredRecord last = stored_record_at(last_.data(), order_.has_keys);
  const std::span<const IndexEntry> index = sorted.index();
  const auto behind = std::partition_point(index.begin(), index.end(), [&](const auto& entry) {
    const StoredRecord record = stored_record_at(stored_at(entry), order_.has_keys);
    return difference(record, last, order_, 0).order < 0;
  });
  return static_cast<std::size_t>(behind - index.begin());
}

// As much of it to the open run as there is room for, and the others to a run of their own.
ArenaShare RunGrowth::all_of(const LineArena& sorted) const {
  ArenaShare share{.entries = static_cast<std::size_t>(sorted.records()), .ends_before = true};
  if (!runs_.is_open() || runs_.open_one().room() < most_bytes_of(sorted)) return share;
  const std::size_t begin = behind_last(sorted);
  if (begin == share.entries) return share;
  share.begin = begin;
  share.ends_before = false;
  return share;
}

ArenaShare RunGrowth::share_of(const LineArena& sorted, const char* newest) const {
  const ArenaShare whole = all_of(sorted);
  if (plan_.first_records != 0) return whole;
  ArenaShare share = whole;
  const std::size_t all = whole.entries;
  const std::size_t least = std::max<std::size_t>(all / kLeastShare, 1);
  const std::size_t end = settled(sorted, newest);
  if (share.ends_before) {
    share.goes_on = end >= least;
    if (share.goes_on) share.entries = end;
  } else if (share.begin <= least && end >= share.begin + least) {
    share.goes_on = true;
    share.entries = end - share.begin;
  } else {
    // The open run ends with all that may join it. The others begin another one, if the newest are
    // among them; if not, only half an arena is worth a run.
    share.goes_on = end >= least && end <= share.begin;
    share.entries = all - share.begin;
    if (share.goes_on) share.entries += end;
    if (!share.goes_on && share.begin >= all / 2) share.entries = all;
  }
  const bool leaves_room =
      share.entries == all ||
      sorted.bytes_beside(share) <= sorted.stored_bytes() - sorted.stored_bytes() / kLeastShare;
  return leaves_room ? share : whole;
}

void RunGrowth::write(const LineArena& sorted, const ArenaShare& share, const Told& told) {
  if (share.ends_before) end_open();
  const std::span<const IndexEntry> index = sorted.index();
  const std::size_t end = std::min(share.begin + share.entries, index.size());
  const std::size_t others = share.begin + share.entries - end;
  write(sorted, index.subspan(share.begin, end - share.begin), share.goes_on && others == 0, told);
  if (others > 0) write(sorted, index.first(others), share.goes_on, told);
}

void RunGrowth::write_rest(const LineArena& sorted, const Told& told) {
  if (sorted.empty()) return end_open();
  write(sorted, all_of(sorted), told);
}

// To the open run, or to another.
void RunGrowth::write(const LineArena& sorted, std::span<const IndexEntry> entries, bool goes_on,
                      const Told& told) {
  if (!runs_.is_open()) {
    const std::uint64_t most_bytes = most_bytes_of(sorted);
    runs_.open_run(goes_on ? std::max(most_bytes, bytes_of_long_run()) : most_bytes);
    last_.clear();
  }
  append(ArenaCursor(entries, order_), told);
  const char* end = stored_at(entries.back());
  stored_record(end, order_.has_keys);
  goes_on = goes_on && end - stored_at(entries.back()) <= kMostLastBytes;
  if (!goes_on) return end_open();
  last_.assign(stored_at(entries.back()), end);
}

void RunGrowth::append(ArenaCursor cursor, const Told& told) {
  LineRunWriter& run = runs_.open_one();
  bool first = last_.empty();
  StoredRecord before;
  if (!first) before = stored_record_at(last_.data(), order_.has_keys);
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
  runs_.form(most_bytes_of(sorted), [&](LineRunWriter&) { append(rest, told); });
}

void RunGrowth::end_open() {
  if (runs_.is_open()) runs_.end_open();
  last_.clear();
}

std::uint64_t RunGrowth::bytes_of_long_run() const {
  const std::uint64_t wanted =
      plan_.input_bytes ? detail::saturating_product(
                              *plan_.input_bytes, order_.has_keys ? kTimesTextWithKeys : kTimesText)
                        : kRunOfUnknown * plan_.memory_bytes;
  return std::min(wanted, address_space_left() / kShareForLongRun);
}

}}  // namespace vortex::v0

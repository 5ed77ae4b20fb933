#include "lines/memory/line_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

RawMemory::RawMemory(std::size_t bytes, PageKind pages) : bytes_(bytes) {
  int error = 0;
  std::byte* const memory = os::map_memory(nullptr, bytes, &error);
  if (memory == nullptr) {
    throw Error(error, "memory for records: the system refuses " + format_bytes(bytes));
  }
  // Small pages do where the system has no huge ones.
  os::advise(memory, bytes, pages == PageKind::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  data_ = reinterpret_cast<char*>(memory);
}

RawMemory::~RawMemory() { os::unmap(reinterpret_cast<std::byte*>(data_), bytes_); }

LineArena::LineArena(std::span<char> memory, const StoredOrder& order)
    : memory_(memory), order_(order) {
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data() + memory.size());
  index_end_ = reinterpret_cast<IndexEntry*>(end / sizeof(IndexEntry) * sizeof(IndexEntry));
  clear();
}

void LineArena::clear() noexcept {
  front_ = memory_.data();
  index_ = index_end_;
}

bool LineArena::push(std::string_view key, std::string_view record) noexcept {
  const std::size_t bytes = vortex::stored_bytes(key, record, order_.has_keys);
  if (free_room().size() < bytes + sizeof(IndexEntry)) return false;
  char* const begin = front_;
  front_ += bytes;
  // It is copied before the rest, which may be written over where it lies now.
  char* const to = front_ - record.size();
  if (record.data() + record.size() <= begin || record.data() >= front_) {
    copy_text(to, record);
  } else {
    std::memmove(to, record.data(), record.size());
  }
  char* at = begin;
  if (order_.has_keys) at = write_length(at, key.size());
  at = write_length(at, record.size());
  if (order_.has_keys) copy_text(at, key);
  const std::string_view sorted_by = order_.has_keys ? key : std::string_view(to, record.size());
  *--index_ = {chunk_at(sorted_by, 0) ^ order_.flip, reinterpret_cast<std::uint64_t>(begin)};
  return true;
}

std::optional<LineArena::Place> LineArena::reserve(std::uint64_t records,
                                                   std::uint64_t bytes) noexcept {
  if (free_room().size() < bytes + records * sizeof(IndexEntry)) return std::nullopt;
  const Place place{front_, index_};
  front_ += bytes;
  index_ -= records;
  return place;
}

void LineArena::put(Place& place, std::string_view key, std::string_view record) const noexcept {
  char* const begin = place.front;
  char* at = begin;
  if (order_.has_keys) at = write_length(at, key.size());
  at = write_length(at, record.size());
  if (order_.has_keys) at = copy_text(at, key);
  place.front = copy_text(at, record);
  const std::string_view sorted_by = order_.has_keys ? key : std::string_view(at, record.size());
  *--place.index = {chunk_at(sorted_by, 0) ^ order_.flip, reinterpret_cast<std::uint64_t>(begin)};
}

void LineArena::push_in_place(std::size_t record_bytes, std::size_t key_bytes) noexcept {
  char* const begin = front_;
  char* const from = begin + kPushRoom;
  std::rotate(from, from + record_bytes, from + record_bytes + key_bytes);
  char* const key = write_length(write_length(begin, key_bytes), record_bytes);
  std::memmove(key, from, key_bytes + record_bytes);
  front_ = key + key_bytes + record_bytes;
  *--index_ = {chunk_at({key, key_bytes}, 0) ^ order_.flip, reinterpret_cast<std::uint64_t>(begin)};
}

bool LineArena::drop_equal(detail::ThreadTeam& team) {
  const auto equal = [this](std::size_t i) -> std::uint64_t { return index_[i].key == kSameKey; };
  const std::uint64_t half = records() / 2;
  if (half != 0 && sum_reaches(records(), half, equal, team) == records()) return false;
  const auto stays = [](const IndexEntry& entry) { return entry.key != kSameKey; };
  if (kept(team).bytes_of(index(), stays) > stored_bytes() / 2) return false;

  const bool unique = order_.unique;
  keep(index(), index_, team, [unique](std::span<const IndexEntry> entries, const auto& give) {
    // The one that is kept counts those that are equal to it. One more is kept where there would be
    // too many for that, and at most one more where shares of the entries meet.
    const IndexEntry* first = nullptr;
    std::uint64_t repeats = 0;
    for (const IndexEntry& entry : entries) {
      const std::uint64_t more = repeats_of(entry);
      if (entry.key == kSameKey) {
        if (unique) continue;
        if (first != nullptr && repeats + 1 + more <= kMaxRepeats) {
          repeats += 1 + more;
          continue;
        }
      }
      if (first != nullptr) give(*first, repeats);
      first = &entry;
      repeats = more;
    }
    if (first != nullptr) give(*first, repeats);
  });
  return true;
}

const IndexEntry* LineArena::last_of_first(std::uint64_t most, detail::ThreadTeam& team) const {
  const std::span<const IndexEntry> all = index();
  const auto count = [&](std::size_t i) -> std::uint64_t {
    if (order_.unique) return all[i].key == kSameKey ? 0 : 1;
    return 1 + repeats_of(all[i]);
  };
  const std::size_t last = sum_reaches(all.size(), most, count, team);
  return last == all.size() ? nullptr : &all[last];
}

bool LineArena::keep_first(std::uint64_t most, detail::ThreadTeam& team) {
  const IndexEntry* const last = last_of_first(most, team);
  if (last == nullptr || static_cast<std::uint64_t>(last + 1 - index_) > records() / 2)
    return false;
  const std::span<const IndexEntry> first(index_, last + 1);
  const auto stays = [](const IndexEntry&) { return true; };
  if (kept(team).bytes_of(first, stays) > stored_bytes() / 2) return false;
  const bool unique = order_.unique;
  keep(first, index_, team, [unique](std::span<const IndexEntry> entries, const auto& give) {
    for (const IndexEntry& entry : entries) {
      if (unique && entry.key == kSameKey) continue;
      give(entry, unique ? 0 : repeats_of(entry));
    }
  });
  return true;
}

std::uint64_t LineArena::bytes_beside(const ArenaShare& share, detail::ThreadTeam& team) const {
  const std::span<const IndexEntry> all = index();
  return kept(team).bytes_of(all, [&](const IndexEntry& entry) {
    return !share.has(static_cast<std::size_t>(&entry - all.data()), all.size());
  });
}

void LineArena::keep_beside(const LineArena& sorted, const ArenaShare& share,
                            detail::ThreadTeam& team) {
  const std::span<const IndexEntry> all = sorted.index();
  if (share.entries == all.size()) return clear();
  const bool unique = order_.unique;
  keep(all, &sorted == this ? index_ : nullptr, team,
       [&share, all, unique](std::span<const IndexEntry> entries, const auto& give) {
         for (const IndexEntry& entry : entries) {
           if (share.has(static_cast<std::size_t>(&entry - all.data()), all.size())) continue;
           if (unique && entry.key == kSameKey) continue;
           give(entry, repeats_of(entry));
         }
       });
}

bool LineArena::shrink(std::size_t bytes) noexcept {
  LineArena smaller(memory_.first(bytes), order_);
  smaller.front_ = front_;
  smaller.index_ -= records();
  if (reinterpret_cast<char*>(smaller.index_) < front_) return false;
  std::memmove(smaller.index_, index_, records() * sizeof(IndexEntry));
  *this = smaller;
  return true;
}

StayingRecords<detail::ThreadTeam> LineArena::kept(detail::ThreadTeam& team) const noexcept {
  return {order_.has_keys, order_.flip, team};
}

// Keeps the records of those entries that are chosen, see StayingRecords::bring_together(). The
// sort by places is of no more entries than have been sorted here, by the same threads, and takes
// no more memory.
template <typename Choose>
void LineArena::keep(std::span<const IndexEntry> entries, IndexEntry* own, detail::ThreadTeam& team,
                     const Choose& choose) {
  const auto records = kept(team);
  const std::span<IndexEntry> stay = records.bring_together(entries, own, index_end_, choose);
  vortex::sort(stay, {.threads = team.threads()});  // by their places
  front_ = records.move(stay, memory_.data());
  records.turn_round({stay.data(), index_end_}, stay.size());
  index_ = index_end_ - stay.size();
}

void ArenaPart::measure() noexcept {
  ArenaCursor cursor(index_, order_);
  while (cursor.next()) {
    counted_ += cursor.count();
    text_bytes_ += cursor.count() * cursor.stored().record.size();
  }
}

std::vector<std::span<const IndexEntry>> divide_index(std::span<const IndexEntry> index,
                                                      std::size_t parts) {
  std::vector<std::span<const IndexEntry>> all;
  std::size_t begin = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    std::size_t end = index.size() / parts * (part + 1);
    if (part + 1 == parts) end = index.size();
    end = std::max(end, begin);
    // Equal records stay together, for only the first of them counts.
    while (end < index.size() && index[end].key == kSameKey) ++end;
    all.push_back(index.subspan(begin, end - begin));
    begin = end;
  }
  return all;
}

std::vector<std::unique_ptr<ArenaPart>> divide_arena(const LineArena& arena, unsigned parts,
                                                     std::uint64_t least_bytes,
                                                     detail::ThreadTeam& team) {
  const std::span<const IndexEntry> index = arena.index();
  std::vector<std::unique_ptr<ArenaPart>> all;
  // An arena with less text than that has no part that is long enough.
  if (arena.stored_bytes() / least_bytes < parts) parts = 1;
  for (const std::span<const IndexEntry> part : divide_index(index, parts)) {
    all.push_back(std::make_unique<ArenaPart>(part, arena.order()));
  }
  if (parts == 1) return all;
  team.run(parts, [&](std::size_t part) { all[part]->measure(); });
  const bool long_enough = std::all_of(
      all.begin(), all.end(), [&](const auto& part) { return part->text_bytes() >= least_bytes; });
  if (long_enough) return all;
  all.clear();
  all.push_back(std::make_unique<ArenaPart>(index, arena.order()));
  return all;
}

std::uint64_t give_pages_back(std::span<const char> unused) noexcept {
  const std::uintptr_t page = os::page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(unused.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + unused.size()) / page * page;
  if (first >= last) return 0;
  os::discard(reinterpret_cast<std::byte*>(first), last - first);
  return last - first;
}

}}  // namespace vortex::v0

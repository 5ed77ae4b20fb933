#include "lines/memory/line_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::ptrdiff_t kAhead = 12;  // how many records ahead bytes are asked for

// An entry that is to be sorted by its place.
IndexEntry entry_by_place(const IndexEntry& entry, std::uint64_t repeats) noexcept {
  const auto place = reinterpret_cast<std::uint64_t>(stored_at(entry));
  IndexEntry by_place{place, place};
  add_repeats(by_place, repeats);
  return by_place;
}

}  // namespace

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

bool LineArena::drop_equal() {
  const auto equal = static_cast<std::uint64_t>(
      std::count_if(index_, index_end_, [](const auto& entry) { return entry.key == kSameKey; }));
  if (equal < records() / 2) return false;
  std::uint64_t kept_bytes = 0;
  for (const IndexEntry* entry = index_; entry != index_end_; ++entry) {
    if (entry->key == kSameKey) continue;
    if (index_end_ - entry > kAhead) __builtin_prefetch(stored_at(entry[kAhead]));
    kept_bytes += bytes_at(*entry);
  }
  if (kept_bytes > stored_bytes() / 2) return false;

  // The loop begins at the end: so it meets equal ones before the first of them, which counts them.
  // It keeps one more where there would be too many for that.
  IndexEntry* to = index_end_;
  std::uint64_t repeats = 0;
  for (IndexEntry* entry = index_end_; entry-- != index_;) {
    repeats += repeats_of(*entry);
    if (entry->key == kSameKey) {
      if (order_.unique) continue;
      if (repeats + 1 + repeats_of(entry[-1]) <= kMaxRepeats) {
        ++repeats;
        continue;
      }
    }
    *--to = entry_by_place(*entry, repeats);
    repeats = 0;
  }
  keep_from(to);
  return true;
}

const IndexEntry* LineArena::last_of_first(std::uint64_t most) const noexcept {
  for (const IndexEntry& entry : index()) {
    if (order_.unique && entry.key == kSameKey) continue;
    const std::uint64_t count = order_.unique ? 1 : 1 + repeats_of(entry);
    if (count >= most) return &entry;
    most -= count;
  }
  return nullptr;
}

bool LineArena::keep_first(std::uint64_t most) {
  const IndexEntry* const last = last_of_first(most);
  if (last == nullptr || static_cast<std::uint64_t>(last + 1 - index_) > records() / 2)
    return false;
  std::uint64_t kept_bytes = 0;
  for (const IndexEntry* entry = index_; entry != last + 1; ++entry) kept_bytes += bytes_at(*entry);
  if (kept_bytes > stored_bytes() / 2) return false;
  IndexEntry* to = index_end_;
  for (const IndexEntry* entry = last + 1; entry-- != index_;) {
    if (order_.unique && entry->key == kSameKey) continue;
    *--to = entry_by_place(*entry, order_.unique ? 0 : repeats_of(*entry));
  }
  keep_from(to);
  return true;
}

std::uint64_t LineArena::bytes_beside(const ArenaShare& share) const noexcept {
  const std::span<const IndexEntry> all = index();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (share.has(i, all.size())) continue;
    if (all.size() - i > kAhead) __builtin_prefetch(stored_at(all[i + kAhead]));
    bytes += bytes_at(all[i]);
  }
  return bytes;
}

void LineArena::keep_beside(const LineArena& sorted, const ArenaShare& share) {
  const std::span<const IndexEntry> all = sorted.index();
  if (share.entries == all.size()) return clear();
  IndexEntry* to = index_end_;
  for (std::size_t i = all.size(); i-- > 0;) {
    const IndexEntry entry = all[i];
    if (share.has(i, all.size()) || (order_.unique && entry.key == kSameKey)) continue;
    *--to = entry_by_place(entry, repeats_of(entry));
  }
  keep_from(to);
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

// Of the record, with its key and lengths.
std::uint64_t LineArena::bytes_at(const IndexEntry& entry) const noexcept {
  const StoredRecord record = stored_record_at(stored_at(entry), order_.has_keys);
  return vortex::stored_bytes(record.key, record.record, order_.has_keys);
}

// Keeps the records of the entries from this one on, whose keys are their places.
void LineArena::keep_from(IndexEntry* first) {
  index_ = first;
  vortex::sort(std::span(index_, index_end_), {.threads = 1});  // by their places
  front_ = memory_.data();
  for (IndexEntry* entry = index_; entry != index_end_; ++entry) {
    const char* const from = stored_at(*entry);
    const char* end = from;
    stored_record(end, order_.has_keys);
    std::memmove(front_, from, static_cast<std::size_t>(end - from));
    const std::uint64_t repeated = repeats_of(*entry);
    entry->value = reinterpret_cast<std::uint64_t>(front_);
    entry->key = chunk_at(stored_record_at(front_, order_.has_keys).key, 0) ^ order_.flip;
    add_repeats(*entry, repeated);
    front_ += end - from;
  }
  std::reverse(index_, index_end_);  // as if they had been pushed
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

}}  // namespace vortex::v0

// The memory in which records become sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lines/memory/staying_records.h"
#include "lines/memory/string_sort.h"
#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// The pages of memory: small ones where most of it stays untouched.
enum class PageKind : std::uint8_t { kSmall, kHuge };

// Private memory, in huge pages where they are wanted and there are any. It is resident once it has
// been touched.
class RawMemory {
 public:
  // Throws Error(ENOMEM).
  explicit RawMemory(std::size_t bytes, PageKind pages = PageKind::kHuge);
  ~RawMemory();
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;

  char* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  char* data_;
  std::size_t bytes_;
};

// Entries of a sorted arena that go into runs, and those that stay. What goes lies one behind the
// other, the first entry behind the last.
struct ArenaShare {
  std::size_t begin = 0;
  std::size_t entries = 0;   // that go
  bool ends_before = false;  // the run that was open gets none of them
  bool goes_on = false;      // their last run stays open
  bool falls = false;        // if it does, what comes next comes before them

  bool has(std::size_t entry, std::size_t all) const noexcept {
    return (entry < begin ? all : 0) + entry - begin < entries;
  }
};

// Records grow from the beginning of a part of memory, their index from its end.
class LineArena {
 public:
  LineArena(std::span<char> memory, const StoredOrder& order);

  // Copies a record and its key to the end of those that are there; the key is not looked at where
  // records are their own keys. Returns false, with nothing changed, where there is no room. The
  // record may lie in free_room(), the key may not.
  bool push(std::string_view key, std::string_view record) noexcept;

  // The same for a record that lies kPushRoom behind the beginning of free_room(), with its key
  // right behind it and room for an index entry behind that.
  void push_in_place(std::size_t record_bytes, std::size_t key_bytes) noexcept;

  // Where records are put that have been counted.
  struct Place {
    char* front;
    IndexEntry* index;
  };
  // Takes the room of records that are put there later, with their keys and lengths, in their
  // order: by any thread, beside others. None: there is no room.
  std::optional<Place> reserve(std::uint64_t records, std::uint64_t bytes) noexcept;
  // Copies a record there, which does not lie in the arena, and goes behind it.
  void put(Place& place, std::string_view key, std::string_view record) const noexcept;

  std::span<const char> memory() const noexcept { return memory_; }
  // The memory that records have not taken. A record may be put together in it, kPushRoom behind
  // its beginning, before it is pushed.
  std::span<char> free_room() const noexcept {
    return {front_, static_cast<std::size_t>(reinterpret_cast<char*>(index_) - front_)};
  }
  // A record takes this much at most besides its bytes and its key.
  static constexpr std::size_t kPushRoom = 2 * kMaxLengthBytes + sizeof(IndexEntry);

  // The record that was pushed last; there must be one. It stays there until clear(), sort() or
  // drop_equal().
  IndexEntry& newest() noexcept { return *index_; }
  bool empty() const noexcept { return index_ == index_end_; }
  std::uint64_t records() const noexcept { return static_cast<std::uint64_t>(index_end_ - index_); }
  // The bytes of records and keys with their lengths.
  std::uint64_t stored_bytes() const noexcept {
    return static_cast<std::uint64_t>(front_ - memory_.data());
  }
  void clear() noexcept;

  // Sorts the index.
  void sort(detail::ThreadTeam& team) { sort_stored({index_, index_end_}, order_, team); }

  // To be called after sort() where the order is unique or counted. Drops all but the first of
  // equal records, counts them there with a counted order, and makes their room free. The records
  // that are kept are in the order of the input again. Does nothing, and returns false, where that
  // would free less than half. Throws std::bad_alloc as sort() does, and so do the others that a
  // team carries out; where they change the arena, it can only be cleared or destroyed then.
  bool drop_equal(detail::ThreadTeam& team);

  // To be called after sort(). Drops what comes behind the first `most` records, as
  // drop_equal() drops equal ones.
  bool keep_first(std::uint64_t most, detail::ThreadTeam& team);
  // The last of the first `most` records, which are some, after sort(), each counted as many times
  // as it is there; null where there are fewer.
  const IndexEntry* last_of_first(std::uint64_t most, detail::ThreadTeam& team) const;

  // Of a sorted arena: the bytes of the records that stay where a share of it goes.
  std::uint64_t bytes_beside(const ArenaShare& share, detail::ThreadTeam& team) const;
  // Takes these records of another arena as they are, when it is empty itself, or makes the room of
  // what goes free. Their order is that of the input again.
  void keep_beside(const LineArena& sorted, const ArenaShare& share, detail::ThreadTeam& team);
  // The records stay where they are, in the memory that this arena has from now on, if they fit: a
  // part of what it had, with the same beginning.
  bool shrink(std::size_t bytes) noexcept;

  std::span<const IndexEntry> index() const noexcept { return {index_, index_end_}; }
  const StoredOrder& order() const noexcept { return order_; }

 private:
  StayingRecords<detail::ThreadTeam> kept(detail::ThreadTeam& team) const noexcept;
  template <typename Choose>
  void keep(std::span<const IndexEntry> entries, IndexEntry* own, detail::ThreadTeam& team,
            const Choose& choose);

  std::span<char> memory_;
  StoredOrder order_;
  char* front_;
  IndexEntry* index_;
  IndexEntry* index_end_;
};

// The records of an arena in the order of its index. With a unique order it gives only the first of
// equal ones; with a counted order they are one with a count, or a few: counts are limited, so that
// a sort that writes them tells its progress in between.
class ArenaCursor {
 public:
  explicit ArenaCursor(const LineArena& arena) noexcept
      : ArenaCursor(arena.index(), arena.order()) {}
  // Goes through a part of the index, whose first entry is not equal to the one before it.
  ArenaCursor(std::span<const IndexEntry> index, const StoredOrder& order) noexcept
      : index_(index), order_(order) {}

  static constexpr SpanKind kWork = SpanKind::kCopy;

  // Goes to the next record; false behind the last.
  bool next() noexcept {
    if (at_ == index_.size()) return false;
    if (index_.size() - at_ > kAhead) {
      const char* const soon = stored_at(index_[at_ + kAhead]);
      __builtin_prefetch(soon);
      __builtin_prefetch(soon + 64);
    }
    stored_ = stored_record_at(stored_at(index_[at_]), order_.has_keys);
    count_ = 0;
    do {
      count_ += 1 + repeats_of(index_[at_++]);
    } while (at_ < index_.size() && index_[at_].key == kSameKey &&
             (order_.unique || count_ < kMaxRepeats));
    if (order_.unique) count_ = 1;
    return true;
  }
  bool at_end() const noexcept { return at_ == index_.size(); }
  const StoredRecord& stored() const noexcept { return stored_; }
  // How many times the record is there.
  std::uint64_t count() const noexcept { return count_; }

 private:
  static constexpr std::size_t kAhead = 12;  // how many records ahead bytes are asked for

  std::span<const IndexEntry> index_;
  StoredOrder order_;
  std::size_t at_ = 0;
  StoredRecord stored_;
  std::uint64_t count_ = 0;
};

// The records of a part of an arena, in order, which is written beside other parts. Read by one
// thread at a time, as a RunMerge is.
class ArenaPart {
 public:
  ArenaPart(std::span<const IndexEntry> index, const StoredOrder& order) noexcept
      : index_(index), order_(order), cursor_(index, order) {}

  // Reads through all records once. Then these are the records, each as many times as it is there,
  // and the bytes of their text.
  void measure() noexcept;
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

// Cuts a sorted index into `parts` parts of about as many records each, one behind the other; equal
// ones are together, so a part may be empty.
std::vector<std::span<const IndexEntry>> divide_index(std::span<const IndexEntry> index,
                                                      std::size_t parts);

// Divides a sorted arena into `parts` parts at most, of about as many records each, one behind the
// other in the order. If there are several, they are measured and have `least_bytes` of text each
// at least. The arena outlives them.
std::vector<std::unique_ptr<ArenaPart>> divide_arena(const LineArena& arena, unsigned parts,
                                                     std::uint64_t least_bytes,
                                                     detail::ThreadTeam& team);

// Gives the whole pages of what an arena does not use back. Returns their bytes.
std::uint64_t give_pages_back(std::span<const char> unused) noexcept;

}}  // namespace vortex::v0

// Long records that a sort keeps apart from the others.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file/block_file.h"
#include "lines/record/byte_output.h"
#include "lines/record/stored_record.h"
#include "lines/runs/checked_texts.h"
#include "sort/runs/sort_watch.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Records that are longer than a part of the memory. A merge holds the longest record of each of
// its runs at a time, so few runs with such records could be merged: these are written to a file
// once, with checksums, and read once when their turn comes in the output.
//
// Mostly the file has their keys, too, and the memory their places and the first bytes of what they
// are sorted by; they are sorted by themselves. Where the input decides between equal keys, that
// holds for all records whose keys are long, be they long themselves or not, so that what their
// keys are equal to is here as well. For a long record with a shorter key another, of a few bytes,
// stands in its place, among the records that are sorted in memory.
//
// One thread at a time. After an Error it can only be destroyed.
class LongLines {
 public:
  // Takes a small part of `memory_bytes`. The file is made in the first folder, and goes on in the
  // next one where that is full. `delimiter` is a byte with which no record begins; without one no
  // record stands in for another. With a `byte_map` (see ComposedKey) keys are not kept; it may be
  // null. The map and the watch outlive this.
  LongLines(const StoredOrder& order, std::optional<char> delimiter,
            const std::array<char, 256>* byte_map, std::uint64_t memory_bytes,
            std::vector<std::string> folders, const SortWatch& watch);

  // What is to become of a record. One that is shorter than `least` stays with the others. Where
  // the input decides, all are asked for, from the first on, with the same `least`.
  enum class Way : std::uint8_t { kWithOthers, kApart, kStandIn };
  Way way_of(std::size_t key_bytes, std::size_t record_bytes,
             std::uint64_t least = 0) const noexcept {
    least = std::max(least, least_bytes_);
    const bool by_itself = order_.input_decides ? key_bytes >= least / 2 : record_bytes >= least;
    if (by_itself) return entries_.size() < most_entries_ ? Way::kApart : Way::kWithOthers;
    return record_bytes >= least && delimiter_ ? Way::kStandIn : Way::kWithOthers;
  }
  // If not, keys are the records, byte by byte.
  bool needs_keys() const noexcept { return order_.has_keys && byte_map_ == nullptr; }

  // Makes the file, once. Returns false where the first folder takes none; then nothing can be
  // kept.
  bool open();

  // Takes a record that is to be kept apart, after open(). The key is not looked at where none are
  // needed. Throws Error: ECANCELED; what the folders say.
  void take(std::string_view key, std::string_view record);
  // Returns what stands in for the record, valid until the next call. Throws as take() does.
  std::string_view take_for_stand_in(std::string_view record);

  bool is_stand_in(std::string_view record) const noexcept {
    return delimiter_ && !record.empty() && record.front() == *delimiter_;
  }
  // Leaves the record that this one stands for in `record`. Any thread. Throws Error.
  void read(std::string_view stand_in, std::string& record) const;
  // Writes that record, inside guarded(), and returns its bytes. After sort(); throws as that does.
  std::uint64_t write(std::string_view stand_in, FramedOutput& out);

  bool empty() const noexcept { return entries_.empty() && stand_ins_ == 0; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  // Sorts them, when all have been taken. Throws Error: ECANCELED; what reading the file says.
  void sort();
  // After sort(), the records that are kept apart come in order: left() says whether there is a
  // next one, turn() whether it comes before `other`, behind it, or instead of it (`other` is
  // dropped). write_next() writes it, inside guarded(), and returns its bytes. They throw as sort()
  // does.
  enum class Turn : std::uint8_t { kBefore, kInstead, kBehind };
  bool left() const noexcept { return next_ < entries_.size(); }
  Turn turn(const StoredRecord& other);
  std::uint64_t write_next(FramedOutput& out);

 private:
  static constexpr std::size_t kPrefix = 64;

  struct Entry {
    std::uint64_t offset = 0;  // of a key that is longer than the prefix, and the record behind it
    std::uint64_t key_bytes = 0;
    std::uint64_t record_bytes = 0;
    std::uint32_t file = 0;
    std::array<char, kPrefix> prefix{};  // of the key, or of the record that is its own
  };
  // Where a key or a record is.
  struct StoredText {
    const CheckedTexts* texts = nullptr;
    const BlockFile* file = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;

    bool operator==(const StoredText&) const = default;
    void read_whole(std::string& room) const;
  };
  // A piece of it, with a map applied to its bytes or none.
  struct Buffer {
    std::string_view piece(const StoredText& of, std::uint64_t from,
                           const std::array<char, 256>* map);

    std::vector<char> room;
    StoredText text;
    std::uint64_t at = 0;
    const std::array<char, 256>* byte_map = nullptr;
  };
  // Bytes of a file, or of memory.
  class Text;
  // Where a record is that another stands for.
  struct Place {
    std::uint64_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  std::uint64_t store(std::string_view key, std::string_view record);
  Place place_of(std::string_view stand_in) const;
  StoredText stored(std::size_t file, std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return {&texts_, &files_[file], offset, bytes};
  }
  Text key_of(const Entry& entry, std::size_t buffer);
  Text record_of(const Entry& entry, std::size_t buffer);
  static int compare(Text& a, Text& b, std::uint64_t known);
  int compare_behind_keys(Text a, Text b);
  int compare(const Entry& a, Text key, const char* prefix, Text record);
  int compare(const Entry& a, const Entry& b);
  int compare(const Entry& a, const StoredRecord& b);
  std::uint64_t write(const Text& record, FramedOutput& out);

  const StoredOrder order_;
  const std::optional<char> delimiter_;
  const std::array<char, 256>* const byte_map_;
  const std::uint64_t least_bytes_;
  const std::size_t most_entries_;
  const std::vector<std::string> folders_;
  const SortWatch& watch_;
  const CheckedTexts texts_;
  std::vector<BlockFile> files_;  // one a folder, as far as they were needed
  std::uint64_t end_ = 0;         // of the last one
  std::vector<Entry> entries_;
  std::size_t next_ = 0;
  // What stands in for a record may be looked at beside the thread that takes others.
  std::atomic<std::uint64_t> file_bytes_{0};
  std::atomic<std::size_t> file_count_{0};
  std::uint64_t stand_ins_ = 0;
  std::string stand_in_;
  std::array<Buffer, 2> buffers_;
  std::array<std::string, 2> whole_;
};

// The keys of an order that makes whole ones where records are compared, also of those that others
// stand for.
class KeysOfLongLines final : public RecordKeys {
 public:
  // Both outlive it; there are lines where a record stands in for one of them.
  KeysOfLongLines(const RecordKeys& keys, const std::optional<LongLines>& lines) noexcept
      : keys_(keys), lines_(lines) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override;
  bool shortened() const noexcept override { return true; }
  void append_whole(std::string_view record, std::string& key) const override;
  int compare_whole(std::string_view a, std::string_view b) const override;

 private:
  std::string_view whole(std::string_view record, std::string& room) const;
  std::unique_lock<std::mutex> lock_for(std::string_view a, std::string_view b) const;

  const RecordKeys& keys_;
  const std::optional<LongLines>& lines_;
  mutable std::mutex reading_;
};

}}  // namespace vortex::v0

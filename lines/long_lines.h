// Long records that a sort keeps apart from the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file/block_file.h"
#include "lines/byte_output.h"
#include "lines/stored_record.h"
#include "sort/runs/sort_watch.h"

namespace vortex::inline v0 {

// Records that are longer than a part of the memory. A merge holds the longest record of each of
// its runs at a time, so few runs with such records could be merged: these are written to a file
// once, with their keys, and read once when their turn comes in the output. The memory has the
// places and the first bytes of what they are sorted by.
//
// One thread at a time. After an Error it can only be destroyed.
class LongLines {
 public:
  // Whether the order can do without knowing where in the input a record stood, and by bytes that
  // are kept.
  static bool suit(const StoredOrder& order) noexcept {
    return !order.unique && !order.input_decides && order.whole_keys == nullptr;
  }

  // Takes a small part of the memory, beside which there is what the program has. The file is made
  // in the first folder that has room when a record comes. The watch outlives it.
  // `byte_map`: see ComposedKey; keys are not kept then. It may be null, and outlives this, too.
  LongLines(const StoredOrder& order, const std::array<char, 256>* byte_map,
            std::uint64_t memory_bytes, std::vector<std::string> folders, const SortWatch& watch);

  // Whether a record of so many bytes is long, and its place can be kept.
  bool takes(std::uint64_t record_bytes) const noexcept {
    return record_bytes >= least_bytes_ && entries_.size() < most_entries_;
  }
  bool needs_keys() const noexcept { return order_.has_keys && byte_map_ == nullptr; }
  // One that it takes. The key is not looked at where none are needed. Throws Error:
  // ECANCELED; what the folders say.
  void take(std::string_view key, std::string_view record);

  bool empty() const noexcept { return entries_.empty(); }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  // All have been taken. Throws Error: ECANCELED; what reading the file says.
  void sort();
  // Behind sort(): there is a next one; whether it comes before that record; writes it, inside
  // guarded(), and returns its bytes. These throw as sort() does.
  bool left() const noexcept { return next_ < entries_.size(); }
  bool is_before(const StoredRecord& other);
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
  // Bytes of a file, or of memory.
  class Text;

  std::uint64_t write(std::string_view key, std::string_view record);
  Text key_of(const Entry& entry, std::size_t buffer);
  Text record_of(const Entry& entry, std::size_t buffer);
  static int compare(Text& a, Text& b, std::uint64_t known);
  int compare(const Entry& a, const Entry& b);
  int compare(const Entry& a, const StoredRecord& b);

  const StoredOrder order_;
  const std::array<char, 256>* const byte_map_;
  const std::uint64_t least_bytes_;
  const std::size_t most_entries_;
  const std::vector<std::string> folders_;
  const SortWatch& watch_;
  std::vector<BlockFile> files_;  // one a folder, as far as they were needed
  std::uint64_t end_ = 0;         // of the last one
  std::vector<Entry> entries_;
  std::size_t next_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::array<std::vector<char>, 2> buffers_;
};

}  // namespace vortex::inline v0

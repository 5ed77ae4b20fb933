// Some of the records that a sort takes, given keys by one of several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lines/memory/line_arena.h"
#include "lines/memory/recent_keys.h"
#include "lines/record/framing.h"
#include "lines/record/record_keys.h"
#include "lines/record/stored_record.h"
#include "lines/text/framed_input.h"

namespace vortex { inline namespace v0 {

// What a thread keeps of records until they have their places in an arena: where they lie, and
// their keys. They lie in a text, or are given one by one. One thread at a time.
class RecordPiece {
 public:
  // The memory that it takes for each byte of a text, besides its table.
  static constexpr std::uint64_t kTimesText = 5;

  // For `bytes` and a record at most; of records that are given, half as many bytes more. `keys`
  // may be null, and outlives this. Allocates.
  RecordPiece(std::size_t bytes, const RecordKeys* keys);
  RecordPiece(const RecordPiece&) = delete;
  RecordPiece& operator=(const RecordPiece&) = delete;

  // Finds the records of the text, which stays as it is, or the first of them: as many as there is
  // room for, and up to one that is long or has a long key. Throws what keys throw.
  void read(const ScatteredText& text, const RecordFraming& framing);
  // The same of records that lie anywhere, and stay there with what names them.
  void take(std::span<const std::string_view> records);

  // Makes its table of the records that it puts, for an order that drops or counts equal ones: see
  // RecentKeys. Allocates.
  void make_table(const StoredOrder& order, std::size_t most_bytes);
  // Leaves out each record that its table knows an equal one of, which counts it. To be called once
  // for what has been found, if at all.
  void leave_out_known();
  // Its table forgets all, as RecentKeys::forget() says.
  void forget() noexcept {
    if (recent_) recent_->forget();
  }

  // How many records are there, without those that are left out; how many were found; and which of
  // these a record is.
  std::size_t records() const noexcept { return records_; }
  std::size_t found() const noexcept { return found_count_; }
  std::size_t place(std::size_t index) const noexcept {
    return known_left_out_ ? left_[index] : index;
  }
  std::string_view record(std::size_t index) const noexcept { return all_[place(index)]; }
  std::string_view key(std::size_t index) const noexcept {
    return keys_ != nullptr ? batch_.key(place(index)) : std::string_view();
  }
  std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }
  std::uint64_t text_bytes() const noexcept { return text_bytes_; }  // of a text
  std::size_t most_records() const noexcept { return found_.size(); }
  // Whether it is all; whether it would be if there were more room.
  bool is_all() const noexcept { return is_all_; }
  bool is_full() const noexcept { return is_full_; }

  // Puts them into the arena, which has reserved the place.
  void put(const LineArena& arena, LineArena::Place place) noexcept;

 private:
  std::string_view in_one(const ScatteredText& text) noexcept;
  void take_short();
  std::size_t make_keys();
  std::uint64_t stored_bytes_of(std::size_t index) const noexcept;
  std::string_view sorted_by(std::size_t index) const noexcept {
    return keys_ != nullptr ? key(index) : record(index);
  }

  const RecordKeys* const keys_;
  const std::size_t most_key_bytes_;
  std::unique_ptr<char[]> room_;
  std::vector<std::string_view> found_;    // of a text
  std::span<const std::string_view> all_;  // those, or what was given
  KeyBatch batch_;
  std::size_t records_ = 0;
  std::size_t found_count_ = 0;
  std::uint64_t stored_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
  bool is_all_ = false;
  bool is_full_ = false;
  std::optional<RecentKeys> recent_;
  std::vector<std::uint32_t> left_;  // places of those that are not left out
  bool known_left_out_ = false;
};

}}  // namespace vortex::v0

// The records of a text that is sorted already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lines/record/stored_record.h"
#include "lines/text/framed_input.h"
#include "lines/text/long_room.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Goes through an input, with the keys of its records. It is used outside guarded(), as the input.
class TextCursor {
 public:
  using UseHeader = std::function<void(std::string_view record)>;

  // The input, the options and the budget, of which long records take what they need, outlive it.
  // `use_header` gets the records of the header, which are skipped.
  TextCursor(FramedInput& input, const LineSortOptions& options, LongRoomBudget& budget,
             UseHeader use_header = {});

  // Throws NotInParts behind a record that does not follow the one before.
  void expect_order() noexcept { expects_order_ = true; }
  bool advance();
  // When advance() has found no more: the last record, as far as the order looks at it.
  const StoredRecord& last() const noexcept { return before_; }
  const StoredRecord& stored() const noexcept { return stored_; }
  // How many chunks the record has in common with the one before.
  std::uint64_t in_common() const noexcept { return differ_.chunk; }
  static std::uint64_t count() noexcept { return 1; }  // a text has each record by itself
  // Whether the record may follow the one before: they are in order, and not equal where the order
  // is unique.
  bool in_order() const noexcept { return differ_.order < (order_.unique ? 0 : 1); }

  std::uint64_t records() const noexcept { return records_; }
  // Gives back the key and what is kept of the record before. The cursor does not go on then.
  void leave_record_only() noexcept;

  // The record's number in the input, from 0 on, and where it begins.
  std::uint64_t number() const noexcept { return input_.first_record() + at_ - 1; }
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  bool next_batch();
  void make_more_keys();
  void keep_record();
  std::string_view copy(std::string_view text, std::string& room, LongRoom& long_room);
  [[noreturn]] void refuse(std::size_t index, const std::string& beside) const;

  FramedInput& input_;
  const LineSortOptions& options_;
  const LongRoomBudget& budget_;
  const StoredOrder order_;
  UseHeader use_header_;
  std::uint64_t header_left_;
  std::span<const std::string_view> batch_;
  std::size_t at_ = 0;
  // The keys of the batch's records [keys_from_, keys_to_): those of short ones together, or that
  // of one long record.
  KeyBatch keys_;
  std::size_t keys_from_ = 0;
  std::size_t keys_to_ = 0;
  LongRoom long_key_;
  bool key_is_long_ = false;
  StoredRecord stored_;
  // Copies of the record before, whose batch may be gone, in rooms for short and for long texts.
  StoredRecord before_;
  std::string key_before_;
  std::string record_before_;
  LongRoom long_key_before_;
  LongRoom long_record_before_;
  Difference differ_{0, -1};  // from the one before
  bool expects_order_ = false;
  std::uint64_t records_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t next_offset_ = 0;
};

}}  // namespace vortex::v0

// Inputs that are sorted already, merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "io/disk/disk.h"
#include "lines/job/line_job.h"
#include "lines/job/line_plan.h"
#include "lines/runs/line_merge.h"
#include "lines/text/framed_input.h"
#include "lines/text/input_text.h"
#include "lines/text/line_inputs.h"
#include "lines/text/long_room.h"
#include "lines/text/text_cursor.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Merges some inputs: from one on as many as there is memory for, and descriptors. What is short is
// read at once and closed, so that a merge of many such inputs takes few descriptors.
class InputMerge {
 public:
  // A run of inputs that are merged has room for this many bytes at least.
  static constexpr std::uint64_t kMinRunBytes = std::uint64_t{64} << 20;

  // Gets the records of the headers, which are skipped.
  using UseHeader = std::function<void(std::size_t input, std::string_view record)>;

  // Opens the inputs from `first` on. All that is named outlives it. Throws Error: EMFILE when
  // there are no descriptors for two, and what opening and reading report.
  InputMerge(LineInputs& inputs, std::size_t first, const LineSortOptions& options, LineJob& job,
             Disk* disk, UseHeader use_header);
  InputMerge(const InputMerge&) = delete;
  InputMerge& operator=(const InputMerge&) = delete;

  // The first input that is not merged.
  std::size_t end() const noexcept { return first_ + inputs_.size(); }
  // The bytes of the merged ones, as they were at the beginning; none when one of them is a pipe.
  std::optional<std::uint64_t> length() const noexcept { return all_.bytes(first_, end()); }
  // Reads the first records; the merge gives them then.
  void start() { merge_->start(); }
  LineMerge<TextCursor>& merge() noexcept { return *merge_; }

  // Writes all records as runs: as one, unless there are more than expected.
  void write_runs(LineJob& job);

  const std::vector<std::unique_ptr<FramedInput>>& inputs() const noexcept { return inputs_; }
  // Records that have been read.
  std::uint64_t records() const noexcept;

 private:
  // `spare` gives one of the descriptors back that are kept for others; false: there is none.
  std::vector<std::unique_ptr<InputText>> open_texts(LineInputs& inputs, const LinePlan& plan,
                                                     BlockPool& pool, Disk* disk,
                                                     const std::function<bool()>& spare);

  const LineInputs& all_;
  const std::size_t first_;
  MergedInput taken_;
  std::optional<LongRoomBudget> budget_;
  std::vector<std::unique_ptr<FramedInput>> inputs_;
  std::vector<std::unique_ptr<TextCursor>> cursors_;
  std::optional<LineMerge<TextCursor>> merge_;
};

}}  // namespace vortex::v0

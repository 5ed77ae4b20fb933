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
#include "lines/runs/line_run.h"
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
  std::optional<std::uint64_t> length() const noexcept;
  // Reads the first records; the merge gives them then.
  void start() { merge_->start(); }
  LineMerge<TextCursor>& merge() noexcept { return *merge_; }

  const std::vector<std::unique_ptr<FramedInput>>& inputs() const noexcept { return inputs_; }
  // That have been read.
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

// The records of a merge until a run has got so many bytes.
class MergePiece {
 public:
  MergePiece(LineMerge<TextCursor>& merge, const LineRunWriter& run, std::uint64_t limit) noexcept
      : merge_(merge), run_(run), limit_(limit) {}

  static constexpr SpanKind kWork = SpanKind::kMerge;
  bool next() { return run_.bytes() < limit_ && (more_ = merge_.next()); }
  const StoredRecord& stored() const noexcept { return merge_.stored(); }
  std::uint64_t count() const noexcept { return merge_.count(); }
  std::uint64_t in_common() const noexcept { return merge_.in_common(); }

  // False behind the last record of the merge.
  bool more() const noexcept { return more_; }

 private:
  LineMerge<TextCursor>& merge_;
  const LineRunWriter& run_;
  const std::uint64_t limit_;
  bool more_ = true;
};

}}  // namespace vortex::v0

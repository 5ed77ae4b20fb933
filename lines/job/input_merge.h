// Inputs that are sorted already, merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/os/descriptor.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// Texts that are sorted already, merged.
class TextMerge {
 public:
  // Long records have `budget_bytes`. The options outlive it.
  TextMerge(const LineSortOptions& options, std::uint64_t budget_bytes)
      : options_(options), budget_(budget_bytes) {}

  TextCursor& add(std::unique_ptr<InputText> text, const std::string& name,
                  TextCursor::UseHeader use_header = {});
  // All have been added.
  void prepare(const StoredOrder& order);
  // Reads the first records; the merge gives them then.
  void start() { merge_->start(); }
  LineMerge<TextCursor>& merge() noexcept { return *merge_; }
  const LineMerge<TextCursor>& merge() const noexcept { return *merge_; }

  const std::vector<std::unique_ptr<FramedInput>>& inputs() const noexcept { return inputs_; }
  const std::vector<std::unique_ptr<TextCursor>>& cursors() const noexcept { return cursors_; }
  // Records that have been read.
  std::uint64_t records() const noexcept;

 private:
  const LineSortOptions& options_;
  LongRoomBudget budget_;
  std::vector<std::unique_ptr<FramedInput>> inputs_;
  std::vector<std::unique_ptr<TextCursor>> cursors_;
  std::optional<LineMerge<TextCursor>> merge_;
};

// Descriptors that nobody else gets while this lives: for the output and the folders of runs.
class HeldDescriptors {
 public:
  explicit HeldDescriptors(const SortResources& resources);
  // False: there was none.
  bool give_one_back() noexcept {
    if (held_.empty()) return false;
    held_.pop_back();
    return true;
  }

 private:
  std::vector<os::Event> held_;
};

bool means_no_descriptor(const Error& error) noexcept;

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
  std::size_t end() const noexcept { return first_ + inputs().size(); }
  // The bytes of the merged ones, as they were at the beginning; none when one of them is a pipe.
  std::optional<std::uint64_t> length() const noexcept { return all_.bytes(first_, end()); }
  // As those of TextMerge.
  void start() { texts_->start(); }
  LineMerge<TextCursor>& merge() noexcept { return texts_->merge(); }

  // Writes all records as runs: as one, unless there are more than expected.
  void write_runs(LineJob& job);

  const std::vector<std::unique_ptr<FramedInput>>& inputs() const noexcept {
    return texts_->inputs();
  }
  // Records that have been read.
  std::uint64_t records() const noexcept { return texts_->records(); }

 private:
  // `spare` gives one of the descriptors back that are kept for others; false: there is none.
  std::vector<std::unique_ptr<InputText>> open_texts(LineInputs& inputs, const LinePlan& plan,
                                                     BlockPool& pool, Disk* disk,
                                                     const std::function<bool()>& spare);

  const LineInputs& all_;
  const std::size_t first_;
  MergedInput taken_;
  std::optional<TextMerge> texts_;
};

}}  // namespace vortex::v0

// The output of a sort of lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lines/job/input_parts.h"
#include "lines/job/line_job.h"
#include "lines/record/byte_output.h"
#include "lines/runs/line_merge.h"
#include "lines/text/text_cursor.h"
#include "sort/job/sort_files.h"
#include "vortex/file_writer.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Writes a head and the records behind it, in their framing: by one thread, or in parts by all of
// them. All that is named outlives it; the report counts what is written. One thread at a time.
class LineOutput {
 public:
  // There is a job when one of the others is called than prepare_at_once() and write_at_once().
  LineOutput(const LineSortOptions& options, SortFiles& files, std::optional<LineJob>& job,
             SortReport& report)
      : options_(options), files_(files), job_(job), report_(report) {}

  // What comes first, unless the output has begun: a byte-order mark, if any input has one, and
  // records.
  void begin_with_mark(bool mark) noexcept { has_mark_ |= mark; }
  void append_to_head(std::string_view record) { head_.emplace_back(record); }
  void forget_head() noexcept;
  bool begun() const noexcept { return begun_; }

  // The memory for the text of a few records with their head, `most_bytes` at most without it.
  // Throws std::bad_alloc.
  void prepare_at_once(std::uint64_t most_bytes);
  // These records, sorted, to an output that is opened for that.
  void write_at_once(const LineArena& sorted);
  // After the end_forming() of the job: how many parts the last merge may have, and all records,
  // `most_bytes` at most.
  unsigned most_parts_of_merge() const noexcept;
  void write_sorted(std::uint64_t most_bytes);
  // What the parts give. Returns false where a merge of all inputs is to begin the output again.
  bool write_merged(const InputParts& inputs);
  // What the merge gives: `least_bytes` or more, if nothing becomes shorter meanwhile.
  void write_merged(LineMerge<TextCursor>& merge, std::uint64_t least_bytes);

 private:
  template <typename Cursor>
  using Cursors = std::vector<std::unique_ptr<Cursor>>;

  template <typename Cursor>
  void write_file(std::uint64_t most_bytes, std::uint64_t least_bytes, Cursor& cursor,
                  const std::function<void()>& opened = {});
  // A Merge is a RunMerge or a MergeTree.
  template <typename Merge>
  void write_one(std::uint64_t most_bytes, Merge& merge);
  // A Cursor is a RunMerge, an ArenaPart or an InputPart. Returns false, and leaves no output,
  // where they are not whole.
  template <typename Cursor>
  bool write_parts(const Cursors<Cursor>& sorted, const std::function<bool()>& are_whole = {});
  bool has_parts() const noexcept;
  std::uint64_t head_bytes() const noexcept;
  FileWriterBase open_writer(std::uint64_t most_bytes, std::uint64_t least_bytes);
  void append_head(FramedOutput& out);
  template <typename Cursor, typename Told>
  void append_all(Cursor& cursor, FramedOutput& out, std::uint64_t& wanted, const Told& told);
  std::uint64_t wanted() const noexcept;

  const LineSortOptions& options_;
  SortFiles& files_;
  std::optional<LineJob>& job_;
  SortReport& report_;
  std::vector<std::string> head_;
  bool has_mark_ = false;
  bool begun_ = false;
  std::unique_ptr<std::byte[]> text_;  // of a few records
  std::size_t text_bytes_ = 0;
};

}}  // namespace vortex::v0

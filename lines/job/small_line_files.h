// Sorts of files that are small: most of those that people make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lines/memory/line_arena.h"
#include "sort/job/sort_files.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Reads all inputs into one piece of memory with plain calls, sorts them there, and writes them
// with one call: no thread is started, no pool, no stream and no ring is made, which take longer
// than the sort. Everything that is not small, or odd in any way, is left to the sort for all
// sizes, errors of the data included.
class SmallLineFiles {
 public:
  // More text than that takes all threads less time.
  static constexpr std::size_t kMostText = std::size_t{2} << 20;

  // The options outlive it.
  explicit SmallLineFiles(const LineSortOptions& options);
  ~SmallLineFiles();
  SmallLineFiles(const SmallLineFiles&) = delete;
  SmallLineFiles& operator=(const SmallLineFiles&) = delete;

  // Once. None: nothing has been written, and the other sort has to do it, with begun(). Blocks as
  // sort_lines() does; reads pipes only if nobody can ask for a stop. Throws Error as sort_lines()
  // does.
  std::optional<SortReport> sort();

  // What cannot be opened or read anew.
  BegunFiles begun();

 private:
  struct Input {
    BlockFile file;  // if it cannot be opened anew, and is `begun` then
    bool begun = false;
    std::size_t end = 0;  // of its text
  };
  class Text;

  bool may_be_small() const;
  bool open_output();
  bool read_inputs();
  bool read_input(Input& input, BlockFile& file);
  bool take_records();
  bool take_input(std::size_t index);
  bool take(std::span<const std::string_view> records);
  void write(SortReport& report);

  const LineSortOptions& options_;
  const StoredOrder order_;
  std::size_t most_text_ = kMostText;
  std::uint64_t most_arena_;
  std::optional<SortOutput> output_;
  std::vector<Input> inputs_;
  std::unique_ptr<Text> text_;
  bool has_mark_ = false;  // some input begins with a byte-order mark, and so does the output
  std::uint64_t invalid_records_ = 0;
  std::vector<std::string> header_;
  std::optional<RawMemory> memory_;
  std::optional<LineArena> arena_;
  std::vector<std::string_view> batch_;
  KeyBatch keys_;
};

}}  // namespace vortex::v0

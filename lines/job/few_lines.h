// Records of a sort as long as they are few: most sorts that people make are over then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lines/memory/line_arena.h"
#include "lines/record/stored_record.h"
#include "lines/text/line_inputs.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// An arena of their own: no thread is started, no pool, no stream and no ring is made, which take
// longer than the sort of a few. Where more come than it has room for, a LineJob takes them all.
class FewLines {
 public:
  // More text than that takes all threads less time.
  static constexpr std::uint64_t kMostText = std::uint64_t{2} << 20;
  // Longer records are left to the job, where they have keys or lie in two pieces of a text.
  static constexpr std::size_t kLongest = std::size_t{64} << 10;

  // Whether it may be worth while. Whoever says how blocks and disks are to be used wants them.
  static bool may_do(const LineSortOptions& options, const LineInputs& inputs);

  // The options outlive it. Throws Error(ENOMEM).
  FewLines(const LineSortOptions& options, const LineInputs& inputs);

  // The text of all records together, in bytes.
  std::uint64_t most_text() const noexcept { return most_text_; }
  // Copies records, and returns how many: fewer, where it has no room for the next.
  std::size_t take(std::span<const std::string_view> records);
  void sort();
  const LineArena& arena() const noexcept { return arena_; }

  // Calls `use` with all records, in the order in which they came.
  template <typename Use>
  void for_each_batch(const Use& use) const {
    std::vector<std::string_view> batch;
    const char* at = memory_.data();
    const char* const end = at + arena_.stored_bytes();
    while (at != end) {
      batch.clear();
      while (at != end && batch.size() < kBatchRecords) {
        batch.push_back(stored_record(at, order_.has_keys).record);
      }
      use(std::span<const std::string_view>(batch));
    }
  }

 private:
  static constexpr std::size_t kBatchRecords = 1024;

  const RecordKeys* const keys_;
  const StoredOrder order_;
  const std::uint64_t most_text_;
  RawMemory memory_;
  LineArena arena_;
  KeyBatch batch_;
};

}}  // namespace vortex::v0

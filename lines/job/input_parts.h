// Inputs that are sorted already, merged in parts by all threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "lines/job/input_merge.h"
#include "lines/job/line_job.h"
#include "lines/record/stored_record.h"
#include "lines/text/line_inputs.h"
#include "lines/text/text_division.h"
#include "vortex/line_sort.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// The merge of a part of each input, in any thread. It ends early where it shows that the inputs
// are not to be merged in parts.
class InputPart {
 public:
  // `framed_bytes` come out. What else is named outlives it.
  InputPart(const LineSortOptions& options, const StoredOrder& order, std::uint64_t framed_bytes,
            std::uint64_t budget_bytes, std::atomic<bool>& given_up)
      : order_(order),
        framed_bytes_(framed_bytes),
        texts_(options, budget_bytes),
        given_up_(given_up) {}

  void add(std::unique_ptr<InputText> text, const std::string& name) {
    texts_.add(std::move(text), name).expect_order();
  }
  std::uint64_t framed_bytes() const noexcept { return framed_bytes_; }
  std::uint64_t records() const noexcept { return texts_.records(); }

  // As those of LineMerge. All texts have been added.
  static constexpr SpanKind kWork = SpanKind::kMerge;
  void start();
  bool next();
  const StoredRecord& stored() const noexcept { return texts_.merge().stored(); }
  static std::uint64_t count() noexcept { return 1; }

  // When both have ended: whether this comes before the other, whole.
  bool precedes(const InputPart& other) const;

 private:
  template <typename Step>
  bool go(const Step& step);
  StoredRecord last() const;

  const StoredOrder order_;
  const std::uint64_t framed_bytes_;
  TextMerge texts_;
  std::atomic<bool>& given_up_;
  bool begun_ = false;
  KeptRecord first_;
};

// Inputs are merged in parts where each is a file or device with delimited records, all of which
// are wanted, and there is memory and descriptors for several merges of all of them; if they are
// not sorted, have grown meanwhile, or have records for which a part has no memory, one thread is
// to begin again. So their merge is the same with any number of threads.
class InputParts {
 public:
  // None: one thread merges them. All that is named outlives it. Throws Error: what opening and
  // reading report.
  static std::unique_ptr<InputParts> divide(LineInputs& inputs, const LineSortOptions& options,
                                            LineJob& job, Disk* disk);

  // The parts, one behind the other.
  const std::vector<std::unique_ptr<InputPart>>& parts() const noexcept { return parts_; }
  // When all have ended: whether they have given what one merge would have.
  bool are_whole() const;
  // Of all parts.
  std::uint64_t records() const noexcept;
  // Of all inputs.
  std::uint64_t bytes() const noexcept;

 private:
  InputParts() = default;
  void add(const TextPart& part, LineInputs& inputs, const LineSortOptions& options, LineJob& job,
           Disk* disk, unsigned count);

  std::vector<BlockFile> files_;
  std::atomic<bool> given_up_{false};
  std::vector<std::unique_ptr<InputPart>> parts_;
};

}}  // namespace vortex::v0

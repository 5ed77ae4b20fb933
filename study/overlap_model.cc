#include "study/overlap_model.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t divided_up(std::uint64_t value, std::uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

class OverlapModel {
 public:
  OverlapModel(const MergeTrace& trace, const OverlapModelOptions& options)
      : trace_(trace), options_(options) {}

  OverlapModelResult run() {
    while (written_ < trace_.records) {
      start_io_step();
      run_merge_steps();
      start_io_step();  // the merge may have emptied overlap buffers
      const std::uint64_t merge_event = next_merge_event();
      const std::uint64_t event = std::min(io_ends_, merge_event);
      if (event == kNever) {
        result_.stuck = true;
        break;
      }
      pass_time(event, merge_event != kNever);
      if (now_ == io_ends_) end_io_step();
    }
    result_.time = now_;
    return result_;
  }

 private:
  std::uint64_t in_write_buffer() const { return merged_ - written_; }

  void start_io_step() {
    if (io_ends_ != kNever) return;
    const std::uint64_t step_records = options_.disks * options_.records_per_block;
    const std::uint64_t to_fetch =
        std::min<std::uint64_t>(options_.disks, trace_.order.size() - fetched_);
    if (in_write_buffer() >= step_records || merged_ == trace_.records) {
      writing_ = std::min(step_records, in_write_buffer());
      ++result_.output_steps;
    } else if (to_fetch != 0 && fetched_ - taken_ + to_fetch <= options_.overlap_blocks) {
      fetching_ = to_fetch;
      fetched_ += to_fetch;
      ++result_.input_steps;
    } else {
      return;
    }
    io_ends_ = now_ + options_.step_time;
  }

  void end_io_step() {
    written_ += std::exchange(writing_, 0);
    arrived_ += std::exchange(fetching_, 0);
    io_ends_ = kNever;
  }

  // Takes and gives back what the merge takes and gives back now. Blocks are taken from the head of
  // the overlap buffer, in order.
  void run_merge_steps() {
    while (step_ < trace_.steps.size() && trace_.steps[step_].records_before == merged_) {
      if (trace_.steps[step_].taken != kNoPosition) {
        if (taken_ == arrived_) return;
        ++taken_;
      }
      ++step_;
    }
  }

  // How many records can be merged before something else must happen first.
  std::uint64_t mergeable() const {
    std::uint64_t until = trace_.records;
    if (step_ < trace_.steps.size()) until = trace_.steps[step_].records_before;
    return std::min(until - merged_, options_.write_records - in_write_buffer());
  }

  // The next time at which the merging thread does something that others can see.
  std::uint64_t next_merge_event() const {
    std::uint64_t records = mergeable();
    if (records == 0) return kNever;
    const std::uint64_t step_records = options_.disks * options_.records_per_block;
    if (in_write_buffer() < step_records) {
      records = std::min(records, step_records - in_write_buffer());
    }
    return now_ + records * options_.record_time - partly_merged_;
  }

  void pass_time(std::uint64_t time, bool merging) {
    const std::uint64_t passed = time - now_;
    now_ = time;
    if (!merging) {
      result_.merge_wait += passed;
      return;
    }
    if (options_.record_time == 0) {
      merged_ += mergeable();
      return;
    }
    const std::uint64_t worked = partly_merged_ + passed;
    merged_ += worked / options_.record_time;
    partly_merged_ = worked % options_.record_time;
  }

  const MergeTrace& trace_;
  const OverlapModelOptions& options_;
  std::uint64_t now_ = 0;
  std::uint64_t io_ends_ = kNever;
  std::uint64_t fetching_ = 0;       // blocks
  std::uint64_t writing_ = 0;        // records
  std::uint64_t fetched_ = 0;        // blocks whose reading has begun
  std::uint64_t arrived_ = 0;        // blocks read
  std::uint64_t taken_ = 0;          // blocks moved on to the merge buffers
  std::uint64_t merged_ = 0;         // records
  std::uint64_t written_ = 0;        // records
  std::uint64_t partly_merged_ = 0;  // time spent on the next record
  std::size_t step_ = 0;
  OverlapModelResult result_;
};

}  // namespace

OverlapModelResult run_overlap_model(const MergeTrace& trace, const OverlapModelOptions& options) {
  return OverlapModel(trace, options).run();
}

std::uint64_t overlap_model_bound(const MergeTrace& trace, const OverlapModelOptions& options) {
  const std::uint64_t step_records = options.disks * options.records_per_block;
  return std::max(divided_up(2 * options.step_time * trace.records, step_records),
                  options.record_time * trace.records) +
         divided_up(options.step_time * (trace.runs + 3 * std::uint64_t{options.disks}),
                    options.disks);
}

}}  // namespace vortex::v0

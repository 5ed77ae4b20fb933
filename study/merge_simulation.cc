#include "study/merge_simulation.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "io/sequence/block_allocation.h"
#include "study/simulated_disk.h"
#include "study/virtual_clock.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// Output is placed by the share of the writing that each disk can do.
std::vector<double> write_weights(const std::vector<ServiceModel>& disks) {
  std::vector<double> weights;
  for (const ServiceModel& disk : disks) {
    // 0 stands for a disk that is infinitely fast: where there is one, all weigh the same.
    weights.push_back(static_cast<double>(disk.write_bytes_per_s));
  }
  if (std::count(weights.begin(), weights.end(), 0.0) != 0) {
    std::fill(weights.begin(), weights.end(), 1.0);
  }
  return weights;
}

class Simulation final : private VirtualEvent {
 public:
  Simulation(const MergeTrace& trace, PrefetchPolicy& policy, const MergeSimulationOptions& options)
      : trace_(trace),
        policy_(policy),
        options_(options),
        output_allocation_(AllocationStrategy::kStriping, write_weights(options.disks), 0, 0),
        output_slots_(options.disks.size()) {
    for (const ServiceModel& model : options.disks) {
      disks_.push_back(std::make_unique<SimulatedDisk>(clock_, model));
    }
    place_blocks();
  }

  MergeSimulationResult run() {
    carry_out_decisions();
    continue_merge();
    while (clock_.step()) {
    }
    result_.stuck = !finished_;
    result_.time_ns = clock_.now_ns();
    for (const auto& disk : disks_) {
      result_.busy_ns.push_back(disk->service().busy_ns());
      result_.seeks += disk->service().seeks();
    }
    result_.prefetch = policy_.statistics();
    if (options_.forecasts != nullptr) result_.forecast_reads = options_.forecasts->reads();
    return std::move(result_);
  }

 private:
  enum class Purpose { kBlock, kOutput, kForecast };

  struct Transfer {
    Request request;
    Simulation* simulation = nullptr;
    Purpose purpose = Purpose::kBlock;
    Position position = kNoPosition;
  };

  // Blocks lie on a disk run by run: only neighbours of one run are read without a seek.
  static constexpr std::uint64_t kBytesApart = std::uint64_t{1} << 40;

  void place_blocks() {
    std::vector<Position> by_run(trace_.order.size());
    for (Position position = 0; position < by_run.size(); ++position) by_run[position] = position;
    std::sort(by_run.begin(), by_run.end(), [&](Position a, Position b) {
      const NeededBlock& x = trace_.order[a];
      const NeededBlock& y = trace_.order[b];
      return std::tie(x.run, x.index) < std::tie(y.run, y.index);
    });
    offsets_.resize(by_run.size());
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> used;
    for (const Position position : by_run) {
      const NeededBlock& block = trace_.order[position];
      offsets_[position] =
          (block.run + 2) * kBytesApart + used[{block.run, block.disk}]++ * options_.block_bytes;
    }
  }

  void submit(unsigned disk, Purpose purpose, Position position, std::uint64_t offset,
              std::size_t bytes) {
    if (idle_.empty()) idle_.push_back(&transfers_.emplace_back());
    Transfer& transfer = *idle_.back();
    idle_.pop_back();
    transfer.simulation = this;
    transfer.purpose = purpose;
    transfer.position = position;
    transfer.request.operation = purpose == Purpose::kOutput ? Operation::kWrite : Operation::kRead;
    transfer.request.offset = offset;
    transfer.request.set_memory(nullptr, bytes);  // file -1: no byte is moved
    transfer.request.context = &transfer;
    transfer.request.complete = [](Request& request) noexcept {
      Transfer& ended = *static_cast<Transfer*>(request.context);
      ended.simulation->completed(ended);
    };
    disks_[disk]->submit(transfer.request);
  }

  void completed(Transfer& transfer) {
    if (transfer.purpose == Purpose::kBlock) policy_.fetched(transfer.position);
    if (transfer.purpose == Purpose::kOutput) --full_blocks_;
    idle_.push_back(&transfer);
    carry_out_decisions();
    if (!merging_) continue_merge();
  }

  // The processor has merged what it was at.
  void happen() noexcept override {
    merging_ = false;
    continue_merge();
  }

  void carry_out_decisions() {
    for (;;) {
      const PrefetchAction action = policy_.next();
      if (action.kind == PrefetchAction::Kind::kNothing) break;
      read_forecasts();
      if (action.kind == PrefetchAction::Kind::kDrop) continue;
      submit(action.block.disk, Purpose::kBlock, action.position, offsets_[action.position],
             options_.block_bytes);
    }
  }

  // The lookahead has gone so far that buffers of forecasting data were filled. The policy knows
  // them already; what is simulated is the time that they take from the disks.
  void read_forecasts() {
    if (options_.forecasts == nullptr || options_.forecast_read_bytes == 0) return;
    for (; forecast_reads_ < options_.forecasts->reads(); ++forecast_reads_) {
      // The runs take turns, so these are never neighbours.
      submit(static_cast<unsigned>(forecast_reads_ % disks_.size()), Purpose::kForecast,
             kNoPosition, kBytesApart + 2 * forecast_reads_ * options_.forecast_read_bytes,
             options_.forecast_read_bytes);
    }
  }

  // Lets the merge go on until it must wait for time to pass, for a block or for a write buffer.
  void continue_merge() {
    while (!finished_) {
      if (step_ < trace_.steps.size() && trace_.steps[step_].records_before == merged_) {
        if (!take_step()) return;
        continue;
      }
      if (options_.write_buffers != 0 && !make_room()) return;
      if (merged_ == trace_.records) {
        finished_ = true;
        return;
      }
      std::uint64_t until = trace_.records;
      if (step_ < trace_.steps.size()) until = std::min(until, trace_.steps[step_].records_before);
      if (options_.write_buffers != 0) {
        const std::uint64_t block = options_.records_per_block;
        until = std::min(until, (merged_ / block + 1) * block);
      }
      merged_ = until;
      merging_ = true;
      // Counted from the start of the merge, so that roundings do not add up.
      const auto worked_ns = static_cast<std::uint64_t>(
          std::llround(static_cast<double>(merged_) * options_.ns_per_record));
      clock_.schedule(*this, clock_.now_ns() + worked_ns - worked_ns_);
      worked_ns_ = worked_ns;
      return;
    }
  }

  bool take_step() {
    const MergeStep& step = trace_.steps[step_];
    if (step.released != kNoPosition && !released_) {
      released_ = true;
      policy_.released(step.released);
      carry_out_decisions();
    }
    if (step.taken != kNoPosition) {
      if (!policy_.ready(step.taken)) {
        begin_wait();
        return false;
      }
      end_wait(result_.input_wait_ns);
      policy_.taken(step.taken);
      carry_out_decisions();
    }
    released_ = false;
    ++step_;
    return true;
  }

  // Hands full output blocks over; false while the merge has no block to write into.
  bool make_room() {
    const bool end = merged_ == trace_.records;
    const std::uint64_t block = options_.records_per_block;
    const std::uint64_t full = end ? (merged_ + block - 1) / block : merged_ / block;
    for (; handed_over_ < full; ++handed_over_) {
      ++gathered_;
      ++full_blocks_;
    }
    if (gathered_ >= options_.write_batch || end) write_gathered();
    if (end || merged_ % block != 0 || full_blocks_ < options_.write_buffers) {
      end_wait(result_.output_wait_ns);
      return true;
    }
    begin_wait();
    return false;
  }

  void write_gathered() {
    for (; gathered_ > 0; --gathered_) {
      const unsigned disk = output_allocation_.disk(result_.blocks_written++);
      submit(disk, Purpose::kOutput, kNoPosition, output_slots_[disk]++ * options_.block_bytes,
             options_.block_bytes);
    }
  }

  void begin_wait() {
    if (!waiting_since_) waiting_since_ = clock_.now_ns();
  }

  void end_wait(std::uint64_t& waited_ns) {
    if (waiting_since_) waited_ns += clock_.now_ns() - *waiting_since_;
    waiting_since_.reset();
  }

  const MergeTrace& trace_;
  PrefetchPolicy& policy_;
  const MergeSimulationOptions& options_;
  const BlockAllocation output_allocation_;
  VirtualClock clock_;
  std::deque<Transfer> transfers_;
  std::vector<Transfer*> idle_;
  std::vector<std::unique_ptr<SimulatedDisk>> disks_;
  std::vector<std::uint64_t> offsets_;       // of the blocks of the runs
  std::vector<std::uint64_t> output_slots_;  // next one on each disk

  std::size_t step_ = 0;
  bool released_ = false;  // the first half of the current step is done
  bool merging_ = false;   // the processor is at work until an event that is scheduled
  bool finished_ = false;
  std::uint64_t merged_ = 0;  // records; while `merging_`, when it is done with that
  std::uint64_t worked_ns_ = 0;
  std::optional<std::uint64_t> waiting_since_;
  std::uint64_t handed_over_ = 0;  // output blocks that are full
  std::size_t gathered_ = 0;       // of those, waiting for the batch
  std::size_t full_blocks_ = 0;    // of those, not yet written
  std::uint64_t forecast_reads_ = 0;
  MergeSimulationResult result_;
};

}  // namespace

MergeSimulationResult simulate_merge(const MergeTrace& trace, PrefetchPolicy& policy,
                                     const MergeSimulationOptions& options) {
  if (options.disks.size() != policy.disks() || policy.blocks() != trace.order.size()) {
    throw Error(EINVAL, "a simulated merge: the policy is for " + std::to_string(policy.disks()) +
                            " disks and " + std::to_string(policy.blocks()) + " blocks, not for " +
                            std::to_string(options.disks.size()) + " and " +
                            std::to_string(trace.order.size()));
  }
  if (options.records_per_block == 0 || options.write_batch == 0 ||
      (options.write_buffers != 0 && options.write_batch > options.write_buffers)) {
    throw Error(EINVAL, "a simulated merge: " + std::to_string(options.write_batch) +
                            " blocks cannot gather in " + std::to_string(options.write_buffers) +
                            " write buffers, or blocks are empty");
  }
  return Simulation(trace, policy, options).run();
}

}}  // namespace vortex::v0

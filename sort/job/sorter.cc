#include "vortex/sorter.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sort/job/sort_context.h"
#include "sort/job/sort_folders.h"
#include "sort/job/sort_job.h"
#include "sort/plan/memory_limits.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/fault/region_table.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kComebackBlocks = 1;  // of the thread that reads the array

}  // namespace

// The job, and the pipeline that its result goes through.
class ByteSorter::Machine {
 public:
  // The resources name the memory.
  Machine(const SortResources& resources, std::shared_ptr<const RecordOrder> order)
      : context_(resources, folders_of_sorter(resources)), job_(std::move(order), context_, false) {
    // Nobody knows how much will come.
    SortPlanRequest request = job_.plan_request(std::nullopt, 0);
    request.pushed = true;
    const RecordPlan plan = plan_sort(request);
    batch_.resize(push_buffer_bytes(plan.memory_bytes, request.record_bytes));
    job_.start(plan, Warming::kOnDemand, "memory of the sorter");
    job_.begin_forming();
    context_.watch().begin(SortPhase::kReading, std::nullopt);
  }
  ~Machine() {
    context_.watch().stop_now();
    if (channel_ && !job_.pool()->inherited()) {
      channel_->cancel(ECANCELED, "the pipeline was cancelled");
    }
    context_.end_lending();  // which wakes the channel's writer
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  std::vector<std::byte>& batch() noexcept { return batch_; }
  const RecordPlan& plan() const noexcept { return job_.plan(); }
  const RunCounts& counts() const noexcept { return job_.counts(); }
  // Taken, or in the array.
  std::uint64_t records() const noexcept {
    return state_ == State::kSorted ? job_.most_records() : job_.records();
  }

  void expect_pushing(const char* call) const { expect(State::kPushing, call); }

  // Those of a stream, which several threads could not read, are read by this one.
  void take(const std::byte* records, std::uint64_t count) {
    state_ = State::kFailed;
    const std::uint64_t bytes = count * plan().record_bytes;
    const bool is_stream =
        bytes != 0 && (lies_in_stream(records) || lies_in_stream(records + bytes - 1));
    job_.take(records, count, is_stream ? Readers::kOne : Readers::kSeveral);
    state_ = State::kPushing;
  }

  void sort() {
    state_ = State::kFailed;
    job_.end_forming();
    if (job_.in_memory()) {
      const std::size_t most = plan().pool_blocks - plan().bucket_blocks;
      const std::size_t wide = blocks_for_rooms(most);
      begin_output(wide == 0 ? most_output_blocks(most) : most, wide);
    } else {
      reduce_runs();
      begin_output(most_output_blocks(plan().merging_blocks() -
                                      plan().reading().least_buffers(job_.runs().size())),
                   0);
    }
    state_ = State::kSorted;
  }

  InputStreamBase& output() const {
    expect(State::kSorted, "reading");
    return *reader_;
  }

 private:
  enum class State : std::uint8_t { kPushing, kSorted, kFailed };

  void expect(State state, const char* call) const {
    if (state_ == state) [[likely]]
      return;
    if (state_ == State::kFailed) {
      throw Error(ENOTRECOVERABLE, std::string(call) + " of a sorter that has failed");
    }
    throw Error(EINVAL,
                std::string(call) + (state_ == State::kSorted ? " of a sorter after its sort()"
                                                              : " of a sorter before its sort()"));
  }

  // The pipeline from the merge to the reader: both windows, and a few blocks between them.
  std::size_t output_blocks(std::size_t between) const noexcept {
    return plan().window_blocks + kComebackBlocks + between;
  }
  std::size_t most_output_blocks(std::size_t most) const noexcept {
    return std::min(most, output_blocks(std::clamp<std::size_t>(plan().pool_blocks / 16, 1, 4)));
  }

  // Of `most` blocks that a pipeline of what is in memory takes; as many lie ready for who reads. A
  // writer among others gives memory to them between two blocks.
  std::size_t blocks_for_rooms(std::size_t most) const noexcept {
    if (context_.shares_memory() || most <= output_blocks(0)) return 0;
    return plan().blocks_for_rooms(most - output_blocks(0));
  }

  // The pipeline may take more blocks than the writer of a file does, so fewer runs may have to do.
  // And others may want memory for as long as the array is read: no more than half is needed then.
  void reduce_runs() {
    std::uint64_t order = job_.runs().last_merge_order();
    const auto needed = [&] { return plan().reading().least_buffers(order) + output_blocks(1); };
    while (order > 1 && needed() > plan().merging_blocks()) --order;
    if (context_.shares_memory()) {
      while (order > 2 && needed() + 2 * plan().disks > plan().pool_blocks / 2) --order;
    }
    job_.runs().reduce_to(order);
  }

  // Begins to write to the array, which takes `blocks` of the pool; `wide` of these are for rooms.
  void begin_output(std::size_t blocks, std::size_t wide) {
    const std::uint64_t bytes = job_.most_records() * plan().record_bytes;
    context_.watch().begin(SortPhase::kWriting, bytes);
    PipelineOptions options;
    options.name = "sorted records";
    options.writer_comeback_blocks = plan().window_blocks - 1 + wide;
    options.reader_comeback_blocks = kComebackBlocks;
    options.read_ahead_blocks = blocks - output_blocks(wide);
    options.length_bytes = bytes;
    options.pool = job_.pool();
    channel_ = detail::make_channel(options);
    reader_.emplace(detail::reading_end_of(channel_), detail::reader_options(options));
    writer_.emplace(detail::writing_end_of(channel_), detail::writer_options(options));
    job_.expect_write({.has_room =
                           [this](std::uint64_t until, const std::atomic<bool>& given_up) {
                             const std::uint64_t block = (until - 1) / plan().block_bytes;
                             return channel_->await_room(block, given_up);
                           },
                       .wake = [this] { channel_->wake_writer(); }});
    const int error =
        thread_.start([=, this, log = Working::log()] { write_output(blocks, wide, bytes, log); },
                      ThreadSignals::kOwnFaults);
    if (error == 0) return;
    context_.end_lending();
    throw Error(error, "the system refuses a thread");
  }

  // In the sorter's thread, which works for the log of who sorts.
  void write_output(std::size_t blocks, std::size_t wide, std::uint64_t bytes,
                    ActivityLog* log) noexcept {
    try {
      const Working working(log, "sorter");
      PointerOutput pointer(writer_->data(), plan().record_bytes, plan().block_bytes, {}, wide);
      WatchedOutput to(pointer, context_.watch());
      job_.write(to, plan().merging_blocks() - blocks);
      context_.watch().expect_going();
      writer_->finish(bytes);
    } catch (const std::exception& exception) {
      channel_->break_off(errno_of(exception, ECANCELED), message_of(exception));
    } catch (...) {
      channel_->break_off(ECANCELED, "the progress function of the sort has thrown");
    }
  }

  std::vector<std::byte> batch_;
  SortContext context_;
  SortJob job_;
  State state_ = State::kPushing;
  std::shared_ptr<detail::Channel> channel_;
  mutable std::optional<InputStream<std::byte>> reader_;
  std::optional<OutputStream<std::byte>> writer_;
  MaskedThread thread_;  // destroyed first
};

namespace {

const RecordOrder& expect_order(const std::shared_ptr<const RecordOrder>& order) {
  if (order == nullptr) throw Error(EINVAL, "a sorter needs an order of its records");
  return *order;
}

}  // namespace

ByteSorter::ByteSorter(const SortResources& resources, std::shared_ptr<const RecordOrder> order)
    : record_bytes_(expect_order(order).record_bytes()),
      machine_(std::make_unique<Machine>(with_memory(resources), std::move(order))),
      batch_at_(machine_->batch().data()),
      batch_end_(batch_at_ + machine_->batch().size()) {}

ByteSorter::~ByteSorter() = default;
ByteSorter::ByteSorter(ByteSorter&&) noexcept = default;
ByteSorter& ByteSorter::operator=(ByteSorter&&) noexcept = default;

SortPlan ByteSorter::plan() const { return machine_->plan().told(); }
const RunCounts& ByteSorter::counts() const noexcept { return machine_->counts(); }

std::uint64_t ByteSorter::size() const noexcept {
  const auto batched = static_cast<std::size_t>(batch_at_ - machine_->batch().data());
  return machine_->records() + batched / record_bytes_;
}

void ByteSorter::push_batch() {
  machine_->expect_pushing("push()");
  std::vector<std::byte>& batch = machine_->batch();
  const auto batched =
      static_cast<std::size_t>(std::exchange(batch_at_, batch.data()) - batch.data());
  // Should this throw, nothing can be pushed any more.
  std::byte* const end = std::exchange(batch_end_, batch_at_);
  machine_->take(batch.data(), batched / record_bytes_);
  batch_end_ = end;
}

void ByteSorter::push(const std::byte* records, std::uint64_t count) {
  const std::uint64_t bytes = detail::saturating_product(count, record_bytes_);
  if (bytes > std::uint64_t{std::numeric_limits<std::ptrdiff_t>::max()} ||
      (records == nullptr && count != 0)) {
    throw Error(EINVAL,
                "push() of " + std::to_string(count) + " records: " +
                    (records == nullptr ? "there are none at NULL" : "no memory holds so many"));
  }
  push_batch();
  batch_end_ = batch_at_;
  machine_->take(records, count);
  batch_end_ = batch_at_ + machine_->batch().size();
}

void ByteSorter::sort() {
  machine_->expect_pushing("sort()");
  push_batch();
  batch_end_ = batch_at_;
  machine_->sort();
}

void RecordSorter::push(std::span<const std::byte> records) {
  if (records.size() % record_bytes() != 0) {
    throw Error(EINVAL, std::to_string(records.size()) + " bytes are no whole records of " +
                            std::to_string(record_bytes()));
  }
  ByteSorter::push(records.data(), records.size() / record_bytes());
}

const std::byte* ByteSorter::bytes() const { return machine_->output().bytes(); }
InputStreamBase& ByteSorter::stream() const { return machine_->output(); }

}}  // namespace vortex::v0

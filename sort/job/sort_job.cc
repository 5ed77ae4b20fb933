#include "sort/job/sort_job.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sort/plan/memory_limits.h"
#include "sort/record/forecast_keys.h"
#include "sort/runs/bucket_sorters.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/control_groups.h"

namespace vortex { inline namespace v0 {

SortJob::SortJob(std::shared_ptr<const RecordOrder> order, SortContext& context, bool unique)
    : order_(std::move(order)), context_(context), unique_(unique) {}

// The tasks beside end soon.
SortJob::~SortJob() { context_.end(); }

SortPlanRequest SortJob::plan_request(std::optional<std::uint64_t> bytes,
                                      unsigned other_disks) const {
  const SortResources& resources = context_.resources();
  SortPlanRequest request;
  request.bytes = bytes;
  request.record_bytes = order_->record_bytes();
  request.forecast_bytes = ForecastKeys(*order_).bytes();
  request.memory_bytes = resources.memory_bytes;
  request.disks = static_cast<unsigned>(context_.folders().size());
  request.block_bytes = resources.block_bytes;
  request.request_cost_bytes = context_.request_cost(bytes);
  request.prefetch = resources.prefetch;
  request.compression = resources.compression;
  request.threads = resources.threads != 0 ? resources.threads : usable_cores();
  constexpr std::size_t kMany = 1 << 20;  // beside which fixed parts are little
  if (const auto bytes = BucketSorters::part_bytes(*order_, kMany)) {
    request.scratch_per_record = detail::units_for(*bytes, kMany);
  }
  limit_to_process(request, resources.backend, request.disks + other_disks);
  return request;
}

void SortJob::start(const RecordPlan& plan, Warming warming, const char* name) {
  plan_ = plan;
  context_.make_pool(plan_.block_bytes, plan_.pool_blocks, warming, name);
  runs_.emplace(*order_, plan_, *pool(), watch(), context_.run_store_options(), unique_);
}

void SortJob::begin_forming() {
  buckets_.emplace(*pool(), plan_.bucket_blocks, "buckets");
  make_run_formation(formation_, *order_, *buckets_, plan_.formation);
}

void SortJob::take(const std::byte* records, std::uint64_t count, Readers readers) {
  context_.note_user();
  const std::size_t record_bytes = order_->record_bytes();
  const std::uint64_t most = std::max<std::uint64_t>(SortWatch::kNoteBytes / record_bytes, 1);
  while (count > 0) {
    const auto offered = static_cast<std::size_t>(std::min(count, most));
    // Asked before the records are offered: a run that ends meanwhile leaves room for more.
    const std::uint32_t ticket = formation_->room_event().ticket();
    const bool run_was_written = !background_.busy();
    std::size_t taken = 0;
    {
      const WorkSpan span(SpanKind::kPartition);
      guarded([&] { taken = formation_->push(records, offered, readers); }).throw_if_failed();
    }
    records += taken * record_bytes;
    count -= taken;
    records_ += taken;
    watch().add(taken * record_bytes);
    if (taken == offered) {
      if (begins_early()) begin_run();
      continue;
    }
    if (run_was_written) {
      begin_run();
    } else {
      await_room(ticket);
    }
  }
}

bool SortJob::begins_early() const noexcept {
  return plan_.run_begin_bytes != 0 && bytes_to_emit() >= plan_.run_begin_bytes &&
         !background_.busy();
}

void SortJob::await_room(std::uint32_t ticket) {
  {
    const Waiting waiting;
    formation_->room_event().await(ticket);
  }
  watch().look_beside();
}

void SortJob::end_forming() {
  context_.note_user();
  wait_for_run();
  if (in_memory()) return;
  if (formation_->records() != 0) write_run(bytes_to_emit(), Written::kIsCounted);
  counts_ = runs_->counts();
  formation_.reset();
  buckets_.reset();
  context_.others_wait() ? shrink() : context_.grow(plan_, *runs_);
}

// Somebody waits: what one merge of all runs needs is kept, or half of the pool where that is less.
// Nobody else uses the pool.
void SortJob::shrink() {
  RecordPlan less = plan_;
  const auto suffice = [&](std::size_t blocks) {
    less.pool_blocks = blocks;
    return less.largest_merge_order() >= runs_->size();
  };
  std::size_t low = 0, high = plan_.pool_blocks / 2;  // high is enough, or all there may be
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (suffice(middle) ? high : low) = middle;
  }
  // The windows of a pipeline, which a sorter has behind its merge.
  const std::size_t kept = high + plan_.window_blocks + 3;
  less.pool_blocks = kept;
  if (kept >= plan_.pool_blocks || less.largest_merge_order() < 2) return;
  plan_.pool_blocks -= pool()->retire(plan_.pool_blocks - kept);
  plan_.merge_order = std::min(plan_.merge_order, plan_.largest_merge_order());
  context_.give_back_retired();
}

// Writes what has been taken as a run: beside this thread where there is memory for two generations
// of buckets.
void SortJob::begin_run() {
  wait_for_run();
  in_memory_ = false;
  const std::uint64_t most_bytes = bytes_to_emit();
  if (formation_->generations() == 1) return write_run(most_bytes, Written::kIsCounted);
  formation_->close();
  const auto write = [this, most_bytes](Written written) {
    write_run(most_bytes, written, &RunFormation::emit_closed);
  };
  const bool begun = background_.start(
      "writing runs", [write] { write(Written::kBeside); },
      [this] { formation_->room_event().notify(); });
  if (!begun) write(Written::kIsCounted);
}

// Waits for the run that is being written, and throws what ended it early.
void SortJob::wait_for_run() {
  while (formation_) {
    const std::uint32_t ticket = formation_->room_event().ticket();
    if (!background_.busy()) break;
    await_room(ticket);
  }
  background_.finish();
  counts_ = runs_->counts();
}

void SortJob::write_run(std::uint64_t most_bytes, Written written, Emit run) {
  runs_->form(most_bytes, [&](RecordOutput& out) {
    WatchedOutput to(out, watch(), written);
    emit(to, run);
  });
}

std::uint64_t SortJob::bytes_to_emit() const noexcept {
  return formation_->records() * order_->record_bytes();
}

void SortJob::emit(RecordOutput& out, Emit run) {
  std::optional<FirstOfEqual> first;
  if (unique_) first.emplace(*order_, out);
  RecordOutput& to = unique_ ? static_cast<RecordOutput&>(*first) : out;
  guarded([&] { ((*formation_).*run)(to); }).throw_if_failed();
}

}}  // namespace vortex::v0

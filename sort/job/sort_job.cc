#include "sort/job/sort_job.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include "sort/merge/run_merge.h"
#include "sort/plan/forming_plan.h"
#include "sort/plan/memory_limits.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/format_order.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/run_writer.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/askers.h"

namespace vortex { inline namespace v0 {

SortJob::SortJob(std::shared_ptr<const RecordOrder> order, SortContext& context, bool unique)
    : order_(std::move(order)), context_(context), unique_(unique) {
  const unsigned threads = context_.resources().threads;
  const bool asks = dynamic_cast<const FormatOrder*>(order_.get()) == nullptr;
  if (asks && threads > 1) for_order_.emplace(threads);
}

// The tasks beside end soon.
SortJob::~SortJob() {
  context_.end();
  if (formation_) formation_->give_up();
}

SortPlanRequest SortJob::plan_request(std::optional<std::uint64_t> bytes,
                                      unsigned other_disks) const {
  const SortResources& resources = context_.resources();
  SortPlanRequest request;
  request.bytes = bytes;
  request.record_bytes = order_->record_bytes();
  // How many equal records are dropped is not known beforehand, and so not where a part begins.
  request.runs_in_parts = !unique_;
  // Of an input that has no more, all are wanted.
  const std::uint64_t first = resources.first_records;
  if (!bytes || first < *bytes / request.record_bytes) request.first_records = first;
  request.forecast_bytes = ForecastKeys(*order_).bytes();
  request.memory_bytes = resources.memory_bytes;
  request.disks = static_cast<unsigned>(context_.folders().size());
  request.block_bytes = resources.block_bytes;
  request.request_cost_bytes = context_.request_cost(bytes);
  request.prefetch = resources.prefetch;
  request.compression = resources.compression;
  request.threads = resources.threads;
  constexpr std::size_t kMany = 1 << 20;  // beside which fixed parts are little
  const auto in_place = order_->scratch_to_sort_in_place(kMany);
  if (const auto bytes = in_place ? in_place : order_->scratch_to_index(kMany)) {
    request.scratch_per_record = detail::units_for(*bytes, kMany);
  }
  request.bytes_of_sorter = order_->bytes_to_sort_large_bucket(kMany, 1).value_or(0);
  request.most_buckets = std::max(request.most_buckets, buckets_for(request.threads));
  limit_to_process(request, resources.backend, request.disks + other_disks);
  return request;
}

void SortJob::start(const RecordPlan& plan, Warming warming, const char* name,
                    const std::function<BlockFile()>& run_file) {
  plan_ = plan;
  context_.make_pool(plan_.block_bytes, plan_.pool_blocks, warming, name);
  RunStoreOptions for_store = context_.run_store_options();
  may_be_output_ = static_cast<bool>(run_file);
  if (may_be_output_) for_store.open_file = [run_file](std::size_t) { return run_file(); };
  runs_.emplace(*order_, plan_, *pool(), watch(), std::move(for_store), unique_, askers());
}

void SortJob::begin_forming() {
  if (plan_.first_in_memory) {
    const std::size_t blocks = plan_.blocks_for_few();
    of_few_.emplace(*pool(), blocks, blocks, "first records");
    few_.emplace(*order_, plan_.first_records, unique_);
    return;
  }
  buckets_.emplace(*pool(), plan_.bucket_blocks, "buckets");
  // Of what falls it is not known which records are the first, nor how many are equal.
  plan_.formation.may_fall = !unique_ && plan_.first_records == 0 &&
                             plan_.run_write_behind >= FallingRunWriter::kLeastWriteBehind;
  make_run_formation(formation_, *order_, *buckets_, plan_.formation);
  if (plan_.first_records != 0) bound_.emplace(*order_);
}

void SortJob::take(const std::byte* records, std::uint64_t count, Readers readers) {
  context_.note_user();
  plan_.first_records == 0 ? put(records, count, readers) : take_first(records, count, readers);
}

// What cannot be among the first records goes nowhere.
void SortJob::take_first(const std::byte* records, std::uint64_t count, Readers readers) {
  const std::size_t record_bytes = order_->record_bytes();
  const std::uint64_t most_bytes = std::min<std::uint64_t>(kMaxRoomBytes, plan_.memory_bytes / 64);
  const auto at_once =
      static_cast<std::size_t>(std::max<std::uint64_t>(most_bytes / record_bytes, 1));
  while (count > 0) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(count, at_once));
    std::span<const std::byte> wanted;
    {
      const Asking asking(askers());
      const WorkSpan span(SpanKind::kPartition);
      guarded([&] {
        if (few_) return few_->take(records, some);
        wanted = bound_->wanted(records, some);
      }).throw_if_failed();
    }
    put(wanted.data(), wanted.size() / record_bytes,
        wanted.data() == records ? readers : Readers::kOne);
    const std::size_t passed = some - wanted.size() / record_bytes;
    records_ += passed;
    watch().add(passed * record_bytes);
    records += some * record_bytes;
    count -= some;
  }
}

void SortJob::put(const std::byte* records, std::uint64_t count, Readers readers) {
  const std::size_t record_bytes = order_->record_bytes();
  const bool alone = plan_.formation.partition_threads == 1;
  const std::uint64_t batch = alone ? 0 : plan_.formation.batch_blocks * plan_.block_bytes;
  while (count > 0) {
    // What several partitioners take at a time ends with a block.
    const std::uint64_t behind = reinterpret_cast<std::uintptr_t>(records) % plan_.block_bytes;
    const std::uint64_t wanted =
        batch > behind ? detail::units_for(batch - behind, record_bytes)
                       : std::max<std::uint64_t>(SortWatch::kNoteBytes / record_bytes, 1);
    const auto offered = static_cast<std::size_t>(std::min(count, wanted));
    // Drawn before the records are offered: what is given back meanwhile leaves room for more.
    const std::uint32_t ticket = formation_->room_event().ticket();
    std::size_t taken = 0;
    {
      const Asking asking(askers());
      const WorkSpan span(SpanKind::kPartition);
      guarded([&] { taken = formation_->push(records, offered, readers); }).throw_if_failed();
    }
    records += taken * record_bytes;
    count -= taken;
    records_ += taken;
    watch().add(taken * record_bytes);
    taken == offered ? keep_ahead() : make_room(ticket);
  }
  const std::lock_guard lock(written_mutex_);
  counts_ = written_;
}

bool SortJob::begins_early() const noexcept {
  const std::uint64_t bytes = formation_->records() * order_->record_bytes();
  return plan_.run_begin_bytes != 0 && bytes >= plan_.run_begin_bytes && formation_->closed() < 2;
}

// Of a short input, who emits beside this thread gets the next bucket before the memory is full: as
// soon as there is none to emit but one, so that here runs depend on its pace.
void SortJob::keep_ahead() {
  while (begins_early()) {
    begin_runs();
    if (!emits_beside_ || !close_next()) break;
  }
}

bool SortJob::close_next() {
  const Asking asking(askers());
  return formation_->close_next();
}

void SortJob::make_room(std::uint32_t ticket) {
  begin_runs();
  if (!emits_beside_) {
    close_next();
    emit_closed();
  } else if (!formation_->wants_room() || !close_next()) {
    await_room(ticket);
  }
}

void SortJob::await_room(std::uint32_t ticket) {
  if (!background_.busy()) return background_.finish();
  {
    const Waiting waiting;
    formation_->room_event().await(ticket);
  }
  watch().look_beside();
}

void SortJob::end_forming() {
  context_.note_user();
  if (in_memory()) return;
  while (formation_->records() != 0 && !can_keep_rest()) {
    const std::uint32_t ticket = formation_->room_event().ticket();
    if (close_next()) {
      if (!emits_beside_) emit_closed();
    } else {
      await_room(ticket);
    }
  }
  wait_for_runs();
  counts_ = runs_->counts();
  if (formation_->records() != 0) return keep_rest();
  plan_.held_blocks = 0;
  formation_.reset();
  buckets_.reset();
  context_.others_wait() ? shrink() : context_.grow(plan_, *runs_);
}

// Whether what is in no closed bucket, which is in order by ranges, may stay where it is: all runs
// are merged at once beside it, and nobody else may want the memory. The next buckets are written
// until so much is left. A run that may be the output is written whole.
bool SortJob::can_keep_rest() const {
  if (context_.shares_memory()) return false;
  const KeyRanges::Rest rest = formation_->rest();
  const std::uint64_t blocks = rest.bytes / plan_.block_bytes + 1;
  return rest.blocks <= buckets_->block_count() &&
         blocks + plan_.blocks_to_merge(rest.runs) <= plan_.pool_blocks &&
         !(may_be_output_ && rest.runs == 1 && rest.joins_run);
}

// Sorts it to an array in the same blocks, one after the other: what is left partly filled of its
// buckets, and the scratch, are free for merging.
void SortJob::keep_rest() {
  kept_.emplace(formation_->make_kept());
  WatchedOutput watched(*kept_, watch(), Written::kIsCounted);
  emit_all(watched);
  kept_->end();
  formation_.reset();
  buckets_->keep_only_used();
  plan_.held_blocks = kept_->blocks();
  plan_.kept_bytes = kept_->bytes();
}

std::uint64_t SortJob::bytes_to_write() const noexcept {
  if (in_memory()) return records_ * order_->record_bytes();
  return runs_->bytes() + (kept_ ? kept_->bytes() : 0);
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

// Runs are written from now on: beside this thread where that is wanted and the system grants
// another one.
void SortJob::begin_runs() {
  if (!std::exchange(in_memory_, false)) return;
  if (!formation_->emits_beside()) return;
  emits_beside_ = background_.start(
      "writing runs",
      [this] {
        while (formation_->await_closed()) emit_next(Written::kBeside);
      },
      [this] { formation_->room_event().notify(); });
}

// Waits for what was closed, and throws what ended it early.
void SortJob::wait_for_runs() {
  formation_->end();
  while (emits_beside_) {
    const std::uint32_t ticket = formation_->room_event().ticket();
    if (!background_.busy()) break;
    await_room(ticket);
  }
  background_.finish();
  while (formation_->await_closed()) emit_next(Written::kIsCounted);
}

// A run may be as long as the input; of records in no order it is twice the memory.
RecordOutput& SortJob::begin_run(bool falls) {
  const std::size_t behind = plan_.run_write_behind;
  const std::uint64_t most = plan_.formation.most_run_bytes,
                      expected = 2 * plan_.memory_for_buckets();
  const std::size_t wide = plan_.blocks_for_rooms(behind);
  return falls ? runs_->begin_falling(behind, most, plan_.input_bytes.value_or(0), expected, wide)
               : runs_->begin(behind, most, expected, wide);
}

SortJob::OpenRun::OpenRun(SortJob& job, Written written, bool falls)
    : watched(job.begin_run(falls), job.watch(), written),
      sorted(*job.order_, job.unique_, job.plan_.first_records, watched) {}

void SortJob::emit_closed() {
  while (formation_->closed() != 0) emit_next(Written::kIsCounted);
}

void SortJob::emit_next(Written written) {
  const Asking asking(askers());
  const RunFormation::Next next = formation_->next();
  if (!run_) run_.emplace(*this, written, next.falls);
  if (next.falls) runs_->begin_part(next.bytes);
  bool is_complete = false;
  guarded([&] {
    is_complete = formation_->emit_next(run_->sorted.to(), &run_->sorted);
  }).throw_if_failed();
  if (bound_ && run_->sorted.full()) bound_->tell(run_->sorted.last());
  if (!is_complete) return;
  run_.reset();
  runs_->end();
  const std::lock_guard lock(written_mutex_);
  written_ = runs_->counts();
}

void SortJob::emit_all(RecordOutput& out) {
  const Asking asking(askers());
  SortedOutput sorted(*order_, unique_, plan_.first_records, out);
  guarded([&] {
    few_ ? few_->emit(sorted.to()) : formation_->emit(sorted.to(), &sorted);
  }).throw_if_failed();
}

}}  // namespace vortex::v0

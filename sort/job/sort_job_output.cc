// The last part of a sort, in which others may want its memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

#include "sort/job/sort_job.h"
#include "sort/job/spilling_output.h"
#include "sort/merge/run_merge.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kAllBlocks = std::numeric_limits<std::size_t>::max();
// Requests of a block that are on their way while the rest of what is in memory is spilled.
constexpr std::size_t kSpillWriteBehind = 2;

}  // namespace

// What writing the rest to the disks takes, and reading it again.
std::size_t SortJob::blocks_for_spilled() const {
  const std::size_t reading =
      lean_buffers(least_read_buffers(plan_.request.prefetch, 1, plan_.request.disks,
                                      plan_.block_bytes, plan_.request.record_bytes),
                   plan_.request.disks);
  return std::max(reading, RunWriter::blocks_needed(plan_.block_bytes, plan_.request.record_bytes,
                                                    kSpillWriteBehind));
}

void SortJob::expect_write(PatientOutput out) {
  if (!shares_memory()) return;
  patient_ = std::move(out);
  if (in_memory()) {
    formation_->settle();
    buckets_->keep_only_used();
  }
  if (in_memory() && patient_.has_room) {
    const std::size_t blocks = blocks_for_spilled();
    try {
      for_spill_.emplace(*pool(), blocks, blocks, "rest of a sort");
    } catch (const Error&) {
      // There is no room for that: what is in memory stays there.
    }
  }
  context_.lend_by(*this);
}

void SortJob::set_lending(Lending lending) noexcept {
  const std::lock_guard lock(lending_mutex_);
  lending_ = lending;
}

bool SortJob::give_back(std::uint64_t wanted) noexcept {
  const std::lock_guard lock(lending_mutex_);
  switch (lending_) {
    case Lending::kSoon:
    case Lending::kSpilling:
      return true;
    case Lending::kFromMemory: {
      const std::uint64_t before = context_.share_bytes();
      buckets_->keep_only_used();
      pool()->retire(kAllBlocks);
      context_.give_back_retired();
      if (before - context_.share_bytes() >= wanted || !for_spill_) return false;
      spill_.store(true, std::memory_order_release);
      patient_.wake();
      return true;
    }
    case Lending::kMerging: {
      const bool more = running_.give_back();
      context_.give_back_retired();
      return more;
    }
    case Lending::kEnded:
      break;
  }
  return false;
}

void SortJob::write(RecordOutput& out, std::size_t read_buffers) {
  struct Ended {
    SortJob& job;
    ~Ended() { job.end_write(); }
  } const ended{*this};
  if (in_memory()) {
    write_from_memory(out);
  } else {
    set_lending(Lending::kMerging);
    runs_->merge_all(out, read_buffers, &running_);
  }
}

// What nobody holds is of no use any more.
void SortJob::end_write() noexcept {
  const std::lock_guard lock(lending_mutex_);
  lending_ = Lending::kEnded;
  if (!shares_memory()) return;
  for_spill_.reset();
  if (buckets_) buckets_->keep_only_used();
  pool()->retire(kAllBlocks);
  context_.give_back_retired();
}

void SortJob::write_from_memory(RecordOutput& out) {
  if (!for_spill_) {
    set_lending(Lending::kFromMemory);
    return emit(out);
  }
  SpillingOutput spilling(
      out, [this](std::uint64_t bytes) { return patient_.has_room(bytes, spill_); },
      [this]() -> RecordOutput& { return begin_spill(); });
  set_lending(Lending::kFromMemory);
  emit(spilling);
  if (spilling.spilled()) write_spilled(out);
}

RecordOutput& SortJob::begin_spill() {
  const std::lock_guard lock(lending_mutex_);
  lending_ = Lending::kSpilling;
  for_spill_.reset();
  return runs_->begin(kSpillWriteBehind, records_ * order_->record_bytes());
}

// The memory that what was spilled has left is others' before it is read again.
void SortJob::write_spilled(RecordOutput& out) {
  runs_->end();
  const std::size_t read_buffers = blocks_for_spilled();
  {
    const std::lock_guard lock(lending_mutex_);
    formation_.reset();
    buckets_.reset();
    const BlockQuota kept(*pool(), read_buffers, read_buffers, "rest of a sort");
    pool()->retire(kAllBlocks);
    context_.give_back_retired();
    context_.give_back(plan_.formation.scratch_bytes);
    lending_ = Lending::kMerging;
  }
  runs_->merge_all(out, read_buffers, &running_);
}

}}  // namespace vortex::v0

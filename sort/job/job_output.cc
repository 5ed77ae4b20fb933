// The last part of a sort, in which others may want its memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/job/sort_job.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

namespace {

// Requests of a block that are on their way while the rest of what is in memory is spilled.
constexpr std::size_t kSpillWriteBehind = 2;

}  // namespace

// What writing the rest to the disks takes, and reading it again.
std::size_t SortJob::blocks_for_spilled() const {
  const std::size_t reading = lean_buffers(plan_.reading().least_buffers(1), plan_.disks);
  return std::max(
      reading, RunWriter::blocks_needed(plan_.block_bytes, plan_.record_bytes, kSpillWriteBehind));
}

void SortJob::expect_write(PatientOutput out) {
  counts_ = runs_->counts();
  if (!in_memory()) {  // the last merge, which may go on in another thread
    ++counts_.merges;
    ++counts_.passes;
  }
  if (!context_.shares_memory()) return;
  patient_ = std::move(out);
  if (in_memory() && !few_) {
    formation_->settle();
    buckets_->keep_only_used();
  }
  if (in_memory() && !few_ && patient_.has_room) {
    const std::size_t blocks = blocks_for_spilled();
    try {
      for_spill_.emplace(*pool(), blocks, blocks, "rest of a sort");
    } catch (const Error&) {
      // There is no room for that: what is in memory stays there.
    }
  }
  context_.lend([](std::uint64_t) { return true; });  // soon
}

// Blocks that have been emptied, and if they are too few, the rest by way of the disks.
bool SortJob::give_back_emptied(std::uint64_t wanted) noexcept {
  const std::uint64_t before = context_.share_bytes();
  if (buckets_) buckets_->keep_only_used();
  context_.give_back_unused();
  if (before - context_.share_bytes() >= wanted || !for_spill_) return false;
  spill_.store(true, std::memory_order_release);
  patient_.wake();
  return true;
}

void SortJob::write(RecordOutput& out, std::size_t read_buffers) {
  const Ended ended{*this};
  if (in_memory()) return write_from_memory(out);
  context_.change_lender([this](std::uint64_t) { return context_.give_back_read_ahead(); });
  runs_->merge_all(out, read_buffers, context_.lending_merges(), kept_records());
}

void SortJob::write_parts(unsigned most_parts,
                          const std::function<void(PartMerges& parts)>& write) {
  const Ended ended{*this};
  context_.change_lender([this](std::uint64_t) { return context_.give_back_read_ahead(); });
  if (!plan_.held_blocks) plan_.held_blocks = 0;  // runs of sorted inputs, which were not formed
  PartMerges parts = runs_->merge_parts(most_parts, context_.lending_merges(), kept_records());
  write(parts);
}

// What nobody holds is of no use any more.
void SortJob::end_write() noexcept {
  context_.change_lender({}, [this] {
    few_.reset();
    of_few_.reset();
    if (!context_.shares_memory()) return;
    for_spill_.reset();
    if (buckets_) buckets_->keep_only_used();
    context_.give_back_unused();
  });
}

void SortJob::write_from_memory(RecordOutput& out) {
  const auto lend = [this] {
    context_.change_lender([this](std::uint64_t wanted) { return give_back_emptied(wanted); });
  };
  if (!for_spill_) {
    lend();
    return emit_all(out);
  }
  SpillingOutput spilling(
      out, [this](std::uint64_t bytes) { return patient_.has_room(bytes, spill_); },
      [this]() -> RecordOutput& { return begin_spill(); });
  lend();
  emit_all(spilling);
  if (spilling.spilled()) write_spilled(out);
}

// Soon all memory comes back but what it takes to read the rest from the disks.
RecordOutput& SortJob::begin_spill() {
  RecordOutput* run = nullptr;
  context_.change_lender([](std::uint64_t) { return true; },
                         [&] {
                           for_spill_.reset();
                           run =
                               &runs_->begin(kSpillWriteBehind, records_ * order_->record_bytes());
                         });
  return *run;
}

// The memory that what was spilled has left is others' before it is read again.
void SortJob::write_spilled(RecordOutput& out) {
  runs_->end_spilled();
  const std::size_t read_buffers = blocks_for_spilled();
  context_.change_lender([this](std::uint64_t) { return context_.give_back_read_ahead(); },
                         [&] {
                           formation_.reset();
                           buckets_.reset();
                           const BlockQuota kept(*pool(), read_buffers, read_buffers,
                                                 "rest of a sort");
                           context_.give_back_unused();
                           context_.release(plan_.formation.scratch_bytes);
                         });
  runs_->merge_all(out, read_buffers, context_.lending_merges());
}

}}  // namespace vortex::v0

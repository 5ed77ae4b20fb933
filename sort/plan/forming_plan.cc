#include "sort/plan/forming_plan.h"

#include <algorithm>

#include "io/disk/disk.h"
#include "sort/plan/least_memory.h"
#include "sort/runs/key_ranges.h"
#include "sort/runs/partitioners.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kMinScratchBytes = std::size_t{64} << 10;
// With fewer threads one partitions as fast as the others sort.
constexpr unsigned kLeastPartitionedBy = 4;
// Of a batch, for each partitioner; more for many buckets, so that it fills most of the buffers
// that it writes to them.
constexpr std::size_t kStripeBytes = std::size_t{256} << 10;
constexpr std::size_t kStripeOfBucket = std::size_t{4} << 10;

}  // namespace

// Buckets are sorted by (leading bits, index) pairs of 16 bytes; they are seldom larger than twice
// the average, and larger ones are sorted in parts. While runs are formed, a bucket is twice the
// average when it is sorted. One thread that sorts keeps up with one that partitions, or with the
// disk; of several each takes a part, as far as that does not make runs much shorter.
std::size_t scratch_for(std::uint64_t pool_bytes, unsigned buckets, bool forms_runs,
                        const SortPlanRequest& request) {
  constexpr unsigned kMost = 64;
  const std::uint64_t times = forms_runs ? 2 : 1;
  const std::uint64_t records = times * pool_bytes / buckets / request.record_bytes + 1;
  std::uint64_t bytes = 32 * (pool_bytes / std::min(buckets, kMost) / request.record_bytes + 1);
  if (forms_runs) {
    const std::uint64_t of_record = std::min<std::uint64_t>(request.scratch_per_record * 5 / 4, 32);
    bytes = std::max(bytes, records * of_record);
  }
  if (request.threads >= kLeastPartitionedBy) {
    std::uint64_t of_thread =
        detail::saturating_product(records * 5 / 4, request.scratch_per_record);
    if (request.bytes_of_sorter != 0) of_thread = std::min(of_thread, request.bytes_of_sorter);
    const std::uint64_t of_all = detail::saturating_product(of_thread, request.threads + 1);
    bytes = std::max(bytes, std::min(of_all, pool_bytes / 8));
  }
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(
      bytes, kMinScratchBytes, std::max<std::uint64_t>(pool_bytes / 8, kMinScratchBytes)));
}

// A bucket is closed when it has twice the average, so there may be twice as many where runs are
// formed, if what they leave partly filled is little.
unsigned buckets_in(std::size_t blocks, bool forms_runs, const SortPlanRequest& request) {
  const std::size_t half = request.most_buckets / 2;
  const std::size_t most =
      forms_runs ? std::clamp<std::size_t>(blocks / 8, half, request.most_buckets) : half;
  return static_cast<unsigned>(
      std::clamp<std::size_t>(blocks / 6, kMinBuckets, std::max<std::size_t>(most, kMinBuckets)));
}

namespace {

// Each bucket may leave its last block all but empty. Where runs are formed, these are half full on
// average, there are some more buckets later, and what is on its way to the disks belongs to the
// run before.
void set_run_bytes(RecordPlan& plan, bool forms_runs) {
  RunFormationOptions& forming = plan.formation;
  const std::size_t on_their_way = forming.blocks_on_their_way(plan.bucket_blocks);
  const std::size_t beside = std::max<std::size_t>(
      forming.buckets, forms_runs ? forming.most_open() / 2 + on_their_way : 0);
  const std::size_t blocks = plan.bucket_blocks - std::min(plan.bucket_blocks, beside);
  const std::uint64_t bytes = std::uint64_t{blocks} * plan.block_bytes;
  plan.run_bytes = plan.least_run_bytes = bytes - bytes % plan.record_bytes;
  // Runs may be as long as the input. Of a pipe nobody knows.
  constexpr std::uint64_t kTimesMemory = 64;
  const std::uint64_t memory = plan.memory_for_buckets();
  forming.most_run_bytes =
      plan.input_bytes ? std::max(*plan.input_bytes, memory) : kTimesMemory * memory;
}

}  // namespace

namespace {

// That so many partitioners take at a time, in a small part of the pool: in a smaller one where
// stripes are longer.
std::size_t batch_blocks(const RecordPlan& plan, unsigned threads) {
  if (threads == 1) return 1;
  const auto blocks_of = [&](std::size_t stripe, std::size_t most) {
    const std::size_t wanted = detail::units_for(threads * stripe, plan.block_bytes);
    return std::max<std::size_t>(std::min(most, wanted), 1);
  };
  return std::max(blocks_of(kStripeBytes, plan.pool_blocks / 32),
                  blocks_of(kStripeOfBucket * buckets_for(plan.threads), plan.pool_blocks / 128));
}

}  // namespace

bool divide_for_runs(RecordPlan& plan, bool forms_runs) {
  const std::size_t comeback_blocks = plan.window_blocks - 1;
  const auto divide = [&](std::size_t request_bytes, std::size_t read_ahead,
                          std::size_t write_behind, std::size_t batch_blocks) {
    plan.formation.batch_blocks = batch_blocks;
    plan.reader = {.comeback_blocks = comeback_blocks + batch_blocks - 1,
                   .read_ahead = read_ahead,
                   .request_bytes = request_bytes,
                   .order = ReadOrder::kForward};
    plan.writer = {.comeback_blocks = comeback_blocks,
                   .write_behind = write_behind,
                   .request_bytes = request_bytes};
    plan.run_write_behind = blocks_behind(plan.writer, plan.block_bytes);
    const std::size_t streams = FileReaderBase::blocks_needed(plan.reader, plan.block_bytes) +
                                FileWriterBase::blocks_needed(plan.writer, plan.block_bytes);
    if (plan.pool_blocks <= streams) return false;
    plan.bucket_blocks = plan.pool_blocks - streams;
    plan.formation.buckets = buckets_in(plan.bucket_blocks, forms_runs, plan.request);
    return plan.bucket_blocks >= plan.pool_blocks / 2 &&
           plan.bucket_blocks >= 2 * plan.formation.buckets;
  };
  // Generous queues first; a small pool does with less.
  const std::size_t grouped = std::max(plan.block_bytes, std::size_t{512} << 10);
  const std::size_t disks = plan.disks;
  const std::size_t batch = batch_blocks(plan, plan.formation.partitioners_beside());
  const std::size_t ahead = std::max<std::size_t>(4, 2 * batch * plan.block_bytes / grouped);
  const std::size_t behind = std::max<std::size_t>(2 * disks + 2, Disk::copiers_for(plan.threads));
  const bool is_divided = (batch > 1 && divide(grouped, ahead, behind, batch)) ||
                          divide(grouped, 4, 2 * disks + 2, 1) ||
                          divide(plan.block_bytes, 4, 2 * disks + 2, 1) ||
                          divide(plan.block_bytes, 2, 2, 1) || divide(plan.block_bytes, 1, 1, 1);
  if (!is_divided) return false;
  // What is pushed lies in no block of the pool.
  if (plan.request.pushed) {
    plan.formation.batch_blocks = batch_blocks(plan, plan.formation.partition_threads);
  }
  // In few blocks, those that are on their way to the disks would make runs much shorter.
  plan.formation.emits_beside &= plan.bucket_blocks >= KeyRanges::kFewBlocks;
  set_run_bytes(plan, forms_runs);
  return true;
}

// What the input leaves of the pool goes to the output, as much as two buckets: the disk writes
// while all threads sort the next ones.
void deepen_output(RecordPlan& plan) {
  const std::uint64_t bytes = *plan.input_bytes, buckets = plan.formation.buckets;
  const auto blocks_of = [&](std::uint64_t some) {
    return static_cast<std::size_t>(detail::units_for(some, plan.block_bytes));
  };
  // Twice as many blocks as can be partly filled, so that a file still fits that is a little longer
  // by the time it is read.
  const std::size_t needed = blocks_of(bytes) + 2 * plan.formation.buckets;
  if (plan.bucket_blocks <= needed) return;
  const std::size_t more = std::min(plan.bucket_blocks - needed, 2 * blocks_of(bytes / buckets));
  const std::size_t per_request =
      std::max<std::size_t>(plan.writer.request_bytes / plan.block_bytes, 1);
  plan.writer.write_behind += more / per_request;
  plan.bucket_blocks -= more / per_request * per_request;
  set_run_bytes(plan, false);
}

bool sorts_in_parts(const RecordPlan& plan) {
  const std::uint64_t times = plan.in_memory() ? 1 : 2;
  const std::uint64_t bucket_bytes = times * plan.run_bytes / plan.formation.buckets * 9 / 8;
  const std::size_t of_record = std::min<std::size_t>(plan.request.scratch_per_record, 16);
  return plan.formation.scratch_bytes < bucket_bytes / plan.record_bytes * of_record;
}

// As many as find a stripe each in a small part of the memory, or in a block. Others read, sort and
// write meanwhile.
unsigned threads_to_partition(unsigned threads, std::uint64_t memory_bytes, std::size_t block_bytes,
                              bool alone) noexcept {
  const std::uint64_t most = std::max<std::uint64_t>(
      {memory_bytes / 64 / kStripeBytes, block_bytes / Partitioners::kMinBytes, 1});
  const unsigned wanted = alone ? threads : threads < kLeastPartitionedBy ? 1 : threads / 2;
  return static_cast<unsigned>(std::min<std::uint64_t>(wanted, most));
}

unsigned buckets_for(unsigned threads) noexcept {
  constexpr unsigned kOfThread = 4, kMost = 512;
  return threads < kLeastPartitionedBy ? 0 : std::min(std::max(threads, 16U) * kOfThread, kMost);
}

bool lacks_buckets(const RecordPlan& plan) {
  constexpr std::size_t kSmallBlock = std::size_t{256} << 10;
  return !plan.in_memory() && plan.block_bytes > kSmallBlock &&
         plan.formation.buckets < std::min(buckets_for(plan.threads), plan.request.most_buckets);
}

std::uint64_t bytes_of_partitioners(const RecordPlan& plan) {
  const RunFormationOptions& forming = plan.formation;
  if (forming.partition_threads == 1) return 0;
  return Partitioners::bytes(plan.record_bytes, forming.most_open(), forming.partition_threads);
}

// Nothing is written before the first run begins, nor read while the last one is written. Inputs of
// more than two runs do not gain (docs/decisions/0039-data-that-fit.md).
std::uint64_t bytes_to_begin_run(const RecordPlan& plan, std::uint64_t largest_merge_order) {
  constexpr std::uint64_t kRuns = 8;
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;
  if (!plan.formation.emits_beside) return 0;
  const std::uint64_t bytes = *plan.input_bytes, record_bytes = plan.record_bytes;
  const std::uint64_t wanted = std::max(detail::units_for(bytes, kRuns), kLeast);
  const std::uint64_t begin = detail::round_up(wanted, record_bytes);
  const bool helps = begin < plan.run_bytes && bytes < 2 * plan.run_bytes &&
                     detail::units_for(bytes, begin) <= largest_merge_order;
  return helps ? begin : 0;
}

}}  // namespace vortex::v0

#include "sort/plan/record_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <tuple>
#include <utility>

#include "sort/merge/merge_passes.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/plan/forming_plan.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/memory_limits.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/partitioners.h"
#include "sort/runs/run.h"
#include "sort/runs/run_packing.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/os/reservation.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

namespace {

// The bytes that forecasting and the policies keep of each block on disk, besides keys: its place
// in the order of need, in the order of fetching and in its file.
constexpr std::uint64_t kBookkeepingBytes = 81;
// A run that is written, a merge, and who reads the keys that decide when it needs its blocks.
constexpr unsigned kPackers = 3;

// Address space of the heap beside what is planned, and of a reservation while it is made.
constexpr std::uint64_t kSpaceBeside = (std::uint64_t{12} << 20) + kReservationAlignment;
// The bytes that bucket streams keep of each block they have: see PooledBlocks.
constexpr std::uint64_t kBucketTableBytes = 16;

// The cost of moving a block besides the time for its bytes (faults, moves of the memory,
// requests), in bytes that could be read and written meanwhile.
// docs/decisions/0042-block-size.md has the measurement.
constexpr double kBytesLostPerBlock = 36 << 10;
// Where several threads work each move interrupts the others.
constexpr double kBytesLostAmongThreads = 96 << 10;
// The bytes that are kept of each block of the pool, whatever holds it.
std::uint64_t bytes_beside_block() {
  return BlockPool::kTableBytes +
         std::max<std::uint64_t>(MergePrefetcher::bytes_per_buffer(), kBucketTableBytes);
}

// The bytes that are kept of each run of a merge: its stream and source, with their names and
// tables, and its player in the tree.
std::uint64_t bytes_of_run_stream() {
  constexpr std::uint64_t kNamesAndTables = 512;
  return sizeof(InputStream<std::byte>) + sizeof(RunSource) + sizeof(Run) + kNamesAndTables;
}

// Of the runs and the output; of several merges each has some, and blocks for each.
std::uint64_t streams_of_merge(const RecordPlan& plan) {
  const std::uint64_t of_one = plan.merge_order + 1;
  if (!plan.request.in_parts && plan.run_parts(2) == 1) return of_one;
  return std::max(of_one, std::min<std::uint64_t>(plan.threads * of_one, plan.pool_blocks));
}

// Address space of a stream over `bytes`, the block of filler behind them included.
std::uint64_t stream_space(std::uint64_t bytes, std::uint64_t block_bytes) {
  return (bytes / block_bytes + 2) * block_bytes + kReservationGuardBytes;
}

// How long the plan takes, in passes over the input with no loss. The first of several passes may
// merge a few runs only; how many that are is not known exactly, but there are hardly ever more.
double cost_of(const RecordPlan& plan) {
  const std::uint64_t runs = plan.input_bytes ? plan.runs : kAssumedRuns;
  double passes = merge_passes(runs, plan.merge_order);
  if (passes > 1) {
    const std::uint64_t merged = next_merge_pass(runs, plan.merge_order, plan.merge_order).merged;
    passes -= 1 - static_cast<double>(merged) / static_cast<double>(runs);
  }
  // The last merge takes one processor about as long as a pass takes the disks, and several less.
  const double merging = plan.in_memory() ? 0 : 1.0 / plan.merges_at_once(plan.expected_order());
  return (1 + passes) * plan.cost_of_byte() + merging;
}

// The plan with the least is the best. Small blocks occupy more threads, where a disk does not lose
// more by them.
std::tuple<bool, bool, double> rank_of(const RecordPlan& plan) {
  const bool lacks = plan.request_cost_bytes < kExpensiveRequest && lacks_buckets(plan);
  return {sorts_in_parts(plan), lacks, cost_of(plan)};
}

// How many runs of records in no order there are, and their merges: they are twice as long as the
// shortest but for what ranges of unequal length lose, which was seen to be a sixteenth; and the
// first and the last ones are shorter.
void count_expected_runs(RecordPlan& plan) {
  const std::uint64_t expected_bytes =
      std::min(plan.least_run_bytes / 8 * 15, plan.formation.most_run_bytes);
  plan.expected_runs = std::min(
      plan.runs,
      detail::units_for(*plan.input_bytes, std::max<std::uint64_t>(expected_bytes, 1)) + 1);
  plan.expected_passes = merge_passes(plan.expected_runs, plan.merge_order);
}

// How many runs there are at most, and their merges.
void count_runs(RecordPlan& plan, std::uint64_t largest_order) {
  plan.run_begin_bytes = bytes_to_begin_run(plan, largest_order);
  plan.least_run_bytes = plan.run_begin_bytes != 0 ? plan.run_begin_bytes : plan.run_bytes;
  plan.runs = detail::units_for(*plan.input_bytes, plan.least_run_bytes);
  plan.merge_order = std::min(plan.runs, largest_order);
  plan.passes = merge_passes(plan.runs, largest_order);
  count_expected_runs(plan);
}

// A plan with this memory and block size, if there is one.
std::optional<RecordPlan> try_block(const SortPlanRequest& request, std::uint64_t memory_bytes,
                                    std::size_t block_bytes) {
  RecordPlan plan(request, block_bytes);
  // The blocks of a pipe that is longer are remembered besides, in a ten-thousandth of its bytes.
  const std::uint64_t blocks_on_disk =
      request.bytes.value_or(kAssumedRuns * memory_bytes) / block_bytes + 1;
  const RunPacking::Plan packing =
      RunPacking::plan(request.compression, block_bytes, kPackers, memory_bytes);
  const std::uint64_t bytes_of_block =
      kBookkeepingBytes + request.forecast_bytes + StoredBlocks::kBytesOfBlock;
  const std::uint64_t forecasts = detail::saturating_product(blocks_on_disk, bytes_of_block);
  const auto if_maps_suffice = [&] {
    return BlockPool::maps_needed(plan.pool_blocks) <= request.most_maps ? std::optional(plan)
                                                                         : std::nullopt;
  };
  const std::uint64_t all_bytes = memory_bytes;
  // Sorted in memory, the input is never on disk: no forecasts, no streams of runs. How many runs
  // there are for the streams is known when the rest has been divided.
  for (int attempt = request.bytes ? 0 : 1; attempt < 3; ++attempt) {
    const bool forms_runs = attempt != 0;
    plan.formation.emits_beside = forms_runs && request.threads > 1;
    plan.formation.fits = !forms_runs;
    plan.formation.buckets = buckets_in(all_bytes / block_bytes, forms_runs, request);  // at most
    plan.formation.scratch_bytes =
        scratch_for(all_bytes, plan.formation.buckets, forms_runs, request);
    memory_bytes = all_bytes - std::min(all_bytes, bytes_of_partitioners(plan));
    plan.forecast_memory_bytes = attempt == 0 ? 0 : forecasts;
    plan.packing_memory_bytes = attempt == 0 ? 0 : packing.bytes;
    plan.compression = attempt == 0 ? RunCompression::kNever : packing.compression;
    const std::uint64_t beside = detail::saturating_sum(
        plan.forecast_memory_bytes,
        plan.formation.scratch_bytes + plan.stream_memory_bytes + plan.packing_memory_bytes);
    if (memory_bytes <= beside) return std::nullopt;
    plan.pool_blocks =
        static_cast<std::size_t>((memory_bytes - beside) / (block_bytes + bytes_beside_block()));
    if (!divide_for_runs(plan, forms_runs) || plan.run_bytes == 0) return std::nullopt;
    if (request.bytes) {
      plan.runs = detail::units_for(*request.bytes, plan.run_bytes);
      if (plan.runs <= 1) {
        plan.expected_runs = plan.runs;
        plan.passes = plan.expected_passes = 0;
        plan.formation.emits_beside = false;
        plan.formation.fits = true;
        deepen_output(plan);
        return if_maps_suffice();
      }
    }
    if (attempt == 0) continue;
    const std::uint64_t largest = plan.largest_merge_order();
    if (largest < 2) return std::nullopt;
    plan.merge_order = largest;
    if (request.bytes) count_runs(plan, largest);
    plan.stream_memory_bytes =
        std::max(plan.stream_memory_bytes, streams_of_merge(plan) * bytes_of_run_stream());
  }
  return if_maps_suffice();
}

std::optional<RecordPlan> try_memory(const SortPlanRequest& request, std::uint64_t memory_bytes) {
  const std::uint64_t buffer =
      request.pushed ? push_buffer_bytes(memory_bytes, request.record_bytes) : 0;
  memory_bytes -= std::min(memory_bytes, buffer);
  memory_bytes -= program_bytes(memory_bytes);
  if (request.block_bytes != 0) return try_block(request, memory_bytes, request.block_bytes);
  std::optional<RecordPlan> best;
  const std::size_t least = std::max(kMinBlockBytes, std::bit_ceil(request.record_bytes));
  for (std::size_t block = least; block <= kMaxBlockBytes; block *= 2) {
    if (best && block > kDefaultBlockBytes && request.request_cost_bytes < kExpensiveRequest) break;
    const auto plan = try_block(request, memory_bytes, block);
    if (plan && (!best || rank_of(*plan) < rank_of(*best))) best = plan;
  }
  return best;
}

// What takes less address space: fewer buckets than many threads have, fewer threads, fewer buckets
// yet. Throws Error: ENOMEM.
SortPlanRequest with_less_space(const SortPlanRequest& request, const RecordPlan& plan) {
  SortPlanRequest smaller = request;
  // A bucket reserves as much address space as there is memory: those beyond the usual go first.
  const unsigned usual = SortPlanRequest{}.most_buckets;
  if (request.most_buckets > usual) {
    smaller.most_buckets = std::max(usual, request.most_buckets / 2);
  } else if (request.threads > 1) {
    smaller.threads = request.threads / 2;
  } else if (plan.formation.buckets == kMinBuckets) {
    throw Error(ENOMEM, "the sort takes " + format_bytes(plan.address_space_bytes()) +
                            " of address space for its streams and threads, and " +
                            format_bytes(request.address_space_bytes) + " are left; " +
                            address_space_advice());
  } else {
    // A plan in memory has half of the buckets that it may have, or all of them.
    smaller.most_buckets =
        std::min(plan.formation.buckets / (plan.in_memory() ? 1 : 2), request.most_buckets / 2);
  }
  return smaller;
}

}  // namespace

RecordPlan::RecordPlan(const SortPlanRequest& to_plan, std::size_t bytes_of_block)
    : request(to_plan) {
  input_bytes = request.bytes;
  record_bytes = request.record_bytes;
  memory_bytes = request.memory_bytes;
  first_records = request.first_records;
  threads = request.threads;
  disks = request.disks;
  request_cost_bytes = request.request_cost_bytes;
  prefetch = request.prefetch;
  block_bytes = bytes_of_block;
  window_blocks = blocks_for_records(block_bytes, record_bytes);
  formation.threads = threads;
  formation.partition_beside = threads_to_partition(threads, memory_bytes, block_bytes, false);
  formation.partition_threads =
      threads_to_partition(threads, memory_bytes, block_bytes, request.pushed);
}

// Processors and disk lose their time at once.
double RecordPlan::cost_of_byte() const noexcept {
  const double lost = std::max(threads > 1 ? kBytesLostAmongThreads : kBytesLostPerBlock,
                               static_cast<double>(request_cost_bytes));
  return 1 + lost / static_cast<double>(block_bytes);
}

std::uint64_t RecordPlan::memory_taken_bytes() const noexcept {
  return pool_blocks * (block_bytes + bytes_beside_block()) + formation.scratch_bytes +
         forecast_memory_bytes + stream_memory_bytes + packing_memory_bytes +
         bytes_of_partitioners(*this);
}

std::size_t RecordPlan::blocks_for_rooms(std::size_t behind) const noexcept {
  const std::size_t half = behind / 2;
  const bool shared = BucketSorters::copiers_of(2, threads) > 1 &&
                      half * block_bytes >= BucketSorters::kLeastSharedBytes;
  return shared ? half : 0;
}

FileWriterOptions RecordPlan::wide_writer() const {
  FileWriterOptions wide = writer;
  const std::size_t behind = blocks_behind(writer, block_bytes);
  wide.write_behind -= blocks_for_rooms(behind) * writer.write_behind / behind;
  wide.comeback_blocks += FileWriterBase::blocks_needed(writer, block_bytes) -
                          FileWriterBase::blocks_needed(wide, block_bytes);
  return wide;
}

bool RecordPlan::add_memory_for_merging(std::uint64_t bytes, std::uint64_t runs) {
  if (bytes > kMaxSortMemoryBytes - std::min(memory_bytes, kMaxSortMemoryBytes)) return false;
  RecordPlan larger = *this;
  larger.memory_bytes += bytes;
  const std::uint64_t merges = request.in_parts || request.runs_in_parts ? threads : 1;
  const std::uint64_t most_streams = pool_blocks + bytes / (block_bytes + bytes_beside_block());
  const std::uint64_t of_runs = std::max(runs + 1, std::min(merges * (runs + 1), most_streams));
  larger.stream_memory_bytes = std::max(stream_memory_bytes, of_runs * bytes_of_run_stream());
  const std::uint64_t streams = larger.stream_memory_bytes - stream_memory_bytes;
  if (bytes <= streams) return false;
  larger.pool_blocks +=
      static_cast<std::size_t>((bytes - streams) / (block_bytes + bytes_beside_block()));
  larger.merge_order = std::min(runs, larger.largest_merge_order());
  if (input_bytes) {
    larger.passes = merge_passes(runs, larger.merge_order);
    larger.expected_runs = std::min(expected_runs, runs);
    larger.expected_passes = merge_passes(larger.expected_runs, larger.merge_order);
  }
  const std::optional<std::uint64_t> data = private_memory_left();
  if (BlockPool::maps_needed(larger.pool_blocks) > request.most_maps ||
      larger.address_space_bytes() > request.address_space_bytes ||
      (data && kTimesPrivate * larger.pool_blocks * block_bytes > *data)) {
    return false;
  }
  *this = larger;
  return true;
}

std::uint64_t RecordPlan::address_space_bytes() const {
  const std::uint64_t input = stream_space(input_bytes.value_or(kLeastOfPipe), block_bytes);
  const std::uint64_t bucket = stream_space(memory_for_buckets(), block_bytes) +
                               (bucket_blocks + 1) * kBucketTableBytes + kMinBlockBytes;
  const std::uint64_t run = stream_space(formation.most_run_bytes, block_bytes);
  // Sorted in memory, what was read is closed before the output is opened.
  const std::uint64_t buckets = formation.most_open() + formation.most_closed();
  const std::uint64_t forming = buckets * bucket + input + (in_memory() ? 0 : run);
  // A merge reads all that it writes; each part of one, by itself.
  const std::uint64_t inputs = std::min(merged_inputs, plain_merge_order());
  const std::uint64_t order = std::max(
      merge_order, merged_inputs == 0 || merge_parts < 2 ? inputs : merge_parts * (inputs + 1));
  // Parts of the output have an array of their own, and the first one of all of it.
  const std::uint64_t outputs = request.in_parts && threads > 1 ? 2 : 1;
  const std::uint64_t merging =
      in_memory() ? 0
                  : input_bytes.value_or(0) +
                        std::max(order, streams_of_merge(*this)) * stream_space(0, block_bytes) +
                        outputs * stream_space(input_bytes.value_or(0), block_bytes);
  const std::uint64_t streams = merged_inputs == 0 ? std::max(forming, merging) : merging;
  // The stacks of threads that sort, of those that partition, and of those that copy buckets.
  const std::uint64_t stacks =
      threads > 1 ? threads + formation.partition_threads + threads / 4 : 0;
  return memory_taken_bytes() + kReservationGuardBytes + kSpaceBeside + request.stack_bytes +
         stacks * request.thread_bytes + streams;
}

std::uint64_t RecordPlan::space_beside_input_bytes() const noexcept {
  return stream_space(formation.most_run_bytes, block_bytes) + stream_space(0, block_bytes) +
         request.stack_bytes + kSpaceBeside;
}

RecordPlan plan_sort(const SortPlanRequest& request) {
  expect_limits(request);
  if (auto plan = try_memory(request, request.memory_bytes)) {
    const auto fits = [&](std::uint64_t beside = 0) {
      return detail::saturating_sum(plan->address_space_bytes(), beside) <=
             request.address_space_bytes;
    };
    // A pipe may be as long as a run at least, or runs are shorter.
    if (!fits(request.bytes ? 0 : plan->formation.most_run_bytes)) {
      plan->formation.most_run_bytes = plan->memory_for_buckets();
      if (request.bytes && !plan->in_memory()) count_expected_runs(*plan);
    }
    if (fits()) {
      plan->keep_few_in_memory();
      return *plan;
    }
    return plan_sort(with_less_space(request, *plan));
  }
  const std::string what = "sorting " +
                           (request.bytes ? format_bytes(*request.bytes) : std::string("input")) +
                           " in records of " + format_bytes(request.record_bytes) + " with " +
                           format_bytes(request.memory_bytes) + " of memory";
  SortPlanRequest with_maps = request;
  with_maps.most_maps = SortPlanRequest{}.most_maps;
  if (const auto plan = try_memory(with_maps, request.memory_bytes)) {
    const std::size_t maps = BlockPool::maps_needed(plan->pool_blocks);
    throw Error(ENOMEM, what + " in blocks of " + format_bytes(plan->block_bytes) + " can need " +
                            std::to_string(maps) + " memory maps, and " +
                            std::to_string(request.most_maps) +
                            " are to be had: use larger blocks or less memory, or raise "
                            "vm.max_map_count by " +
                            std::to_string((maps - request.most_maps) * 8 / 7 + 8));
  }
  // Blocks are counted whole, so that less memory may do where more is divided worse.
  const std::uint64_t step = request.memory_bytes / 16;
  for (unsigned steps = 1; steps <= 8; ++steps) {
    SortPlanRequest less = request;
    less.memory_bytes -= steps * step;
    if (try_memory(less, less.memory_bytes)) return plan_sort(less);
  }
  const std::uint64_t enough = least_memory(request.memory_bytes, [&](std::uint64_t bytes) -> bool {
    return try_memory(request, bytes).has_value();
  });
  throw Error(ENOMEM, what + (enough != 0 ? ": at least " + format_bytes(enough) + " are needed"
                                          : std::string(": no memory is enough")));
}

}}  // namespace vortex::v0

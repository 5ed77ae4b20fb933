// How many runs, or sorted inputs, the memory of a plan can merge at a time; and plans for files:
// little memory where there is little to sort, more where sorted ones are merged.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sort/merge/file_merge.h"
#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/record_plan.h"
#include "sort/record/first_records.h"
#include "vortex/block_pool.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

PrefetchOptions MergeReading::options(std::uint64_t runs) const {
  return {.disks = disks, .held_blocks = static_cast<std::size_t>(runs) * window_blocks};
}

std::size_t MergeReading::least_buffers(std::uint64_t runs, std::size_t ahead) const {
  const PrefetchOptions reading = options(runs);
  return std::max(minimum_read_buffers(kind, reading, static_cast<std::uint32_t>(runs)),
                  reading.held_blocks + ahead);
}

std::uint64_t MergeReading::most_runs(std::size_t buffers, std::size_t ahead) const {
  std::uint64_t low = 0, high = buffers / window_blocks + 1;  // low suffices, and high does not
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (least_buffers(middle, ahead) <= buffers ? low : high) = middle;
  }
  return low;
}

namespace {

// What lies in front of the first whole block of a part.
constexpr std::size_t kBlocksForHead = 1;

// That all threads have a part, as far as one is worth more than to hold what it takes. With p
// parts the last merge takes a p-th of a pass, and what they take of the pool is written and read
// again: the sum is the least where p^2 parts would take as much as the input. Few threads leave
// most of the pool for what is held, and a disk whose requests are expensive is slower than two.
std::size_t blocks_for_parts(const RecordPlan& plan, std::uint64_t runs) {
  constexpr unsigned kManyThreads = 8;
  const unsigned threads = plan.request_cost_bytes < kExpensiveRequest ? plan.threads : 2;
  const std::size_t of_one = plan.blocks_of_part(runs);
  if (threads < kManyThreads) {
    return std::min(threads * of_one,
                    std::max(plan.pool_blocks / 4, std::min(2 * of_one, plan.pool_blocks / 2)));
  }
  const std::uint64_t input = plan.input_bytes
                                  ? detail::units_for(*plan.input_bytes, plan.block_bytes)
                                  : std::numeric_limits<std::uint32_t>::max();
  std::size_t parts = 2;
  while (parts < threads && (parts + 1) * (parts + 1) * of_one <= input) ++parts;
  return std::min(parts * of_one, plan.pool_blocks);
}

bool divides_merges(const RecordPlan& plan) noexcept {
  return plan.request.in_parts && plan.prefetch != PrefetchKind::kStriped && plan.threads > 1;
}

}  // namespace

// Two blocks a disk, and kLeastAhead, to read ahead, or it would wait; and two requests to write
// behind.
std::size_t RecordPlan::blocks_of_part(std::uint64_t runs) const {
  constexpr std::size_t kLeastAhead = 4;
  const std::size_t ahead = std::max<std::size_t>(2 * std::size_t{disks}, kLeastAhead);
  FileWriterOptions least = writer;
  least.write_behind = 2;
  least.request_bytes = block_bytes;
  return reading().least_buffers(runs, ahead) + FileWriterBase::blocks_needed(least, block_bytes) +
         kBlocksForHead;
}

unsigned RecordPlan::merges_at_once(std::uint64_t runs) const {
  if (!divides_merges(*this)) return 1;
  const std::size_t of_one = blocks_of_part(runs);
  const std::size_t blocks = held_blocks ? merging_blocks() : blocks_to_merge(runs);
  return detail::threads_that_fit(threads,
                                  [&](unsigned merges) { return merges * of_one <= blocks; });
}

MergeBuffers RecordPlan::merge_buffers(std::uint64_t runs, unsigned merges) const {
  const std::size_t held = reading().options(runs).held_blocks;
  const std::size_t least = reading().least_buffers(runs);
  const std::size_t blocks = merging_blocks() / merges - (merges > 1 ? kBlocksForHead : 0);
  const std::size_t spare = blocks > held ? blocks - held : 0;
  MergeBuffers buffers;
  buffers.writer = writer;
  const std::size_t request_bytes = std::max(writer.request_bytes, block_bytes);
  buffers.writer.write_behind =
      std::max<std::size_t>(1, default_write_blocks(spare, disks) * block_bytes / request_bytes);
  const auto taken = [&] { return FileWriterBase::blocks_needed(buffers.writer, block_bytes); };
  while (taken() + least > blocks && buffers.writer.write_behind > 1) {
    --buffers.writer.write_behind;
  }
  if (taken() + least > blocks) buffers.writer.request_bytes = block_bytes;
  buffers.read_buffers = blocks > taken() ? blocks - taken() : 0;
  buffers.run_write_behind = blocks_behind(buffers.writer, block_bytes);
  return buffers;
}

std::uint64_t RecordPlan::largest_merge_order() const {
  const auto largest = [&](std::size_t spare) -> std::uint64_t {
    FileWriterOptions writing = writer;
    writing.write_behind = std::max<std::size_t>(spare, 1);
    writing.request_bytes = block_bytes;
    const std::size_t taken = FileWriterBase::blocks_needed(writing, block_bytes);
    const std::size_t blocks = merging_blocks();
    return blocks > taken ? reading().most_runs(blocks - taken, spare) : 0;
  };
  // Two blocks a disk to read ahead and two to write behind; with less, only if there is no other
  // way to merge at all.
  const std::uint64_t comfortable = largest(2 * std::size_t{disks});
  return comfortable >= 2 ? comfortable : largest(0);
}

// The next block of each run, and some of each disk; and who writes, or reads an array, at ease.
std::size_t RecordPlan::blocks_to_merge(std::uint64_t runs) const {
  constexpr std::size_t kOfPipeline = 6;
  const std::size_t two_a_disk = 2 * std::size_t{disks};
  const std::size_t ahead = std::max<std::size_t>(runs * window_blocks, 2 * two_a_disk);
  FileWriterOptions least = writer;
  least.write_behind = two_a_disk;
  least.request_bytes = block_bytes;
  const std::size_t of_one =
      reading().least_buffers(runs, ahead) +
      std::max({FileWriterBase::blocks_needed(writer, block_bytes),
                FileWriterBase::blocks_needed(least, block_bytes), window_blocks + kOfPipeline});
  return divides_merges(*this) ? std::max(of_one, blocks_for_parts(*this, runs)) : of_one;
}

std::uint64_t RecordPlan::bytes_to_keep() const {
  if (!input_bytes || merged_inputs != 0 || in_memory()) return 0;
  const std::size_t merging = blocks_to_merge(std::max<std::uint64_t>(expected_runs, 2) - 1);
  const std::uint64_t left = pool_blocks - std::min(pool_blocks, merging);
  return std::min(run_bytes, left * block_bytes);
}

// Two requests ahead and two behind, a block each.
FileReaderOptions RecordPlan::plain_reader() const {
  FileReaderOptions options = reader;
  options.comeback_blocks = window_blocks - 1;  // batches are of run formation
  options.read_ahead = 2;
  options.request_bytes = block_bytes;
  return options;
}

FileWriterOptions RecordPlan::plain_writer() const {
  FileWriterOptions options = writer;
  options.write_behind = 2;
  options.request_bytes = block_bytes;
  return options;
}

std::uint64_t RecordPlan::plain_merge_order() const {
  const std::size_t writing = FileWriterBase::blocks_needed(plain_writer(), block_bytes);
  if (pool_blocks <= writing) return 0;
  return (pool_blocks - writing) / FileReaderBase::blocks_needed(plain_reader(), block_bytes);
}

namespace {

bool merges_inputs(const RecordPlan& plan) {
  return plan.plain_merge_order() >= 2 && plan.largest_merge_order() >= 2;
}

// With the blocks that a sort would have, or smaller ones, of which more fit.
std::optional<RecordPlan> try_input_merge(SortPlanRequest request) {
  RecordPlan plan = plan_sort(request);
  if (merges_inputs(plan)) return plan;
  if (request.block_bytes != 0) return std::nullopt;
  request.block_bytes = plan.block_bytes / 2;
  for (; request.block_bytes >= std::max(kMinBlockBytes, request.record_bytes);
       request.block_bytes /= 2) {
    try {
      plan = plan_sort(request);
      if (merges_inputs(plan)) return plan;
    } catch (const Error&) {
      // Too small: more blocks on disk to remember than there is memory for.
      break;
    }
  }
  return std::nullopt;
}

}  // namespace

// Sorting a larger part again and again, by one thread, takes longer than to sort all of it by all
// of them, and to let pass what comes behind the last record that is wanted.
void RecordPlan::keep_few_in_memory() noexcept {
  constexpr std::uint64_t kShare = 2;
  const std::uint64_t forming = memory_for_buckets() + formation.scratch_bytes;
  const std::uint64_t needed = FirstRecords::memory_bytes(record_bytes, first_records);
  if (first_records == 0 || needed > forming / kShare) return;
  first_in_memory = true;
  runs = expected_runs = 0;
  passes = expected_passes = 0;
}

std::size_t RecordPlan::blocks_for_few() const noexcept {
  const std::uint64_t bytes = FirstRecords::memory_bytes(record_bytes, first_records);
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(detail::units_for(bytes, block_bytes), bucket_blocks));
}

RecordPlan plan_thriftily(const SortPlanRequest& request) {
  constexpr std::uint64_t kLittle = std::uint64_t{16} << 20;
  if (request.bytes && *request.bytes < request.memory_bytes / 8) {
    SortPlanRequest smaller = request;
    smaller.memory_bytes = std::min(request.memory_bytes, std::max(4 * *request.bytes, kLittle));
    try {
      const RecordPlan plan = plan_sort(smaller);
      if (plan.in_memory()) return plan;
    } catch (const Error&) {
      // Long records: the whole memory will do.
    }
  }
  return plan_sort(request);
}

namespace {

// So many parts of a merge of the inputs side by side, each with a reader of each input and a
// writer: none, if there is no memory for them, or they would be too short.
std::optional<RecordPlan> try_parts(RecordPlan plan, unsigned parts) {
  constexpr std::uint64_t kLeastBlocks = 8;  // or one of each input
  const std::uint64_t inputs = plan.merged_inputs;
  const std::size_t of_one = inputs * FileReaderBase::blocks_needed(plan.reader, plan.block_bytes) +
                             FileWriterBase::blocks_needed(plan.writer, plan.block_bytes) +
                             kBlocksForHead;
  const std::size_t beside =
      detail::units_for(parts * inputs * FileMerge::kBytesOfFile, plan.block_bytes);
  if (plan.pool_blocks < parts * of_one + beside) return std::nullopt;
  plan.merge_parts = parts;
  plan.pool_blocks -= beside;
  std::uint64_t records = *plan.input_bytes / plan.record_bytes;
  if (plan.first_records != 0) records = std::min(records, plan.first_records);
  const std::uint64_t least = std::max(kLeastBlocks, inputs) * plan.block_bytes;
  const bool fits = records * plan.record_bytes / parts >= least &&
                    plan.address_space_bytes() <= plan.request.address_space_bytes;
  return fits ? std::optional(plan) : std::nullopt;
}

// Several, as far as one disk is to be read at several places at once.
RecordPlan in_parts(const RecordPlan& plan) {
  const bool expensive = plan.request_cost_bytes >= kExpensiveRequest;
  const unsigned most = !plan.request.in_parts ? 1 : std::min(plan.threads, expensive ? 2U : ~0U);
  const unsigned parts = detail::threads_that_fit(
      most, [&](unsigned some) { return try_parts(plan, some).has_value(); });
  if (parts > 1) return *try_parts(plan, parts);
  RecordPlan whole = plan;
  whole.merge_parts = 1;
  return whole;
}

RecordPlan plan_of_input_merge(RecordPlan plan, std::uint64_t inputs) {
  plan.merged_inputs = inputs;
  plan.first_in_memory = false;
  plan.reader = plan.plain_reader();
  plan.writer = plan.plain_writer();
  plan.run_write_behind = plan.writer.write_behind;
  const std::uint64_t order = plan.plain_merge_order();
  plan.runs = detail::units_for(inputs, order);
  plan.merge_order =
      plan.runs > 1 ? smallest_merge_order(plan.runs, plan.largest_merge_order()) : 0;
  plan.passes = 1 + (plan.runs > 1 ? merge_passes(plan.runs, plan.merge_order) : 0);
  plan.expected_runs = plan.runs;
  plan.expected_passes = plan.passes;
  return plan.runs > 1 ? plan : in_parts(plan);
}

// What such a merge takes: to move its bytes in each pass, and to compare records, in all parts at
// once.
double cost_of_input_merge(const RecordPlan& plan) noexcept {
  return plan.passes * plan.cost_of_byte() + 1.0 / std::max(plan.merge_parts, 1U);
}

// Of smaller blocks there are more, for more inputs at a time and more threads, as far as that
// pays.
RecordPlan plan_with_smaller_blocks(RecordPlan best) {
  SortPlanRequest request = best.request;
  const auto least = std::max(kMinBlockBytes, request.record_bytes);
  for (request.block_bytes = best.block_bytes / 2; request.block_bytes >= least;
       request.block_bytes /= 2) {
    try {
      const RecordPlan plan = plan_sort(request);
      if (plan.cost_of_byte() > cost_of_input_merge(best)) break;
      if (!merges_inputs(plan)) continue;
      const RecordPlan merge = plan_of_input_merge(plan, best.merged_inputs);
      if (cost_of_input_merge(merge) < cost_of_input_merge(best)) best = merge;
    } catch (const Error&) {
      break;  // too small
    }
  }
  return best;
}

// None: the memory is too little, or `error` says what else is.
std::optional<RecordPlan> try_inputs(const SortPlanRequest& request, std::uint64_t inputs,
                                     std::optional<Error>& error) {
  try {
    const RecordPlan thrifty = plan_thriftily(request);
    const auto plan =
        thrifty.plain_merge_order() >= inputs ? std::optional(thrifty) : try_input_merge(request);
    if (!plan) return std::nullopt;
    const RecordPlan merge = plan_of_input_merge(*plan, inputs);
    return request.block_bytes != 0 ? merge : plan_with_smaller_blocks(merge);
  } catch (const Error& refusal) {
    error = refusal;
  }
  return std::nullopt;
}

}  // namespace

RecordPlan plan_input_merge(const SortPlanRequest& request, std::uint64_t inputs) {
  std::optional<Error> error;
  if (const auto plan = try_inputs(request, inputs, error)) return *plan;
  if (error && error->code().value() != ENOMEM) throw *error;
  // Sorting takes less than merging two inputs does.
  const std::uint64_t enough = least_memory(request.memory_bytes, [&](std::uint64_t bytes) -> bool {
    SortPlanRequest larger = request;
    larger.memory_bytes = bytes;
    std::optional<Error> ignored;
    return try_inputs(larger, inputs, ignored).has_value();
  });
  if (enough == 0 && error) throw *error;
  throw Error(
      ENOMEM,
      "merging with " + format_bytes(request.memory_bytes) + " of memory: no two inputs fit" +
          (enough == 0 ? std::string() : "; at least " + format_bytes(enough) + " are needed"));
}

}}  // namespace vortex::v0

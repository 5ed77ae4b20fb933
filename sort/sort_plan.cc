#include "sort/sort_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "io/file_sink.h"
#include "io/file_source.h"
#include "sort/merge_passes.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex {
namespace {

constexpr std::uint64_t kMostMemoryBytes = std::uint64_t{1} << 46;
constexpr std::size_t kLeastBuckets = 2;
constexpr std::size_t kLeastScratchBytes = std::size_t{64} << 10;
// What forecasting and the policies keep of each block on disk, besides keys: its place in the
// order of need, in the order of fetching and in its file.
constexpr std::uint64_t kBookkeepingBytes = 72;

// What moving a block costs besides the time for its bytes (faults, moves of the memory, requests),
// in bytes that could be read and written meanwhile. docs/decisions.md, "Blocks are as large as
// passes allow, and larger", has the measurement.
constexpr double kBytesLostPerBlock = 36 << 10;
// A pipe is taken to be so many times the memory; the blocks of what is longer are remembered
// besides, in a ten-thousandth of its bytes or so.
constexpr std::uint64_t kAssumedRuns = 32;

// How long the plan takes, in passes over the input with no loss. A pass that merges a few runs
// only counts as a whole one: how many runs there will be is not known so exactly.
double cost_of(const SortPlan& plan) {
  const unsigned passes =
      plan.request.bytes ? plan.passes : merge_passes(kAssumedRuns, plan.merge_order);
  return (1 + passes) * (1 + kBytesLostPerBlock / static_cast<double>(plan.block_bytes));
}

// Buckets are sorted by (leading bits, index) pairs of 16 bytes; they are seldom larger than twice
// the average, and larger ones are sorted in parts.
std::size_t scratch_for(std::uint64_t pool_bytes, unsigned buckets, std::size_t record_bytes) {
  const std::uint64_t records = pool_bytes / buckets / record_bytes + 1;
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(2 * records * 16, kLeastScratchBytes,
                                std::max<std::uint64_t>(pool_bytes / 8, kLeastScratchBytes)));
}

unsigned buckets_in(std::size_t blocks, const SortPlanRequest& request) {
  return static_cast<unsigned>(std::clamp<std::size_t>(
      blocks / 6, kLeastBuckets, std::max<std::size_t>(request.most_buckets, kLeastBuckets)));
}

// Divides the pool for run formation; false when it is too small.
bool divide_for_runs(SortPlan& plan) {
  const auto divide = [&](std::size_t request_bytes, std::size_t read_ahead,
                          std::size_t write_behind) {
    plan.request_bytes = request_bytes;
    plan.read_ahead = read_ahead;
    plan.write_behind = write_behind;
    const std::size_t streams =
        plan.reader_blocks() + plan.writer_blocks(write_behind, request_bytes);
    if (plan.pool_blocks <= streams) return false;
    plan.bucket_blocks = plan.pool_blocks - streams;
    plan.buckets = buckets_in(plan.bucket_blocks, plan.request);
    return plan.bucket_blocks >= plan.pool_blocks / 2 && plan.bucket_blocks >= 2 * plan.buckets;
  };
  // Generous queues first; a small pool does with less.
  const std::size_t grouped = std::max(plan.block_bytes, std::size_t{512} << 10);
  const std::size_t disks = plan.request.disks;
  return divide(grouped, 4, 2 * disks + 2) || divide(plan.block_bytes, 4, 2 * disks + 2) ||
         divide(plan.block_bytes, 2, 2) || divide(plan.block_bytes, 1, 1);
}

// Whether a bucket a little larger than the average is too large for the scratch, which is slow.
bool sorts_in_parts(const SortPlan& plan) {
  const std::uint64_t bucket_bytes = plan.run_bytes / plan.buckets * 5 / 4;
  return plan.scratch_bytes < bucket_bytes / plan.request.record_bytes * 16;
}

// A plan with this memory and block size, if there is one.
std::optional<SortPlan> try_block(const SortPlanRequest& request, std::uint64_t memory_bytes,
                                  std::size_t block_bytes) {
  SortPlan plan;
  plan.request = request;
  plan.block_bytes = block_bytes;
  plan.window_blocks = blocks_for_records(block_bytes, request.record_bytes);
  const std::uint64_t blocks_on_disk =
      request.bytes.value_or(kAssumedRuns * memory_bytes) / block_bytes + 1;
  plan.forecast_memory_bytes = blocks_on_disk * (kBookkeepingBytes + request.forecast_bytes);
  plan.scratch_bytes = scratch_for(memory_bytes, buckets_in(memory_bytes / block_bytes, request),
                                   request.record_bytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    // Sorted in memory, the input is never on disk and needs no forecasts.
    const std::uint64_t beside =
        plan.scratch_bytes + (attempt == 0 && request.bytes ? 0 : plan.forecast_memory_bytes);
    if (memory_bytes <= beside) return std::nullopt;
    plan.pool_blocks = static_cast<std::size_t>((memory_bytes - beside) / block_bytes);
    if (!divide_for_runs(plan)) return std::nullopt;
    // Each bucket may leave its last block all but empty.
    plan.run_bytes = std::uint64_t{plan.bucket_blocks - plan.buckets} * block_bytes;
    plan.run_bytes -= plan.run_bytes % request.record_bytes;
    if (plan.run_bytes == 0) return std::nullopt;
    if (!request.bytes) break;
    plan.runs = (*request.bytes + plan.run_bytes - 1) / plan.run_bytes;
    if (plan.runs <= 1) {
      plan.forecast_memory_bytes = 0;
      return plan;
    }
  }
  const std::uint64_t largest = plan.largest_merge_order();
  if (largest < 2) return std::nullopt;
  if (!request.bytes) {
    plan.merge_order = largest;
    return plan;
  }
  plan.passes = merge_passes(plan.runs, largest);
  plan.merge_order = std::min(plan.runs, largest);
  return plan;
}

std::optional<SortPlan> try_memory(const SortPlanRequest& request, std::uint64_t memory_bytes) {
  if (request.block_bytes != 0) return try_block(request, memory_bytes, request.block_bytes);
  const std::size_t least = std::max(kLeastBlockBytes, std::bit_ceil(request.record_bytes));
  std::optional<SortPlan> best;
  for (std::size_t block = least; block <= std::max(least, kDefaultBlockBytes); block *= 2) {
    const auto plan = try_block(request, memory_bytes, block);
    if (plan && (!best || std::pair(sorts_in_parts(*plan), cost_of(*plan)) <
                              std::pair(sorts_in_parts(*best), cost_of(*best)))) {
      best = plan;
    }
  }
  return best;
}

std::uint64_t least_memory(const SortPlanRequest& request, std::uint64_t too_little) {
  std::uint64_t low = too_little, high = std::max<std::uint64_t>(too_little, 1) * 2;
  while (!try_memory(request, high)) {
    if (high >= kMostMemoryBytes) return 0;
    low = high;
    high *= 2;
  }
  // Plans are made in steps of blocks; a hundredth is close enough and what is said does suffice.
  while (high - low > high / 128 + 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (try_memory(request, middle) ? high : low) = middle;
  }
  constexpr std::uint64_t kStep = std::uint64_t{64} << 10;
  const std::uint64_t rounded = (high + kStep - 1) / kStep * kStep;
  return try_memory(request, rounded) ? rounded : high;
}

}  // namespace

std::size_t SortPlan::reader_blocks() const {
  FileSourceOptions options;
  options.blocks_for_stream = window_blocks;
  options.read_ahead = read_ahead;
  options.request_bytes = request_bytes;
  return FileSource::blocks_needed(options, block_bytes);
}

std::size_t SortPlan::writer_blocks(std::size_t requests, std::size_t bytes_of_request) const {
  FileSinkOptions options;
  options.blocks_for_stream = window_blocks;
  options.write_behind = requests;
  options.request_bytes = bytes_of_request;
  return FileSink::blocks_needed(options, block_bytes);
}

MergeBuffers SortPlan::merge_buffers(std::uint64_t runs) const {
  const std::size_t held = static_cast<std::size_t>(runs) * window_blocks;
  PrefetchOptions options;
  options.disks = request.disks;
  options.held_blocks = held;
  const std::size_t least =
      minimum_read_buffers(request.prefetch, options, static_cast<std::uint32_t>(runs));
  const std::size_t spare = pool_blocks > held ? pool_blocks - held : 0;
  MergeBuffers buffers;
  buffers.request_bytes = request_bytes;
  buffers.write_behind =
      std::max<std::size_t>(1, default_write_blocks(spare, request.disks) * block_bytes /
                                   std::max(request_bytes, block_bytes));
  const auto writer = [&] { return writer_blocks(buffers.write_behind, buffers.request_bytes); };
  while (writer() + least > pool_blocks && buffers.write_behind > 1) --buffers.write_behind;
  if (writer() + least > pool_blocks) buffers.request_bytes = block_bytes;
  buffers.read_buffers = pool_blocks > writer() ? pool_blocks - writer() : 0;
  return buffers;
}

std::uint64_t SortPlan::largest_merge_order() const {
  const auto fits = [&](std::uint64_t runs, std::size_t spare) {
    PrefetchOptions options;
    options.disks = request.disks;
    options.held_blocks = static_cast<std::size_t>(runs) * window_blocks;
    const std::size_t least =
        minimum_read_buffers(request.prefetch, options, static_cast<std::uint32_t>(runs));
    const std::size_t reading = std::max(least, options.held_blocks + spare);
    return reading + writer_blocks(std::max<std::size_t>(spare, 1), block_bytes) <= pool_blocks;
  };
  const auto largest = [&](std::size_t spare) {
    std::uint64_t low = 0, high = pool_blocks + 1;  // fits(low), not fits(high)
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (fits(middle, spare) ? low : high) = middle;
    }
    return low;
  };
  // Two blocks a disk to read ahead and two to write behind; with less, only if there is no other
  // way to merge at all.
  const std::uint64_t comfortable = largest(2 * std::size_t{request.disks});
  return comfortable >= 2 ? comfortable : largest(0);
}

std::uint64_t SortPlan::address_space_bytes() const noexcept {
  constexpr std::uint64_t kOfUnknownLength = std::uint64_t{1} << 30;
  const std::uint64_t input_bytes = request.bytes.value_or(kOfUnknownLength);
  const std::uint64_t pool_bytes = std::uint64_t{pool_blocks} * block_bytes;
  const std::uint64_t forming =
      input_bytes + (buckets + 1) * (std::uint64_t{bucket_blocks} + 1) * block_bytes;
  const std::uint64_t merging = in_memory() ? 0 : 2 * request.bytes.value_or(0);
  return pool_bytes + scratch_bytes + std::max(forming, merging);
}

std::uint64_t SortPlan::plain_merge_order() const noexcept {
  const std::size_t writer = writer_blocks(2, block_bytes);
  if (pool_blocks <= writer) return 0;
  return (pool_blocks - writer) / (window_blocks + kPlainReadAhead);
}

SortPlan plan_sort(const SortPlanRequest& request) {
  if (request.record_bytes == 0 || request.disks == 0) {
    throw Error(EINVAL, "a sort needs records of at least one byte and at least one disk");
  }
  if (request.block_bytes != 0) {
    if (!std::has_single_bit(request.block_bytes) || request.block_bytes < kLeastBlockBytes ||
        request.block_bytes > kMostBlockBytes) {
      throw Error(EINVAL, "blocks of " + format_bytes(request.block_bytes) +
                              ": the size is a power of two from " +
                              format_bytes(kLeastBlockBytes) + " to " +
                              format_bytes(kMostBlockBytes));
    }
    if (request.block_bytes < request.record_bytes) {
      throw Error(EINVAL, "blocks of " + format_bytes(request.block_bytes) +
                              " hold no whole record of " + format_bytes(request.record_bytes));
    }
  }
  if (auto plan = try_memory(request, request.memory_bytes)) {
    if (plan->address_space_bytes() <= request.address_space_bytes ||
        plan->buckets == kLeastBuckets) {
      return *plan;
    }
    SortPlanRequest fewer = request;
    fewer.most_buckets = plan->buckets / 2;
    return plan_sort(fewer);
  }
  const std::uint64_t enough = least_memory(request, request.memory_bytes);
  throw Error(ENOMEM, "sorting " +
                          (request.bytes ? format_bytes(*request.bytes) : std::string("input")) +
                          " in records of " + format_bytes(request.record_bytes) + " with " +
                          format_bytes(request.memory_bytes) + " of memory" +
                          (enough != 0 ? ": at least " + format_bytes(enough) + " are needed"
                                       : std::string(": no memory is enough")));
}

std::string to_string(const SortPlan& plan) {
  const auto line = [](const char* name, const std::string& value) {
    std::string text = name;
    text.resize(16, ' ');
    return text + value + "\n";
  };
  std::string text =
      line("input", plan.request.bytes ? format_bytes(*plan.request.bytes) : "length not known") +
      line("records", format_bytes(plan.request.record_bytes)) +
      line("memory", format_bytes(plan.request.memory_bytes)) +
      line("blocks", std::to_string(plan.pool_blocks) + " of " + format_bytes(plan.block_bytes));
  if (plan.merged_inputs != 0) {
    text += line("merging", std::to_string(plan.merged_inputs) + " sorted inputs, at most " +
                                std::to_string(plan.plain_merge_order()) + " at a time") +
            line("passes", std::to_string(plan.passes));
    if (plan.runs <= 1) return text;
    return text + line("then", "the " + std::to_string(plan.runs) + " runs that they make, " +
                                   std::to_string(plan.merge_order) + " at a time");
  }
  text += line("run formation", std::to_string(plan.buckets) + " buckets on " +
                                    std::to_string(plan.bucket_blocks) + " blocks, " +
                                    format_bytes(plan.scratch_bytes) + " to sort them with") +
          line("run length", "at least " + format_bytes(plan.run_bytes));
  if (plan.in_memory()) return text + line("merging", "none: it fits in memory");
  if (plan.request.bytes) {
    std::string passes = std::to_string(plan.passes);
    if (plan.passes > 1) {
      const MergePass first = next_merge_pass(plan.runs, plan.merge_order, plan.merge_order);
      if (first.merged < plan.runs) {
        passes += ", the first of " + std::to_string(first.merged) + " runs only";
      }
    }
    text += line("runs", "at most " + std::to_string(plan.runs)) + line("passes", passes);
  }
  const MergeBuffers buffers = plan.merge_buffers(plan.merge_order);
  return text + line("merge order", std::to_string(plan.merge_order)) +
         line("merge buffers", std::to_string(buffers.read_buffers) + " blocks to read, " +
                                   std::to_string(buffers.write_behind) + " requests of " +
                                   format_bytes(buffers.request_bytes) + " to write") +
         line("prefetch", std::string(prefetch_kind_name(plan.request.prefetch)) + " on " +
                              std::to_string(plan.request.disks) +
                              (plan.request.disks == 1 ? " disk" : " disks"));
}

}  // namespace vortex

#include "lines/job/line_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lines/memory/record_piece.h"
#include "lines/runs/block_forecasts.h"
#include "lines/runs/line_run.h"
#include "lines/text/framed_input.h"
#include "lines/text/line_inputs.h"
#include "sort/job/sort_files.h"
#include "sort/merge/merge_passes.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/memory_limits.h"
#include "sort/runs/run_packing.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/reservation.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kMinMemoryBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxBlock = std::size_t{1} << 20;
constexpr std::size_t kSmallBlock = std::size_t{64} << 10;
// The memory of a run of short lines is this many times its text: half of the memory is filled
// while the other is written, and their index is larger than they are.
constexpr std::uint64_t kMemoryOfRun = 6;
// Blocks of a run in two merges side by side: the one in use, and the one that a record reaches
// into.
constexpr std::uint64_t kBlocksOfRun = 4;
constexpr std::uint64_t kOtherBlocks = 6;
// With more threads more merges go on side by side.
constexpr unsigned kMergesOfBlocks = 2;
constexpr std::size_t kReadAhead = 4;
// The shares of the memory for reading ahead and writing behind while runs are formed: with them
// the disk goes on while an arena is sorted, and while a run is waited for.
constexpr std::uint64_t kReadAheadShare = 8;
constexpr std::uint64_t kWriteBehindShare = 20;
// What threads take to find records side by side, and what is worth a thread.
constexpr std::uint64_t kTextsShare = 32;
constexpr std::size_t kLeastText = std::size_t{16} << 10;
constexpr std::size_t kMostText = std::size_t{256} << 10;
// A writer for each thread, for parts of the output of a sort in memory, where all of them take no
// more of it.
constexpr std::uint64_t kAllWritersShare = 32;
// The part of the memory that the forecasts of all runs take, and the bytes of each.
constexpr std::uint64_t kForecastShare = 32;
constexpr std::uint64_t kMostForecastShare = 8;
constexpr std::uint64_t kLeastForecastBytes = 16;
constexpr std::uint64_t kMostForecastBytes = 256;
// The table of a block in the pool, and what a reader or writer keeps of a request.
constexpr std::uint64_t kBytesBesideBlock = 1200;

// Address space of the heap, of small stacks, and of a reservation while it is made.
constexpr std::uint64_t kSpaceBeside = std::uint64_t{20} << 20;
// The bytes that runs have besides those of the lines are so small a part of them, keys not
// counted.
constexpr std::uint64_t kRunsLonger = 8;

// The memory that sort() takes beside an index of `index_bytes`.
std::uint64_t sorting_bytes(std::uint64_t index_bytes, unsigned threads) {
  constexpr std::uint64_t kOfThread = std::uint64_t{9} << 20;
  const std::uint64_t most = threads > 1 ? threads * kOfThread : kOfThread;
  return std::min(index_bytes / 8, most) + index_bytes / 100;
}

// How long forecasts may be. Returns the memory that they take, if there are as many blocks as are
// expected.
std::uint64_t plan_forecasts(LinePlan& plan, std::uint64_t memory,
                             std::optional<std::uint64_t> bytes) {
  const std::uint64_t blocks =
      bytes.value_or(kAssumedRuns * (memory / kMemoryOfRun)) / plan.block_bytes + 1;
  const std::uint64_t wanted = memory / kForecastShare / blocks;
  plan.forecast_bytes = static_cast<std::size_t>(std::clamp<std::uint64_t>(
      wanted - std::min<std::uint64_t>(wanted, BlockForecasts::kHeadBytes), kLeastForecastBytes,
      kMostForecastBytes));
  return std::min(
      blocks * (BlockForecasts::kHeadBytes + plan.forecast_bytes + StoredBlocks::kBytesOfBlock),
      memory / kMostForecastShare);
}

// Where requests cost a disk as much as many bytes, the block with which all passes take least of
// it: larger ones take fewer requests, and may take more passes.
std::size_t block_for_requests(std::size_t least, std::uint64_t memory, std::uint64_t runs,
                               std::uint64_t request_cost) {
  const auto cost = [&](std::size_t block) {
    const std::uint64_t blocks = memory / block;
    const std::uint64_t order = (blocks - std::min(blocks, kOtherBlocks)) / kBlocksOfRun;
    return (1.0 + merge_passes(runs, std::max<std::uint64_t>(order, 2))) *
           (1 + static_cast<double>(request_cost) / static_cast<double>(block));
  };
  std::size_t best = least;
  for (std::size_t block = 2 * least;
       block <= kMaxBlockBytes && block <= memory / (3 * kBlocksOfRun + kOtherBlocks); block *= 2) {
    if (cost(block) < cost(best)) best = block;
  }
  return best;
}

std::size_t suitable_block(std::uint64_t memory, std::optional<std::uint64_t> bytes,
                           std::uint64_t request_cost, unsigned threads) {
  const std::uint64_t run_bytes = memory / kMemoryOfRun;
  const std::uint64_t runs = bytes ? *bytes / run_bytes + 1 : kAssumedRuns;
  const std::uint64_t merges = std::max(threads, kMergesOfBlocks);
  const std::uint64_t wanted =
      memory / ((kBlocksOfRun * runs + 2 * kOtherBlocks) * merges / kMergesOfBlocks - kOtherBlocks);
  const std::size_t block =
      std::bit_floor(std::clamp<std::uint64_t>(wanted, kSmallBlock, kMaxBlock));
  // Three runs must fit, however small the memory; and the kernel limits the maps.
  const std::uint64_t largest = std::bit_floor(
      std::max<std::uint64_t>(memory / (3 * kBlocksOfRun + kOtherBlocks), kMinBlockBytes));
  std::size_t chosen = static_cast<std::size_t>(std::min<std::uint64_t>(block, largest));
  while (chosen < kMaxBlockBytes &&
         2 * BlockPool::maps_needed(memory / chosen) > MapBudget::available()) {
    chosen *= 2;
  }
  return request_cost < kExpensiveRequest || runs < 2
             ? chosen
             : block_for_requests(chosen, memory, runs, request_cost);
}

// Returns the memory that it takes to find the records of some texts at once.
std::uint64_t plan_texts(LinePlan& plan, std::uint64_t memory) {
  // About as much for a table as for a text, at least.
  constexpr std::uint64_t kTimesText = RecordPiece::kTimesText + 1;
  const std::uint64_t bytes = memory / kTextsShare;
  plan.texts_at_once =
      static_cast<unsigned>(std::min<std::uint64_t>(plan.threads, bytes / kTimesText / kLeastText));
  if (plan.texts_at_once < 2) plan.texts_at_once = 0;
  if (plan.texts_at_once == 0) return 0;
  const std::uint64_t each = bytes / plan.texts_at_once;
  const std::uint64_t text = std::min<std::uint64_t>(each / kTimesText, kMostText);
  const std::uint64_t table = std::bit_floor(
      std::min<std::uint64_t>(each - RecordPiece::kTimesText * text, RecentKeys::kMostBytes));
  plan.text_bytes = static_cast<std::size_t>(text);
  plan.table_bytes = static_cast<std::size_t>(table);
  return plan.texts_at_once * (RecordPiece::kTimesText * text + table);
}

// The arena gets what reading ahead of records and writing behind them leave. Returns the bytes of
// their blocks.
std::uint64_t plan_forming(LinePlan& plan, std::uint64_t memory, std::size_t read_ahead,
                           std::size_t write_behind) {
  const std::uint64_t texts = plan_texts(plan, memory);
  const auto held = static_cast<std::size_t>(
      detail::units_for(plan.texts_at_once * plan.text_bytes, plan.block_bytes) + 1);
  plan.reader = FramedInput::reading(read_ahead - std::min(read_ahead - 1, held - 1),
                                     plan.block_bytes, texts == 0 ? 1 : held);
  plan.run_write_behind = write_behind;
  std::uint64_t blocks =
      FileSource::blocks_needed(plan.reader, plan.block_bytes) + plan.writing_blocks();
  const std::uint64_t of_all_threads =
      plan.threads * FileWriterBase::blocks_needed(plan.writer, plan.block_bytes);
  if (of_all_threads <= memory / plan.block_bytes / kAllWritersShare) {
    blocks = std::max(blocks, of_all_threads);
  }
  plan.forming_blocks = blocks;
  const std::uint64_t arena =
      memory - std::min(memory, blocks * (plan.block_bytes + kBytesBesideBlock));
  plan.arena_bytes = static_cast<std::size_t>(
      arena - std::min(arena, texts + sorting_bytes(arena / 3, plan.threads)));
  return blocks * plan.block_bytes;
}

// No more than have one of the longest texts to begin with, where the length is known: to start
// others takes longer than they save. A plan whose texts are shorter has several for each.
unsigned threads_worth(unsigned threads, std::optional<std::uint64_t> bytes) {
  const unsigned wanted = detail::ThreadTeam::resolve(threads);
  const std::uint64_t texts = detail::units_for(bytes.value_or(~std::uint64_t{0}), kMostText);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(texts, 1, wanted));
}

// A plan with this memory, if there is one.
std::optional<LinePlan> try_lines(const SortResources& resources, std::uint64_t memory_bytes,
                                  std::optional<std::uint64_t> bytes) {
  if (memory_bytes < kMinMemoryBytes) return std::nullopt;
  LinePlan plan;
  plan.input_bytes = bytes;
  plan.memory_bytes = memory_bytes;
  plan.threads = threads_worth(resources.threads, bytes);
  std::uint64_t memory = plan.memory_bytes - program_bytes(plan.memory_bytes);
  plan.prefetch = resources.prefetch;
  plan.disks = static_cast<unsigned>(std::max<std::size_t>(resources.folders.size(), 1));
  plan.request_cost_bytes = resources.request_cost_bytes.value_or(0);
  plan.block_bytes = resources.block_bytes != 0
                         ? resources.block_bytes
                         : suitable_block(memory, bytes, plan.request_cost_bytes, plan.threads);
  // One writer, and a merge of each thread.
  const RunPacking::Plan packing =
      RunPacking::plan(resources.compression, plan.block_bytes, plan.threads + 1, memory);
  plan.compression = packing.compression;
  memory -= packing.bytes;
  memory -= plan_forecasts(plan, memory, bytes);
  plan.pool_blocks = static_cast<std::size_t>(memory / (plan.block_bytes + kBytesBesideBlock));
  // Memory for which even the largest blocks need more maps is left to the arenas.
  if (resources.block_bytes == 0) {
    plan.pool_blocks = std::min(plan.pool_blocks, MapBudget::available() / 4);
  }

  // Reading and writing get a quarter at most while runs are formed.
  for (std::size_t ahead = kReadAhead; ahead > 0; --ahead) {
    plan.writer = {.comeback_blocks = 0, .write_behind = ahead, .request_bytes = plan.block_bytes};
    if (plan_forming(plan, memory, ahead, ahead) <= memory / 4) break;
  }
  plan.merged_reader = FramedInput::reading(plan.writer.write_behind, plan.block_bytes);
  if (bytes && *bytes > plan.arena_bytes) {
    const std::uint64_t blocks = memory / plan.block_bytes;
    const auto read_ahead = static_cast<std::size_t>(blocks / kReadAheadShare);
    const auto write_behind = static_cast<std::size_t>(blocks / kWriteBehindShare);
    if (write_behind > kReadAhead) plan_forming(plan, memory, read_ahead, write_behind);
  }
  if (plan.most_runs(0) < 2 || plan.arena_bytes < memory / 4) return std::nullopt;
  const std::uint64_t half = plan.pool_blocks / 2 * plan.block_bytes;
  plan.longest_merged =
      half - std::min<std::uint64_t>(half, (plan.writing_blocks() + 4) * plan.block_bytes);
  // The whole arena holds such a record, and a key of half its length. A record that cannot be
  // merged is kept apart.
  plan.longest_record =
      std::min<std::uint64_t>(plan.arena_bytes / 2 + plan.arena_bytes / 8, plan.memory_bytes / 3);
  plan.merge_order = plan.most_runs(0);
  return plan;
}

// Without a look at what the process may take.
LinePlan plan_in_memory_of(const SortResources& resources, std::optional<std::uint64_t> bytes) {
  if (auto plan = try_lines(resources, resources.memory_bytes, bytes)) return *plan;
  if (resources.request_cost_bytes.value_or(0) != 0) {
    // Blocks that are good for the disk are too large.
    SortResources cheap = resources;
    cheap.request_cost_bytes = 0;
    return plan_in_memory_of(cheap, bytes);
  }
  const std::uint64_t enough =
      least_memory(resources.memory_bytes, [&](std::uint64_t memory_bytes) -> bool {
        return try_lines(resources, memory_bytes, bytes).has_value();
      });
  throw Error(ENOMEM, "sorting lines with " + format_bytes(resources.memory_bytes) + " of memory" +
                          (resources.block_bytes != 0
                               ? " and blocks of " + format_bytes(resources.block_bytes)
                               : std::string()) +
                          (enough != 0 ? ": at least " + format_bytes(enough) + " are needed"
                                       : std::string(": no memory is enough")) +
                          (resources.block_bytes != 0 ? ", or smaller blocks" : ""));
}

// What a process may still take.
struct ProcessSpace {
  std::uint64_t address_space = address_space_left();
  std::optional<std::uint64_t> data = private_memory_left();
  std::uint64_t stack_bytes = stack_bytes_of_thread();

  bool is_limited() const noexcept { return stack_bytes != 0; }
  bool holds(const LinePlan& plan, std::optional<std::uint64_t> bytes) const {
    const std::uint64_t stacks = (plan.threads + kOtherThreads) * stack_bytes;
    return plan.address_space_bytes(bytes) + stacks <= address_space &&
           (!data || plan.private_bytes() + stacks <= *data);
  }
  // All threads, if they take no more than a quarter.
  unsigned threads_at_most(unsigned wanted) const noexcept {
    const std::uint64_t least = std::min(address_space, data.value_or(address_space));
    return static_cast<unsigned>(std::clamp<std::uint64_t>(least / 4 / stack_bytes, 1, wanted));
  }
  [[noreturn]] void refuse(std::optional<std::uint64_t> bytes) const {
    std::string limit = address_space_advice();
    if (data && *data < address_space) {
      limit = "RLIMIT_DATA leaves " + format_bytes(*data) + ": raise it (ulimit -d)";
    }
    throw Error(ENOMEM, "sorting " + (bytes ? format_bytes(*bytes) + " of " : std::string()) +
                            "lines in the " + format_bytes(address_space) +
                            " of address space that are left; " + limit);
  }

  // One writes a run, one touches memory; the stacks of the disks' threads are small.
  static constexpr unsigned kOtherThreads = 2;
};

// With fewer threads first, and then with less memory; none if there is no room for the least. Room
// for an input of `counted` bytes is wanted.
std::optional<LinePlan> plan_within(const ProcessSpace& space, SortResources resources,
                                    std::optional<std::uint64_t> bytes,
                                    std::optional<std::uint64_t> counted) {
  for (resources.threads = space.threads_at_most(detail::ThreadTeam::resolve(resources.threads));;
       resources.threads = 1) {
    const LinePlan plan = plan_in_memory_of(resources, bytes);
    if (space.holds(plan, counted)) return plan;
    if (resources.threads == 1) break;
  }
  for (;;) {
    resources.memory_bytes -= resources.memory_bytes / 4;
    const auto plan = try_lines(resources, resources.memory_bytes, bytes);
    if (!plan || space.holds(*plan, counted)) return plan;
  }
}

}  // namespace

LinePlan plan_lines(const SortResources& resources, std::optional<std::uint64_t> bytes) {
  LinePlan plan = plan_in_memory_of(resources, bytes);
  const ProcessSpace space;
  if (!space.is_limited() || space.holds(plan, bytes)) return plan;
  for (const auto counted : {bytes, std::optional<std::uint64_t>(0)}) {
    if (auto fitting = plan_within(space, resources, bytes, counted)) return *fitting;
    // What is written in pieces does without the length. Whoever needs it says so when it asks.
  }
  space.refuse(bytes);
}

LinePlan plan_lines(const SortContext& context, std::optional<std::uint64_t> bytes) {
  SortResources resources = context.resources();
  resources.request_cost_bytes = context.request_cost(bytes);
  LinePlan plan = plan_lines(resources, bytes);
  plan.first_records = resources.first_records;
  return plan;
}

SortPlan plan_line_sort(const LineSortOptions& options) {
  const LineInputs inputs(options);
  const SortFiles files(options);
  const SortContext context(options.resources, files.folders());
  LinePlan plan = plan_lines(context, inputs.bytes());
  if (options.merge_inputs) {
    plan.expect_two_of(inputs.size());
    plan.tell_inputs(inputs.size());
  }
  return plan;
}

bool LinePlan::add_memory_for_merging(std::uint64_t bytes, std::uint64_t /*runs*/) {
  if (bytes > kMaxSortMemoryBytes - std::min(memory_bytes, kMaxSortMemoryBytes)) return false;
  LinePlan larger = *this;
  larger.memory_bytes += bytes;
  larger.pool_blocks += static_cast<std::size_t>(bytes / (block_bytes + kBytesBesideBlock));
  const ProcessSpace space;
  if (2 * BlockPool::maps_needed(larger.pool_blocks) > MapBudget::available() ||
      (space.is_limited() && !space.holds(larger, 0))) {
    return false;
  }
  larger.merge_order = larger.most_runs(0);
  *this = larger;
  return true;
}

// The pool, and streams of whole blocks, each with a guard behind it.
std::uint64_t LinePlan::address_space_bytes(std::optional<std::uint64_t> bytes) const {
  const auto stream = [&](std::uint64_t length) {
    return length + 2 * block_bytes + kReservationGuardBytes;
  };
  const std::uint64_t in_run = arena_bytes / 3;  // short lines with their index
  const std::uint64_t length = bytes.value_or(in_run);
  const std::uint64_t pool = stream(pool_blocks * block_bytes) + kSpaceBeside;
  const bool fits = length <= in_run;
  const std::uint64_t forming = arena_bytes + stream(length) + (fits ? 0 : stream(arena_bytes));
  if (fits) return pool + forming;
  const std::uint64_t runs = length / in_run + 1;
  const std::uint64_t merging = stream(length) + length + length / kRunsLonger +
                                std::min(runs, most_runs(0)) * std::max(threads, 1U) * stream(0);
  return pool + std::max(forming, merging);
}

std::uint64_t LinePlan::private_bytes() const noexcept {
  return kTimesPrivate * pool_blocks * block_bytes + arena_bytes + kSpaceBeside;
}

std::size_t LinePlan::writing_blocks() const {
  return std::max(FileWriterBase::blocks_needed(writer, block_bytes),
                  LineRunWriter::blocks_needed(run_write_behind));
}

// To write a run takes a quarter of the time of what is done with its records before.
unsigned LinePlan::run_parts(std::uint64_t bytes) const {
  constexpr std::uint64_t kThreadsOfPart = 4;
  constexpr std::uint64_t kLeastBlocks = 3;
  const std::uint64_t worth = bytes / least_bytes_of_run_part();
  const std::uint64_t most = std::min<std::uint64_t>((run_write_behind + 1) / kLeastBlocks, worth);
  return static_cast<unsigned>(
      std::max<std::uint64_t>(std::min<std::uint64_t>(threads / kThreadsOfPart, most), 1));
}

unsigned LinePlan::writers_at_once() const {
  const std::size_t of_one = FileWriterBase::blocks_needed(writer, block_bytes);
  return static_cast<unsigned>(
      std::clamp<std::size_t>(forming_blocks / of_one, 1, std::max(threads, 1U)));
}

}}  // namespace vortex::v0

#include "lines/line_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lines/block_packer.h"
#include "lines/framed_input.h"
#include "lines/line_run.h"
#include "lines/record_keys.h"
#include "vortex/block_pool.h"
#include "vortex/detail/thread_team.h"
#include "vortex/error.h"
#include "vortex/os/map_budget.h"

namespace vortex::inline v0 {
namespace {

constexpr std::uint64_t kMinMemoryBytes = std::uint64_t{1} << 20;
// The program's part of the memory, as in sorts of fixed records.
constexpr std::uint64_t kProgramBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kProgramShare = 32;
constexpr std::size_t kMaxBlock = std::size_t{1} << 20;
constexpr std::size_t kSmallBlock = std::size_t{64} << 10;
// So many times its text is the memory of a run of short lines: half of the memory is filled while
// the other is written, and their index is larger than they are.
constexpr std::uint64_t kMemoryOfRun = 6;
// A pipe is taken to be so many runs.
constexpr std::uint64_t kAssumedRuns = 32;
// Blocks of a run in a merge that is not to wait: the one in use, the one that a record reaches
// into, two read ahead.
constexpr std::uint64_t kBlocksOfRun = 4;
constexpr std::uint64_t kOtherBlocks = 6;
constexpr std::size_t kReadAhead = 4;
// Of the memory, for reading ahead and writing behind while runs are formed: a disk that has so
// much to do goes on while an arena is sorted, and while a run is waited for.
constexpr std::uint64_t kReadAheadShare = 8;
constexpr std::uint64_t kWriteBehindShare = 20;
// A writer for each thread, for parts of the output of a sort in memory, where all of them take no
// more of it.
constexpr std::uint64_t kAllWritersShare = 32;
// Where several merges share the memory.
constexpr std::size_t kLeastReadAhead = 2;
// The keys of short records of an input that is merged, and copies of the one before.
constexpr std::uint64_t kShortBytesOfInput = 12 * kLongRecord;
// Compressing runs takes so small a part of the memory at most, the second where it is demanded.
constexpr std::uint64_t kPackingShare = 16;
constexpr std::uint64_t kDemandedPackingShare = 4;
// The table of a block in the pool, and what a reader or writer keeps of a request.
constexpr std::uint64_t kBytesBesideBlock = 1200;

// The memory that sort() takes beside an index of so many bytes.
std::uint64_t sorting_bytes(std::uint64_t index_bytes, unsigned threads) {
  constexpr std::uint64_t kOfThread = std::uint64_t{9} << 20;
  const std::uint64_t most = threads > 1 ? threads * kOfThread : kOfThread;
  return std::min(index_bytes / 8, most) + index_bytes / 100;
}

std::size_t suitable_block(std::uint64_t memory, std::optional<std::uint64_t> bytes) {
  const std::uint64_t run_bytes = memory / kMemoryOfRun;
  const std::uint64_t runs = bytes ? *bytes / run_bytes + 1 : kAssumedRuns;
  const std::uint64_t wanted = memory / (kBlocksOfRun * runs + kOtherBlocks);
  const std::size_t block =
      std::bit_floor(std::clamp<std::uint64_t>(wanted, kSmallBlock, kMaxBlock));
  // Three runs must fit, however small the memory; and the kernel grants so many maps.
  const std::uint64_t largest = std::bit_floor(
      std::max<std::uint64_t>(memory / (3 * kBlocksOfRun + kOtherBlocks), kMinBlockBytes));
  std::size_t chosen = static_cast<std::size_t>(std::min<std::uint64_t>(block, largest));
  while (chosen < kMaxBlockBytes &&
         2 * BlockPool::maps_needed(memory / chosen) > MapBudget::available()) {
    chosen *= 2;
  }
  return chosen;
}

// The arena gets what reading ahead of records and writing behind them leave. Returns the bytes of
// their blocks.
std::uint64_t plan_forming(LinePlan& plan, std::uint64_t memory, std::size_t read_ahead,
                           std::size_t write_behind) {
  plan.reader = FramedInput::reader_options(read_ahead, plan.block_bytes);
  plan.run_write_behind = write_behind;
  std::uint64_t blocks =
      FileReaderBase::blocks_needed(plan.reader, plan.block_bytes) + plan.writing_blocks();
  const std::uint64_t of_all_threads =
      plan.threads * FileWriterBase::blocks_needed(plan.writer, plan.block_bytes);
  if (of_all_threads <= memory / plan.block_bytes / kAllWritersShare) {
    blocks = std::max(blocks, of_all_threads);
  }
  plan.forming_blocks = blocks;
  const std::uint64_t arena =
      memory - std::min(memory, blocks * (plan.block_bytes + kBytesBesideBlock));
  plan.arena_bytes =
      static_cast<std::size_t>(arena - std::min(arena, sorting_bytes(arena / 3, plan.threads)));
  return blocks * plan.block_bytes;
}

}  // namespace

LinePlan plan_lines(const SortResources& resources, std::optional<std::uint64_t> bytes) {
  LinePlan plan;
  plan.memory_bytes = resources.memory_bytes;
  if (plan.memory_bytes < kMinMemoryBytes) {
    throw Error(ENOMEM, "sorting lines with " + format_bytes(plan.memory_bytes) +
                            " of memory: at least " + format_bytes(kMinMemoryBytes) +
                            " are needed");
  }
  plan.threads = detail::ThreadTeam::resolve(resources.threads);
  std::uint64_t memory =
      plan.memory_bytes - std::min(plan.memory_bytes / kProgramShare, kProgramBytes);
  plan.block_bytes =
      resources.block_bytes != 0 ? resources.block_bytes : suitable_block(memory, bytes);
  // One writer, and a merge of each thread.
  const std::uint64_t packing = (plan.threads + 1) * BlockPacker::memory_bytes(plan.block_bytes);
  const bool demanded = resources.compression == RunCompression::kAlways;
  if (BlockPacker::available() &&
      packing <= memory / (demanded ? kDemandedPackingShare : kPackingShare)) {
    plan.compression = resources.compression;
    if (plan.compression != RunCompression::kNever) memory -= packing;
  }
  plan.pool_blocks = static_cast<std::size_t>(memory / (plan.block_bytes + kBytesBesideBlock));

  // Reading and writing get a quarter at most while runs are formed.
  for (std::size_t ahead = kReadAhead; ahead > 0; --ahead) {
    plan.writer = {.comeback_blocks = 0, .write_behind = ahead, .request_bytes = plan.block_bytes};
    if (plan_forming(plan, memory, ahead, ahead) <= memory / 4) break;
  }
  plan.merged_reader = plan.reader;
  if (bytes && *bytes > plan.arena_bytes) {
    const std::uint64_t blocks = memory / plan.block_bytes;
    const auto read_ahead = static_cast<std::size_t>(blocks / kReadAheadShare);
    const auto write_behind = static_cast<std::size_t>(blocks / kWriteBehindShare);
    if (write_behind > kReadAhead) plan_forming(plan, memory, read_ahead, write_behind);
  }
  if (plan.most_runs(0) < 2 || plan.arena_bytes < memory / 4) {
    throw Error(ENOMEM,
                "sorting lines with " + format_bytes(plan.memory_bytes) +
                    " of memory and blocks of " + format_bytes(plan.block_bytes) +
                    ": no two runs can be merged; at least " +
                    format_bytes((3 * kBlocksOfRun + kOtherBlocks) * plan.block_bytes * 9 / 8) +
                    " are needed, or smaller blocks");
  }
  // Two runs with such records can be merged, and an arena that is a half holds one.
  const std::uint64_t half = plan.pool_blocks / 2 * plan.block_bytes;
  plan.longest_record = std::min<std::uint64_t>(
      plan.arena_bytes / 2 - plan.arena_bytes / 16,
      half - std::min<std::uint64_t>(half, (plan.writing_blocks() + 4) * plan.block_bytes));
  return plan;
}

std::size_t LinePlan::writing_blocks() const {
  return std::max(FileWriterBase::blocks_needed(writer, block_bytes),
                  LineRunWriter::blocks_needed(run_write_behind));
}

unsigned LinePlan::writers_at_once() const {
  const std::size_t of_one = FileWriterBase::blocks_needed(writer, block_bytes);
  return static_cast<unsigned>(
      std::clamp<std::size_t>(forming_blocks / of_one, 1, std::max(threads, 1U)));
}

std::uint64_t LinePlan::most_runs(std::uint64_t longest) const {
  const std::size_t writing = writing_blocks();
  if (pool_blocks <= writing) return 0;
  return (pool_blocks - writing) / RunCursor::blocks_needed(longest, 1, block_bytes);
}

std::size_t LinePlan::read_ahead(std::uint64_t runs, std::uint64_t longest, unsigned merges) const {
  std::size_t ahead = kReadAhead;
  while (ahead > 1 && merges * (runs * RunCursor::blocks_needed(longest, ahead, block_bytes) +
                                writing_blocks()) >
                          pool_blocks) {
    --ahead;
  }
  return ahead;
}

unsigned LinePlan::merges_at_once(std::uint64_t runs, std::uint64_t longest) const {
  const std::uint64_t blocks =
      runs * RunCursor::blocks_needed(longest, kLeastReadAhead, block_bytes) + writing_blocks();
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(pool_blocks / blocks, 1, std::max(threads, 1u)));
}

// Half of the memory is for records that cross the borders of blocks, for keys, and for copies.
std::uint64_t LinePlan::most_inputs() const {
  const std::size_t writing = writing_blocks();
  if (pool_blocks / 2 <= writing) return 0;
  return (pool_blocks / 2 - writing) / FileReaderBase::blocks_needed(merged_reader, block_bytes);
}

std::uint64_t LinePlan::bytes_beside_inputs(std::uint64_t inputs) const {
  const std::uint64_t blocks =
      inputs * FileReaderBase::blocks_needed(merged_reader, block_bytes) + writing_blocks();
  const std::uint64_t left =
      (pool_blocks - std::min<std::uint64_t>(pool_blocks, blocks)) * block_bytes;
  return left - std::min(inputs * kShortBytesOfInput, left / 4 * 3);
}

}  // namespace vortex::inline v0

// How a sort of lines divides its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "io/stream/file_source.h"
#include "sort/job/sort_context.h"
#include "sort/merge/prefetch_policy.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// What a merge is to read, and what becomes of it.
struct LineMergeSize {
  // A branch of a MergeTree hands its records to the thread that writes the output.
  enum class Goal : std::uint8_t { kOutput, kRun, kBranch };

  std::uint64_t runs = 0;
  std::uint64_t longest = 0;  // of the records as they are stored, in bytes
  std::uint64_t blocks = 0;   // of all runs
  Goal goal = Goal::kOutput;
};

// How it reads that.
struct LinePrefetch {
  PrefetchKind kind = PrefetchKind::kOptimal;
  PrefetchOptions options;
};

// How an input that is merged with others is read, or what several of them take.
struct MergedInput {
  bool in_blocks = false;           // ahead; otherwise with plain calls
  std::size_t buffer_bytes = 0;     // of those
  std::uint64_t reading_bytes = 0;  // the memory of either
  std::uint64_t short_bytes = 0;    // for keys of short records, and copies of the one before
};

// While runs are formed, most of the memory is arenas and a few blocks of the pool are in use;
// while they are merged, all of it is blocks. So the pool is as large as the memory, and its blocks
// become resident when they are first taken.
struct LinePlan : SortPlan {
  std::size_t forming_blocks = 0;  // of the pool, in use at the same time beside arenas

  // Texts whose records are found side by side, and their bytes each; 0: one thread finds them.
  unsigned texts_at_once = 0;
  std::size_t text_bytes = 0;
  std::size_t table_bytes = 0;  // beside each, for keys that have come lately

  FileSourceOptions reader;         // of an input whose records become runs
  FileSourceOptions merged_reader;  // of one that is sorted already
  FileWriterOptions writer;         // of the output
  std::size_t forecast_bytes = 0;   // see ForecastWriter
  // Two runs with stored records of so many bytes can be merged, however many blocks all runs have;
  // with longer ones if most_runs() says so.
  std::uint64_t longest_merged = 0;

  // Runs that can be merged at a time, if the longest stored record has `longest` bytes: as many as
  // leave some blocks to read ahead. `blocks`: of the runs that there are. The merge takes no more
  // than one of `parts` equal parts of the memory.
  std::uint64_t most_runs(std::uint64_t longest, std::uint64_t blocks = 0,
                          unsigned parts = 1) const;
  // How each of `merges`, which share the memory, reads. A policy that needs more buffers
  // than there are gives way to the optimal one.
  LinePrefetch prefetch_of(const LineMergeSize& size, unsigned merges = 1) const;
  // How many merges of parts of all runs can go on side by side, each with a writer, and wait for
  // their runs no more than one would.
  unsigned merges_at_once(const LineMergeSize& size) const;
  // How many branches may merge all runs, whose records fit into rooms and have so much text,
  // beside the thread that writes; fewer than two: none.
  unsigned branches_at_once(const LineMergeSize& all, std::uint64_t text_bytes) const;
  // How many runs become one at a time, at most, on the way from all of them to `left`:
  // most_runs(), or fewer, that more threads have a part of each merge, where that takes no more
  // passes.
  std::uint64_t pass_order(const LineMergeSize& all, std::uint64_t left) const;
  // How many runs are to be left of all for the last merge, which can take `most` and has `parts`
  // at most: `most`, or fewer, that more threads have a part of it, where merging the others before
  // takes no more than half of what that saves.
  std::uint64_t runs_to_leave(const LineMergeSize& all, std::uint64_t most, unsigned parts) const;
  // A part of a merge, or of what is sorted in memory, that has less text is not worth a thread.
  std::uint64_t least_part_bytes() const noexcept { return 8 * std::uint64_t{block_bytes}; }
  // As most_runs(), for inputs that are sorted already, whose records are put together elsewhere,
  // and each of which is read in blocks.
  // The same, and the following, of each of `merges` of parts of all inputs, which share the
  // memory.
  std::uint64_t most_inputs(unsigned merges = 1) const;
  // One of `inputs` that are to be merged, more than most_inputs() as well; `bytes` is its length,
  // if that is known.
  MergedInput merged_input(std::uint64_t inputs, std::optional<std::uint64_t> bytes,
                           unsigned merges = 1) const;
  // What inputs that are not read in blocks may take together, whatever for.
  std::uint64_t bytes_for_inputs(unsigned merges = 1) const;
  // What a merge of them leaves to long records and their keys: half of the memory, or more.
  std::uint64_t bytes_beside_inputs(const MergedInput& together, unsigned merges = 1) const;
  // What inputs of these lengths take of that.
  MergedInput merged_together(std::span<const std::uint64_t> lengths, unsigned merges) const;
  // How many merges of parts of them can go on side by side, each with a writer.
  unsigned input_merges_at_once(std::span<const std::uint64_t> lengths) const;

  // Throws Error (ENOMEM) where no two of `inputs` that are to be merged fit.
  void expect_two_of(std::uint64_t inputs) const;
  // For people: `inputs` are merged.
  void tell_inputs(std::uint64_t inputs) {
    merged_inputs = inputs;
    inputs_in_blocks = most_inputs();
  }

  // Adds `bytes` to what the plan was made for, when runs have been formed and the pool is to be
  // made anew for merging them. Returns whether the process may take that; if not, nothing has
  // changed.
  bool add_memory_for_merging(std::uint64_t bytes, std::uint64_t runs);

  // What the sort of `bytes` takes of the address space in any phase, the stacks of threads
  // not counted, and of private memory.
  std::uint64_t address_space_bytes(std::optional<std::uint64_t> bytes) const;
  std::uint64_t private_bytes() const noexcept;

  std::size_t writing_blocks() const;  // of the output or a run
  // Parts of a run of `bytes` that are worth writing side by side, beside what goes on meanwhile;
  // and their blocks written behind, which together are those of a run.
  unsigned run_parts(std::uint64_t bytes) const;
  std::size_t write_behind_of_part(std::size_t parts) const noexcept {
    return (run_write_behind + 1) / parts - 1;
  }
  // The same of each of `merges`, which write parts of a run; and the least text of such a part, as
  // half a block of it is not used.
  std::size_t write_behind_of_merge(unsigned merges) const noexcept {
    return merges == 1 ? run_write_behind : writer.write_behind;
  }
  std::uint64_t least_bytes_of_run_part() const noexcept {
    return kBlocksOfRunPart * std::uint64_t{block_bytes};
  }
  // Writers of parts of the output that there is memory for while an arena is full.
  unsigned writers_at_once() const;

 private:
  static constexpr std::uint64_t kBlocksOfRunPart = 16;

  std::size_t blocks_to_write(const LineMergeSize& size, unsigned merges) const;
  std::uint64_t bytes_of_packers(const LineMergeSize& size, unsigned merges) const;
  std::size_t reading_blocks(const LineMergeSize& size, unsigned merges) const;
  std::uint64_t blocks_of_all(const LineMergeSize& size, unsigned merges) const;
  std::uint64_t runs_at_ease(const LineMergeSize& size, unsigned merges) const;
  std::uint64_t runs_at_ease_later(LineMergeSize size, unsigned merges) const;
  std::size_t blocks_for_inputs(unsigned merges) const;
};

// The resources name their memory, and what a request costs a disk unless that counts for nothing;
// `bytes` is the length of the input, if it is known. Takes less
// memory, and fewer threads, where the limits of the process leave no room for them. Throws
// Error(ENOMEM) when the memory is too small, with the least that would do, or when a limit is.
LinePlan plan_lines(const SortResources& resources, std::optional<std::uint64_t> bytes);
// The same with the resources of a sort, whose disks may be measured.
LinePlan plan_lines(const SortContext& context, std::optional<std::uint64_t> bytes);

}}  // namespace vortex::v0

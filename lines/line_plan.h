// How a sort of lines divides its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

// While runs are formed, most of the memory is arenas and a few blocks of the pool are in use;
// while they are merged, all of it is blocks. So the pool is as large as the memory, and its blocks
// become resident when they are first taken.
struct LinePlan {
  std::uint64_t memory_bytes = 0;  // all of it
  unsigned threads = 1;
  std::size_t block_bytes = 0;
  std::size_t pool_blocks = 0;       // those that are in use at the same time, at most
  std::size_t forming_blocks = 0;    // the same beside arenas
  std::size_t arena_bytes = 0;       // for records and their index
  std::uint64_t longest_record = 0;  // as it is stored

  FileReaderOptions reader;         // of an input whose records become runs
  FileReaderOptions merged_reader;  // of one that is sorted already
  FileWriterOptions writer;         // of the output
  std::size_t run_write_behind = 0;
  RunCompression compression = RunCompression::kNever;  // there is memory for it

  // Runs that can be merged at a time, if the longest stored record has so many bytes; and how many
  // blocks are then read ahead of each of `runs`, by each of `merges`.
  std::uint64_t most_runs(std::uint64_t longest) const;
  std::size_t read_ahead(std::uint64_t runs, std::uint64_t longest, unsigned merges = 1) const;
  // How many merges of parts of all runs can go on side by side, each with a writer, and wait for
  // their runs no more than one would.
  unsigned merges_at_once(std::uint64_t runs, std::uint64_t longest) const;
  // The same for inputs that are sorted already, whose records are put together elsewhere.
  std::uint64_t most_inputs() const;
  // What a merge of so many leaves to long records and their keys: half of the memory, or more.
  std::uint64_t bytes_beside_inputs(std::uint64_t inputs) const;

  std::size_t writing_blocks() const;  // of the output or a run
  // Writers of parts of the output that there is memory for while an arena is full.
  unsigned writers_at_once() const;
};

// The resources name their memory; `bytes` is the length of the input, if it is known. Throws
// Error(ENOMEM) when the memory is too small, with the least that would do.
LinePlan plan_lines(const SortResources& resources, std::optional<std::uint64_t> bytes);

}  // namespace vortex::inline v0

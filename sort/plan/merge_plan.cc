// How many runs, or sorted inputs, the memory of a plan can merge at a time.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_kind.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/record_plan.h"

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

MergeBuffers RecordPlan::merge_buffers(std::uint64_t runs) const {
  const std::size_t held = reading().options(runs).held_blocks;
  const std::size_t least = reading().least_buffers(runs);
  const std::size_t spare = pool_blocks > held ? pool_blocks - held : 0;
  MergeBuffers buffers;
  buffers.writer = writer;
  const std::size_t request_bytes = std::max(writer.request_bytes, block_bytes);
  buffers.writer.write_behind =
      std::max<std::size_t>(1, default_write_blocks(spare, disks) * block_bytes / request_bytes);
  const auto taken = [&] { return FileWriterBase::blocks_needed(buffers.writer, block_bytes); };
  while (taken() + least > pool_blocks && buffers.writer.write_behind > 1) {
    --buffers.writer.write_behind;
  }
  if (taken() + least > pool_blocks) buffers.writer.request_bytes = block_bytes;
  buffers.read_buffers = pool_blocks > taken() ? pool_blocks - taken() : 0;
  buffers.run_write_behind = blocks_behind(buffers.writer, block_bytes);
  return buffers;
}

std::uint64_t RecordPlan::largest_merge_order() const {
  const auto largest = [&](std::size_t spare) -> std::uint64_t {
    FileWriterOptions writing = writer;
    writing.write_behind = std::max<std::size_t>(spare, 1);
    writing.request_bytes = block_bytes;
    const std::size_t taken = FileWriterBase::blocks_needed(writing, block_bytes);
    return pool_blocks > taken ? reading().most_runs(pool_blocks - taken, spare) : 0;
  };
  // Two blocks a disk to read ahead and two to write behind; with less, only if there is no other
  // way to merge at all.
  const std::uint64_t comfortable = largest(2 * std::size_t{disks});
  return comfortable >= 2 ? comfortable : largest(0);
}

// Two requests ahead and two behind, a block each.
FileReaderOptions RecordPlan::plain_reader() const {
  FileReaderOptions options = reader;
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

}}  // namespace vortex::v0

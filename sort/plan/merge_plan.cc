// How many runs, or sorted inputs, the memory of a plan can merge at a time.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_kind.h"
#include "sort/plan/least_memory.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

MergeBuffers SortPlan::merge_buffers(std::uint64_t runs) const {
  const std::size_t held = static_cast<std::size_t>(runs) * window_blocks;
  PrefetchOptions options;
  options.disks = request.disks;
  options.held_blocks = held;
  const std::size_t least =
      minimum_read_buffers(request.prefetch, options, static_cast<std::uint32_t>(runs));
  const std::size_t spare = pool_blocks > held ? pool_blocks - held : 0;
  MergeBuffers buffers;
  buffers.writer = writer;
  const std::size_t request_bytes = std::max(writer.request_bytes, block_bytes);
  buffers.writer.write_behind = std::max<std::size_t>(
      1, default_write_blocks(spare, request.disks) * block_bytes / request_bytes);
  const auto taken = [&] { return FileWriterBase::blocks_needed(buffers.writer, block_bytes); };
  while (taken() + least > pool_blocks && buffers.writer.write_behind > 1) {
    --buffers.writer.write_behind;
  }
  if (taken() + least > pool_blocks) buffers.writer.request_bytes = block_bytes;
  buffers.read_buffers = pool_blocks > taken() ? pool_blocks - taken() : 0;
  buffers.run_write_behind = blocks_behind(buffers.writer, block_bytes);
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
    FileWriterOptions writing = writer;
    writing.write_behind = std::max<std::size_t>(spare, 1);
    writing.request_bytes = block_bytes;
    return reading + FileWriterBase::blocks_needed(writing, block_bytes) <= pool_blocks;
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

// Two requests ahead and two behind, a block each.
FileReaderOptions SortPlan::plain_reader() const {
  FileReaderOptions options = reader;
  options.read_ahead = 2;
  options.request_bytes = block_bytes;
  return options;
}

FileWriterOptions SortPlan::plain_writer() const {
  FileWriterOptions options = writer;
  options.write_behind = 2;
  options.request_bytes = block_bytes;
  return options;
}

std::uint64_t SortPlan::plain_merge_order() const {
  const std::size_t writing = FileWriterBase::blocks_needed(plain_writer(), block_bytes);
  if (pool_blocks <= writing) return 0;
  return (pool_blocks - writing) / FileReaderBase::blocks_needed(plain_reader(), block_bytes);
}

}}  // namespace vortex::v0

// A file as a stream, whichever way it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "io/sequence/file_layout.h"
#include "vortex/block_pool.h"
#include "vortex/file_reader.h"
#include "vortex/stream.h"

namespace vortex { inline namespace v0 {

// The stream of a reader, as FileReaderBase uses it.
class FileStream {
 public:
  virtual ~FileStream() = default;

  virtual Stream& stream() noexcept = 0;
  virtual const std::byte* bytes() const noexcept = 0;
  virtual std::optional<std::uint64_t> length_bytes() const noexcept = 0;
  virtual void prefault(std::uint64_t offset, std::size_t bytes) = 0;
  virtual void will_need(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
  virtual const std::byte* home_of(const void* at) noexcept = 0;
  virtual const FileLayout& layout() const noexcept = 0;
  virtual FileSourceStatistics read_statistics() const noexcept = 0;
  virtual AnyOrderStatistics order_statistics() const noexcept { return {}; }
  virtual bool in_any_order() const noexcept { return false; }
};

// In the order that the options ask for, as far as the layout allows. The two belong together:
// whether the file can be read in any order, with these options, and the blocks that it takes:
// where its length is known, never more than it has.
bool reads_in_any_order(const FileReaderOptions& options, const FileLayout& layout) noexcept;
std::size_t file_stream_blocks(const FileReaderOptions& options, bool any_order,
                               std::size_t block_bytes, std::size_t unit_bytes = 0,
                               std::optional<std::uint64_t> length = {});

// Throws Error: ENOMEM when the pool cannot guarantee the blocks or the system refuses address
// space, EINVAL when the block size does not suit direct I/O on the file.
std::unique_ptr<FileStream> make_file_stream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                                             const FileReaderOptions& options, bool register_pool);

}}  // namespace vortex::v0

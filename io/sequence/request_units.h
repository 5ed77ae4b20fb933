// A sequence cut into the units of requests: what whoever reads or writes one in blocks begins
// with.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "io/sequence/file_layout.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A layout, and how many blocks of a pool one request moves: small blocks are grouped.
class VORTEX_EXPORT RequestUnits {
 public:
  struct Options {
    std::size_t request_bytes = 0;  // 0: a block, or several small ones
    Caching caching = Caching::kAuto;
    // Tell the disks about the pool's memory, see Disk::register_memory(): only for a pool of which
    // no block has been taken yet, or one of aliases.
    bool register_pool = false;
  };
  enum class Use { kReading, kWriting, kChanging };

  // Blocks of a unit: for requests of about `request_bytes` (0: at least 512 KiB), and of
  // `unit_bytes` exactly when not 0. Throws Error(EINVAL) when blocks of that size cannot do that.
  static std::size_t group(std::size_t block_bytes, std::size_t request_bytes,
                           std::size_t unit_bytes);

  // Throws Error(EINVAL), too, when the block size does not suit direct I/O on the file.
  RequestUnits(BlockPool& pool, std::unique_ptr<FileLayout> layout, const Options& options,
               Use use);
  // The requests must have ended.
  ~RequestUnits();

  BlockPool& pool() const noexcept { return pool_; }
  FileLayout& layout() const noexcept { return *layout_; }
  Caching caching() const noexcept { return caching_; }
  std::size_t group() const noexcept { return group_; }
  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::size_t bytes() const noexcept { return group_ * block_bytes_; }

  // `blocks` blocks of the pool, for good. Throws Error(ENOMEM) that names the layout.
  BlockQuota quota(std::size_t blocks) const;

  // Ends requests that wait for the other side of a pipe or socket, and waiting, now and later. Any
  // thread.
  void cancel() noexcept;
  const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }

 private:
  BlockPool& pool_;
  const std::unique_ptr<FileLayout> layout_;
  const std::size_t block_bytes_;
  const std::size_t group_;
  const Caching caching_;
  const bool registered_;
  const Use use_;
  std::atomic<bool> cancelled_{false};
};

}}  // namespace vortex::v0

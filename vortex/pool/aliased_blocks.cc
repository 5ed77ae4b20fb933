#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "vortex/error.h"
#include "vortex/os/descriptor.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

// When a page of a file is read for the first time in a map, the kernel maps those around it that
// are there, within a range of this size. On a write it maps that page alone.
constexpr std::size_t kFaultAroundBytes = std::size_t{64} << 10;

std::string why_refused(int error, std::size_t bytes) {
  switch (error) {
    case EFBIG:
      return "the memory that threads share counts as a file, and RLIMIT_FSIZE (ulimit -f) is "
             "below " +
             format_bytes(bytes) + "; raise it or use a pool that moves blocks (PoolKind::kMoves)";
    case EMFILE:
    case ENFILE:
      return "no descriptor is left for the memory (RLIMIT_NOFILE, fs.file-max); raise the limit";
    case ENOMEM:
      return "the system refuses the memory (RLIMIT_AS or vm.overcommit_memory=2); use a smaller "
             "pool or raise the limit";
    default:
      return "the system has no memory that can be mapped twice (memfd_create, and mremap with an "
             "old size of 0); use a pool that moves blocks (PoolKind::kMoves)";
  }
}

// Others may write there as soon as it is mapped: the kernel orders that, and a race detector does
// not see it.
[[gnu::no_sanitize_thread]] void read_around(const std::byte* begin, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kFaultAroundBytes) {
    (void)*static_cast<const volatile std::byte*>(begin + at);
  }
}

[[noreturn]] void refuse(const BlockMemoryOptions& options, int error) {
  throw Error(error, options.who + ": " + why_refused(error, options.pool_bytes));
}

os::Descriptor shared_memory(const BlockMemoryOptions& options) {
  int error = 0;
  os::Descriptor made(os::make_shared_memory("vortex-pool", options.pool_bytes, &error));
  if (!made) refuse(options, error);
  return made;
}

class AliasedBlocks final : public BlockMemory {
 public:
  explicit AliasedBlocks(const BlockMemoryOptions& options)
      : BlockMemory(options),
        memory_(shared_memory(options)),
        readable_homes_({.bytes = options.pool_bytes}),
        huge_bytes_(options.huge_bytes),
        in_huge_pages_(options.huge_bytes == options.pool_bytes &&
                       options.block_bytes % kHugePageBytes == 0) {
    map_homes(options, homes(), true);
    map_homes(options, readable_homes_.begin(), false);
    try_alias(options);
  }

  int populate(std::byte* begin, std::size_t bytes) noexcept override {
    const auto offset = static_cast<std::size_t>(begin - homes());
    if (offset + bytes <= huge_bytes_ && huge_possible_.load(std::memory_order_relaxed)) {
      collapse(begin, offset, bytes);
    }
    // Memory that did not come in huge pages comes in single ones.
    return os::populate_shared(memory_.get(), begin, offset, bytes);
  }

  bool aliases() const noexcept override { return true; }

  // What the maps have in common, not the pages of one of them.
  void discard(std::byte* home, std::size_t bytes) noexcept override {
    os::advise(home, bytes, MADV_REMOVE);
  }

  Placed place(std::byte* home, std::byte* from, std::byte* to) noexcept override {
    if (to != home) {
      if (const int error = map_also(home, to, block_bytes_, true)) return {error};
    }
    if (from == home) return {};
    const int error = os::vacate(from, block_bytes_);
    if (error != 0 && to != home && os::vacate(to, block_bytes_) != 0) {
      os::forbid_access(to, block_bytes_);
    }
    return {error};
  }

  Placed place_to_read(std::byte* home, std::byte* to) noexcept override {
    return {map_also(home, to, block_bytes_, false)};
  }

  int map_also(const std::byte* home, std::byte* address, std::size_t bytes,
               bool writable) noexcept override {
    const std::byte* const from = writable ? home : readable_homes_.begin() + (home - homes());
    if (const int error = os::alias_pages(from, address, bytes)) {
      os::reserve_hole(address, bytes);
      return error;
    }
    // A writer would meet a fault of the kernel's on each single page.
    if (writable && !in_huge_pages_.load(std::memory_order_relaxed)) {
      read_around(address, bytes);
    }
    return 0;
  }

 private:
  void map_homes(const BlockMemoryOptions& options, std::byte* begin, bool writable) {
    const int error = os::map_shared(memory_.get(), begin, options.pool_bytes, writable);
    if (error != 0) refuse(options, error);
    // Every alias inherits these. A child that had the blocks would write into its parent's.
    os::advise(begin, options.pool_bytes, MADV_DONTFORK);
    if (!options.in_core_dumps) os::advise(begin, options.pool_bytes, MADV_DONTDUMP);
  }

  // Some systems answer for Linux without being it.
  void try_alias(const BlockMemoryOptions& options) {
    const Reservation space({.bytes = os::page_bytes()});
    const int error = os::alias_pages(homes(), space.begin(), os::page_bytes());
    if (error != 0) refuse(options, error);
  }

  // The kernel fills a huge page up with zeros, provided that one page of it is there.
  void collapse(std::byte* begin, std::size_t offset, std::size_t bytes) noexcept {
    int error = 0;
    for (std::size_t at = 0; at < bytes && error == 0; at += kHugePageBytes) {
      error = os::populate_shared(memory_.get(), begin + at, offset + at, os::page_bytes());
      if (error == 0) error = os::collapse(begin + at, kHugePageBytes);
    }
    if (error == 0) return;
    in_huge_pages_.store(false, std::memory_order_relaxed);
    // Not a shortage of the moment: this kernel does not, or is not allowed to.
    if (error == EINVAL) huge_possible_.store(false, std::memory_order_relaxed);
  }

  const os::Descriptor memory_;
  Reservation readable_homes_;  // whence aliases for readers come, which inherit their rights
  const std::size_t huge_bytes_;
  std::atomic<bool> huge_possible_{true};
  std::atomic<bool> in_huge_pages_;  // every block wholly; false when one was refused
};

}  // namespace

std::unique_ptr<BlockMemory> make_aliased_blocks(const BlockMemoryOptions& options) {
  return std::make_unique<AliasedBlocks>(options);
}

}}  // namespace vortex::v0

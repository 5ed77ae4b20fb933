#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

// DONTUNMAP is what keeps a moved block's old address ours; without it no stream is safe. Tried on
// a page of its own: one that was moved out of a block keeps huge pages away from it for good.
void require_safe_moves(const std::string& pool_name) {
  const std::size_t page = os::page_bytes();
  int error = 0;
  std::byte* const both = os::map_memory(nullptr, 2 * page, &error);
  if (both == nullptr)
    throw Error(error, "pool '" + pool_name + "': cannot map a page to try mremap with");
  error = os::move_pages(both, both + page, page);
  os::unmap(both, 2 * page);
  if (error == 0) return;
  if (error == EINVAL || error == ENOSYS) {
    throw Error(error, "pool '" + pool_name +
                           "': this kernel cannot move memory without leaving a hole "
                           "(mremap with MREMAP_DONTUNMAP); Linux 5.7 or newer is needed, or a "
                           "pool of aliases");
  }
  throw Error(error, "pool '" + pool_name + "': mremap was refused");
}

class MovedBlocks final : public BlockMemory {
 public:
  explicit MovedBlocks(const BlockMemoryOptions& options)
      : BlockMemory(options),
        small_blocks_(options.block_bytes % kHugePageBytes != 0),
        checked_homes_(options.checked_homes) {
    map_private_homes(options);
    require_safe_moves(options.name);
  }

  int populate(std::byte* begin, std::size_t bytes) noexcept override {
    const int error = os::populate(begin, bytes);
    // The kernel is not to put the pages of moved blocks together again.
    if (error == 0 && small_blocks_ && bytes > block_bytes_) {
      os::advise(begin, bytes, MADV_NOHUGEPAGE);
    }
    return error;
  }

  Placed place(std::byte* home, std::byte* from, std::byte* to) noexcept override {
    int error = os::move_pages(from, to, block_bytes_);
    if (error != 0) {
      os::reserve_hole(to, block_bytes_);
      return {error};
    }
    // The kernel left `from` mapped without pages. A home may stay like that: the block comes back
    // to it.
    if (from == home && !checked_homes_) return {};
    error = os::vacate(from, block_bytes_);
    if (error == 0) return {};
    if (os::move_pages(to, from, block_bytes_) != 0) {
      os::forbid_access(from, block_bytes_);  // where it was there are zeros now
      return {error, true};
    }
    // Other threads must not read zeros where the block was for a moment. No map is split.
    if (os::vacate(to, block_bytes_) != 0) os::forbid_access(to, block_bytes_);
    return {error};
  }

  Placed place_to_read(std::byte* home, std::byte* to) noexcept override {
    if (const int error = os::protect(home, block_bytes_, PROT_READ)) return {error};
    // The pages take their protection along.
    if (const int error = os::move_pages(home, to, block_bytes_)) {
      os::reserve_hole(to, block_bytes_);
      return {error, os::allow_access(home, block_bytes_) != 0};
    }
    // A home like its neighbours is one map with them. The block brings its own rights back.
    if (checked_homes_) {
      os::vacate(home, block_bytes_);
    } else {
      os::allow_access(home, block_bytes_);
    }
    return {};
  }

  Placed take_from_readers(std::byte* home, std::byte* from, Rights /*had*/) noexcept override {
    if (const int error = os::forbid_access(from, block_bytes_)) return {error};
    // The pages take their protection along.
    if (const int error = os::move_pages(from, home, block_bytes_)) {
      os::reserve_hole(home, block_bytes_);
      return {error, os::allow_access(from, block_bytes_) != 0};
    }
    if (const int error = os::allow_access(home, block_bytes_)) return {error, true};
    // The mapping left there has no pages and allows no access: it serves as a reservation as well.
    os::vacate(from, block_bytes_);
    return {};
  }

 private:
  const bool small_blocks_;  // a huge page holds several
  const bool checked_homes_;
};

}  // namespace

void BlockMemory::map_private_homes(const BlockMemoryOptions& options) {
  int error = 0;
  if (os::map_memory(homes(), options.pool_bytes, &error) == nullptr) {
    throw Error(error, options.who +
                           ": the system refuses the memory (RLIMIT_AS, RLIMIT_DATA or "
                           "vm.overcommit_memory=2); use a smaller pool or raise the limit");
  }
  // The flags move along with the blocks. A child that shared the blocks would turn every later
  // write into a copy and could receive what a disk writes into them; userfaultfd could not move
  // them at all.
  os::advise(homes(), options.pool_bytes, MADV_DONTFORK);
  if (!options.in_core_dumps) os::advise(homes(), options.pool_bytes, MADV_DONTDUMP);
  os::advise(homes(), options.pool_bytes, MADV_NOHUGEPAGE);
  // Until they are populated, by whom it may be: registering memory with a disk does it, too.
  if (options.huge_bytes > 0) os::advise(homes(), options.huge_bytes, MADV_HUGEPAGE);
}

void BlockMemory::discard(std::byte* home, std::size_t bytes) noexcept { os::discard(home, bytes); }

int BlockMemory::map_also(const std::byte*, std::byte*, std::size_t, bool) noexcept {
  return ENOTSUP;
}

int BlockMemory::set_rights_of_row(std::byte* at, std::size_t blocks, Rights rights) noexcept {
  constexpr int kAll = PROT_READ | PROT_WRITE;
  return os::protect(at, blocks * block_bytes_,
                     rights == Rights::kNone   ? PROT_NONE
                     : rights == Rights::kRead ? PROT_READ
                                               : kAll);
}

std::unique_ptr<BlockMemory> make_moved_blocks(const BlockMemoryOptions& options) {
  return std::make_unique<MovedBlocks>(options);
}

}}  // namespace vortex::v0

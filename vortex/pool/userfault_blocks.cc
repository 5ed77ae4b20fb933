#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex::inline v0 {
namespace {

class UserfaultBlocks final : public BlockMemory {
 public:
  UserfaultBlocks(const BlockMemoryOptions& options, std::shared_ptr<os::Userfaultfd> userfaultfd)
      : BlockMemory(options.pool_bytes),
        userfaultfd_(std::move(userfaultfd)),
        block_bytes_(options.block_bytes),
        absent_(new bool[options.pool_bytes / options.block_bytes]()) {
    int error = 0;
    if (os::map_memory(homes(), options.pool_bytes, &error) == nullptr) {
      throw Error(error, options.who +
                             ": the system refuses the memory (RLIMIT_AS, RLIMIT_DATA or "
                             "vm.overcommit_memory=2); use a smaller pool or raise the limit");
    }
    // As for moved blocks; a page that a child shares could not be moved either.
    os::advise(homes(), options.pool_bytes, MADV_DONTFORK);
    if (!options.in_core_dumps) os::advise(homes(), options.pool_bytes, MADV_DONTDUMP);
    os::advise(homes(), options.pool_bytes, MADV_NOHUGEPAGE);
    if (options.huge_bytes > 0) os::advise(homes(), options.huge_bytes, MADV_HUGEPAGE);
  }

  int populate(std::byte* begin, std::size_t bytes) noexcept override {
    if (const int error = os::populate(begin, bytes)) return error;
    // Blocks can only come home to armed memory.
    return userfaultfd_->arm(begin, bytes);
  }

  Placed place(std::byte* /*home*/, std::byte* from, std::byte* to) noexcept override {
    const auto [error, moved] = userfaultfd_->move(from, to, block_bytes_);
    if (error == 0) return {};
    return {error, moved > 0 && userfaultfd_->move(to, from, moved).error != 0};
  }

  // The kernel forgets the protection of pages that it moves.
  Placed place_to_read(std::byte* /*home*/, std::byte* /*to*/) noexcept override {
    return {ENOTSUP};
  }

  // Protecting a part of an armed map would split it, and its faults would be signals. A block that
  // nobody may touch is not there.
  int set_rights(std::byte* home, std::byte* at, Rights rights) noexcept override {
    bool& absent = absent_[static_cast<std::size_t>(home - homes()) / block_bytes_];
    if (absent != (rights == Rights::kNone)) {
      const int error = (absent ? place(home, home, at) : place(home, at, home)).error;
      if (error != 0) return error;
      absent = !absent;
      if (rights != Rights::kRead) return 0;
    }
    if (absent) return 0;
    return userfaultfd_->protect_from_writes(at, block_bytes_, rights == Rights::kRead);
  }

  bool may_be_pinned() const noexcept override { return false; }

 private:
  const std::shared_ptr<os::Userfaultfd> userfaultfd_;
  const std::size_t block_bytes_;
  const std::unique_ptr<bool[]> absent_;  // by home: placed, and at home because of kNone
};

}  // namespace

std::unique_ptr<BlockMemory> make_userfault_blocks(const BlockMemoryOptions& options,
                                                   std::shared_ptr<os::Userfaultfd> userfaultfd) {
  return std::make_unique<UserfaultBlocks>(options, std::move(userfaultfd));
}

}  // namespace vortex::inline v0

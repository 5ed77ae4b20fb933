#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

class UserfaultBlocks final : public BlockMemory {
 public:
  UserfaultBlocks(const BlockMemoryOptions& options, std::shared_ptr<os::Userfaultfd> userfaultfd)
      : BlockMemory(options),
        userfaultfd_(std::move(userfaultfd)),
        absent_(new bool[options.pool_bytes / options.block_bytes]()) {
    map_private_homes(options);
  }

  int populate(std::byte* begin, std::size_t bytes) noexcept override {
    if (const int error = os::populate(begin, bytes)) return error;
    // Blocks can only come home to armed memory.
    return userfaultfd_->arm(begin, bytes);
  }

  Placed place(std::byte* /*home*/, std::byte* from, std::byte* to) noexcept override {
    const auto [error, moved] = userfaultfd_->move(from, to, block_bytes_);
    return error == 0 ? Placed{} : undone(error, from, to, moved);
  }

  Placed take_home(std::byte* home, std::byte* from, Rights had) noexcept override {
    if (had != Rights::kRead) return place(home, from, home);
    auto [error, moved] = userfaultfd_->move(from, home, block_bytes_, kPatienceWithReadersNs);
    if (error == EBUSY) {
      const std::size_t left = block_bytes_ - moved;
      const auto copy = userfaultfd_->copy(from + moved, home + moved, left, true);
      error = copy.error != 0 ? copy.error : os::discard(from + moved, left);
      if (error != 0) os::advise(home + moved, copy.bytes, MADV_DONTNEED);
    }
    return error == 0 ? Placed{} : undone(error, from, home, moved);
  }

  // The kernel makes whatever it moves writable, and somebody could write before that is taken
  // back. So the block is copied, to memory beside the pool's until the home is empty.
  Placed place_to_read(std::byte* home, std::byte* to) noexcept override {
    const auto [refused, copied] = userfaultfd_->copy(home, to, block_bytes_, false);
    const int error = refused != 0 ? refused : os::discard(home, block_bytes_);
    if (error != 0) os::advise(to, copied, MADV_DONTNEED);
    return {error};
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

  // Each moves home.
  int set_rights_of_row(std::byte*, std::size_t, Rights) noexcept override { return ENOTSUP; }

  bool may_be_pinned() const noexcept override { return false; }

 private:
  // A transfer that reads may be longer than the window, and wait for us.
  static constexpr std::int64_t kPatienceWithReadersNs = 2'000'000;

  // What moved before the kernel refused goes back.
  Placed undone(int error, std::byte* from, std::byte* to, std::size_t moved) noexcept {
    return {error, moved > 0 && userfaultfd_->move(to, from, moved).error != 0};
  }

  const std::shared_ptr<os::Userfaultfd> userfaultfd_;
  const std::unique_ptr<bool[]> absent_;  // by home: placed, and at home because of kNone
};

}  // namespace

std::unique_ptr<BlockMemory> make_userfault_blocks(const BlockMemoryOptions& options,
                                                   std::shared_ptr<os::Userfaultfd> userfaultfd) {
  return std::make_unique<UserfaultBlocks>(options, std::move(userfaultfd));
}

}}  // namespace vortex::v0

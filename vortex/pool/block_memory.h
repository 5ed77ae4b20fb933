// How the blocks of a pool come to lie where they are needed: the three kinds of pool, and the
// words for what they refuse.
#pragma once

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>

#include "vortex/block_pool.h"
#include "vortex/os/reservation.h"
#include "vortex/os/userfaultfd.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Throws Error(EINVAL) that names the option, where no pool can have that many blocks. `who` begins
// the message.
VORTEX_EXPORT void expect_block_count(const std::string& who, const char* option,
                                      std::size_t blocks);

// The cause recorded when the kernel refuses to move a block, with this errno value.
inline const char* cannot_move_block(int error) noexcept {
  if (error == EBUSY) {
    return "the kernel refuses to move a block: a direct transfer, or a buffer registered with "
           "io_uring, keeps its pages pinned; what one transfer writes to must fit in the window: "
           "transfer less at once, or raise comeback_blocks";
  }
  return "the kernel refuses to move a block (ENOMEM: vm.max_map_count is exhausted by maps of "
         "others, or RLIMIT_DATA has no room for a second pool)";
}

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// The pool's, with the sizes that it has: whole pages, and whole blocks.
struct BlockMemoryOptions : BlockPoolOptions {
  std::string who;             // for messages: the pool and its size
  std::size_t huge_bytes = 0;  // wanted on huge pages, from the beginning on
};

// The memory of a pool. Every block has a home in homes() and is there or, by place(), at one other
// address. Sizes and addresses are those of whole blocks, and the caller owns every block it names.
// All but making one may be called inside a fault, from any thread. A forked child has the homes'
// addresses and none of the memory.
class BlockMemory {
 public:
  virtual ~BlockMemory() = default;

  std::byte* homes() const noexcept { return homes_.begin(); }

  // Acquires the memory of [begin, begin + bytes) of the homes. Returns 0 or an errno value.
  virtual int populate(std::byte* begin, std::size_t bytes) noexcept = 0;

  // Gives the memory of a resting block back to the system, for good.
  virtual void discard(std::byte* home, std::size_t bytes) noexcept;

  // Takes a block from `from` to `to`, of which one or none is `home`. On failure the block is at
  // `from`, or lost if the kernel moved it and then refused the rest, and nothing is mapped at `to`
  // unless that is home.
  struct Placed {
    int error = 0;  // or an errno value
    bool lost = false;
  };
  virtual Placed place(std::byte* home, std::byte* from, std::byte* to) noexcept = 0;

  // Takes a block from `from` home, like place(); see BlockPool::withdraw().
  virtual Placed take_home(std::byte* home, std::byte* from, Rights /*had*/) noexcept {
    return place(home, from, home);
  }

  // Takes a block from its home to `to`, like place(). From the first instant on it can only be
  // read there.
  virtual Placed place_to_read(std::byte* home, std::byte* to) noexcept = 0;

  // Takes a block from `from` home, like place(), while other threads may be reading it there: from
  // one instant on they fault. Where moving leaves pages of zeros for a moment, place() would let
  // them read those.
  virtual Placed take_from_readers(std::byte* home, std::byte* from, Rights had) noexcept {
    return take_home(home, from, had);
  }

  // Sets the rights of a block at `at`, where it was placed: by the protection of the map. Returns
  // 0 or an errno value, with nothing changed.
  virtual int set_rights(std::byte* /*home*/, std::byte* at, Rights rights) noexcept {
    return set_rights_of_row(at, 1, rights);
  }
  // The same for blocks that were placed one behind the other from `at` on; ENOTSUP where that is
  // done for each.
  virtual int set_rights_of_row(std::byte* at, std::size_t blocks, Rights rights) noexcept;

  // False: whoever pins a block's pages, as disks do that are told of them, keeps it from moving.
  virtual bool may_be_pinned() const noexcept { return true; }

  // True: map_also() works, and homes are mapped wherever the blocks are.
  virtual bool aliases() const noexcept { return false; }

  // Maps `bytes` from `home` on at `address` as well. Returns 0 or an errno value; on failure
  // nothing is mapped there.
  virtual int map_also(const std::byte* home, std::byte* address, std::size_t bytes,
                       bool writable) noexcept;

 protected:
  explicit BlockMemory(const BlockMemoryOptions& options)
      : block_bytes_(options.block_bytes), homes_({.bytes = options.pool_bytes}) {}

  // Maps private memory at the homes, for blocks that are moved. Throws Error: ENOMEM when the
  // system refuses it.
  void map_private_homes(const BlockMemoryOptions& options);

  const std::size_t block_bytes_;

 private:
  Reservation homes_;
};

// Private memory that is moved (mremap). A home is empty while its block is away. Throws Error:
// ENOMEM when the system refuses the memory, ENOSYS or EINVAL when it cannot move blocks without
// leaving a hole.
std::unique_ptr<BlockMemory> make_moved_blocks(const BlockMemoryOptions& options);

// Private memory that is moved by userfaultfd, page by page or in whole huge pages, without a
// change of maps. Streams and pools are served by the same one. Throws Error: ENOMEM when the
// system refuses the memory.
std::unique_ptr<BlockMemory> make_userfault_blocks(const BlockMemoryOptions& options,
                                                   std::shared_ptr<os::Userfaultfd> userfaultfd);

// Shared memory (memfd) that is mapped at its home for good and wherever else it is needed. Throws
// Error: ENOMEM or EFBIG when the system refuses the memory, others when it has no such memory.
std::unique_ptr<BlockMemory> make_aliased_blocks(const BlockMemoryOptions& options);

}}  // namespace vortex::v0

// The kernel's userfaultfd: faults arrive as messages, for a thread of ours to answer, and pages
// are moved without touching a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 { namespace os {

// A page that somebody touched where nothing is, and whose toucher sleeps until it is woken.
struct PageFault {
  std::byte* address = nullptr;  // at the byte
  bool write = false;
  std::int32_t thread = 0;  // who touched it, or on whose behalf the kernel did
};

// One userfaultfd of this process. In a forked child it is of no use. Everything but making one and
// arm() is async-signal-safe, allocates nothing and keeps errno; ranges are whole pages.
class Userfaultfd {
 public:
  // Throws Error, which says what is in the way and what to set: ENOSYS when the kernel has none or
  // lacks what is needed (Linux 6.8), EPERM when this process may not have faults of the kernel's.
  static std::shared_ptr<Userfaultfd> make();

  explicit Userfaultfd(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

  int descriptor() const noexcept { return descriptor_.get(); }

  // From now on a touch of a page of the range that is not there is a fault. Returns 0 or an errno
  // value.
  int arm(std::byte* begin, std::size_t bytes) const noexcept;

  // A fault nobody has seen yet. Does not wait: false when there is none.
  bool next(PageFault* fault) const noexcept;

  // Moves the pages of private memory, all there, to an armed range where none is. Nobody is woken.
  // Where a transfer has pinned them the call tries again, then waits, and gives up with EBUSY when
  // it has waited for `patience_ns`. Returns 0 or an errno value; the second is how many bytes from
  // the beginning on have moved all the same.
  struct Moved {
    int error = 0;
    std::size_t bytes = 0;
  };
  static constexpr std::int64_t kPatienceNs = 2'000'000'000;
  Moved move(std::byte* from, std::byte* to, std::size_t bytes,
             std::int64_t patience_ns = kPatienceNs) const noexcept;

  // Copies pages to an armed range where none is; unless `writable`, the first write to each is a
  // fault. Nobody is woken. Returns like move(), how many bytes have been copied.
  Moved copy(const std::byte* from, std::byte* to, std::size_t bytes, bool writable) const noexcept;

  // Zeros in an armed range where nothing is. Nobody is woken. Returns 0 or an errno value.
  int zero(std::byte* begin, std::size_t bytes) const noexcept;

  // Whether writes to the pages of an armed range are faults, too. Nobody is woken. Returns 0 or an
  // errno value.
  int protect_from_writes(std::byte* begin, std::size_t bytes, bool protect) const noexcept;

  // Every touch of the page of this address is a bus error from now on, or EFAULT to a system call.
  // Nobody is woken. Returns 0 or an errno value: EEXIST when the page is there.
  int poison(std::byte* address) const noexcept;

  // Whoever sleeps for the page of this address looks again.
  void wake(std::byte* address) const noexcept;

 private:
  const Descriptor descriptor_;
};

}}}  // namespace vortex::v0::os

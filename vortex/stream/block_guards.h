// Guards of Vortex-B: the first pages of blocks that their writer has left.
#pragma once

#include <cstddef>
#include <memory>

#include "vortex/os/userfaultfd.h"

namespace vortex { inline namespace v0 {

// A guard keeps the bytes of its page. By signals it is a page that forbids every access.
// Protection would split a map that userfaultfd serves, and its faults would be signals: there the
// page is not there, and its bytes wait in a page beside the stream.
//
// Async-signal-safe but for the constructor; the caller has the stream's lock.
class BlockGuards {
 public:
  // Guards of `slots` blocks at a time. `userfaultfd` is the one that serves the stream, null where
  // faults are signals. Throws Error(ENOMEM).
  BlockGuards(std::size_t slots, std::shared_ptr<os::Userfaultfd> userfaultfd);
  ~BlockGuards();
  BlockGuards(const BlockGuards&) = delete;
  BlockGuards& operator=(const BlockGuards&) = delete;

  // Makes a guard of the page, which the slot then keeps, and a page of the guard again. Return 0
  // or an errno value.
  int set(std::byte* page, std::size_t slot) noexcept;
  int lift(std::byte* page, std::size_t slot) noexcept;
  // The bytes of the guard in this slot are not wanted any more.
  void forget(std::size_t slot) noexcept;

 private:
  std::byte* kept(std::size_t slot) const noexcept;

  const std::shared_ptr<os::Userfaultfd> userfaultfd_;
  const std::size_t bytes_;
  std::byte* pages_ = nullptr;  // by slot; null where faults are signals
};

}}  // namespace vortex::v0

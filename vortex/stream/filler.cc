#include "vortex/stream/filler.h"

#include <algorithm>
#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// The last touch of this thread that was let try again.
struct VainTouch {
  const std::byte* address = nullptr;
  int tries = 0;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local VainTouch vain_touch;

}  // namespace

bool Filler::may_try_again(const std::byte* address) noexcept {
  constexpr int kEnoughTries = 1000;
  if (address != vain_touch.address) vain_touch = {address, 0};
  return ++vain_touch.tries <= kEnoughTries;
}

bool Filler::place(std::byte* begin, std::size_t bytes, std::byte* touched) noexcept {
  const auto is_here = [begin](const Piece& piece) {
    return piece.bytes != 0 && piece.begin == begin;
  };
  if (std::any_of(pieces_.begin(), pieces_.end(), is_here)) {
    // Another thread was refused at the same time and was quicker: what it has stored stays. With
    // userfaultfd the page of this touch may be refused for good.
    if (userfaultfd_in_use() == nullptr) return may_try_again(touched);
    const std::size_t page = os::page_bytes();
    return make_zeros(detail::align_down(touched, page), page);
  }
  Piece& piece = pieces_[placed_++ % pieces_.size()];
  take_away(piece);
  if (!make_zeros(begin, bytes)) return false;
  piece = {begin, bytes};
  vain_touch = {};
  return true;
}

bool Filler::make_zeros(std::byte* begin, std::size_t bytes) noexcept {
  // Pages may be refused for good, and with userfaultfd more of them meanwhile, since that does not
  // wait for the lock. They alone are made bare again: others may have been stored to.
  const std::size_t step = userfaultfd_in_use() != nullptr ? os::page_bytes() : bytes;
  int error = range_.vacate(begin, bytes);
  for (std::size_t done = 0; error == 0 && done < bytes;) {
    error = range_.place_zeros(begin + done, step, true);
    if (error == 0) {
      done += step;
    } else if (error == EEXIST) {
      error = range_.vacate(begin + done, step);
    }
  }
  return error == 0;
}

void Filler::take_away() noexcept {
  for (Piece& piece : pieces_) take_away(piece);
}

void Filler::take_away(Piece& piece) noexcept {
  if (piece.bytes != 0) range_.vacate(piece.begin, piece.bytes);
  piece = {};
}

}}  // namespace vortex::v0

// Zeros in the places of blocks that could not be had.
#pragma once

#include <array>
#include <cstddef>

#include "vortex/os/reservation.h"

namespace vortex { inline namespace v0 {

// What Stream::fill_on_failure() puts where touches were refused: a ring of pieces, so that an
// instruction that touches many places finds them all. Used with the stream locked, inside faults.
class Filler {
 public:
  explicit Filler(Reservation& range) noexcept : range_(range) {}

  // Whether the calling thread may try a touch again that was refused and is not to be filled:
  // not too often in a row. Each thread counts for itself, since two that fail in turns would keep
  // each other from being stopped.
  static bool may_try_again(const std::byte* address) noexcept;

  // Zeros in [begin, begin + bytes) for the touch at `touched`, instead of the oldest piece, unless
  // they are there. False: it cannot be helped.
  bool place(std::byte* begin, std::size_t bytes, std::byte* touched) noexcept;

  // Makes the places of all pieces bare again.
  void take_away() noexcept;

  // Leaves the pieces alone of which `is_replaced(begin, bytes)` says that they are there no more.
  template <typename IsReplaced>
  void forget(IsReplaced&& is_replaced) noexcept {
    if (placed_ == 0) return;
    for (Piece& piece : pieces_) {
      if (piece.bytes != 0 && is_replaced(piece.begin, piece.bytes)) piece = {};
    }
  }

 private:
  struct Piece {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;  // 0: there is none
  };

  void take_away(Piece& piece) noexcept;
  bool make_zeros(std::byte* begin, std::size_t bytes) noexcept;

  Reservation& range_;
  std::array<Piece, 16> pieces_{};
  std::size_t placed_ = 0;  // in all
};

}}  // namespace vortex::v0

#include "sort/memory/kept_memory.h"

#include <array>
#include <new>
#include <utility>

namespace vortex::inline v0::detail {
namespace {

struct Piece {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

void release(const Piece& piece) noexcept {
  ::operator delete (piece.memory, std::align_val_t{KeptMemory::kAlignment});
}

// What a thread keeps.
struct Kept {
  ~Kept() {
    for (Piece& piece : pieces) release(std::exchange(piece, Piece{}));
  }
  std::array<Piece, KeptMemory::kMostKept> pieces;
};

thread_local Kept kept;

}  // namespace

KeptMemory::KeptMemory(std::size_t bytes, bool keep)
    : bytes_(bytes), keep_(keep && bytes <= kMostBytes) {
  if (keep_) {
    Piece* best = nullptr;
    for (Piece& piece : kept.pieces) {
      if (piece.memory != nullptr && piece.bytes >= bytes &&
          (best == nullptr || piece.bytes < best->bytes))
        best = &piece;
    }
    if (best != nullptr) {
      const Piece taken = std::exchange(*best, Piece{});
      memory_ = taken.memory;
      bytes_ = taken.bytes;
      return;
    }
  }
  memory_ = ::operator new (bytes, std::align_val_t{kAlignment});
}

KeptMemory::~KeptMemory() {
  Piece piece{memory_, bytes_};
  if (keep_) {
    // The smallest goes.
    for (Piece& other : kept.pieces) {
      if (other.bytes < piece.bytes) std::swap(other, piece);
    }
  }
  release(piece);
}

}  // namespace vortex::inline v0::detail

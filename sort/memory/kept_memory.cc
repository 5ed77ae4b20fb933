#include "vortex/detail/radix/kept_memory.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "vortex/thread/of_thread.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

struct Piece {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

void free_piece(const Piece& piece) noexcept {
  ::operator delete (piece.memory, std::align_val_t{KeptMemory::kAlignment});
}

// The pieces of memory that a thread keeps.
struct Kept {
  ~Kept() { clear(); }
  void clear() noexcept {
    for (Piece& piece : pieces) free_piece(std::exchange(piece, Piece{}));
  }
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.bytes;
    return sum;
  }
  Piece& smallest() noexcept {
    return *std::min_element(pieces.begin(), pieces.end(),
                             [](const Piece& a, const Piece& b) { return a.bytes < b.bytes; });
  }
  // The piece takes the place of the smallest that is kept, if it is larger, and becomes the other.
  void keep(Piece& piece) noexcept {
    if (Piece& least = smallest(); least.bytes < piece.bytes) std::swap(least, piece);
    // While the pieces are too large together, the smallest is freed as well.
    while (bytes() > KeptMemory::kMaxBytes) {
      Piece* least = nullptr;
      for (Piece& other : pieces) {
        if (other.memory != nullptr && (least == nullptr || other.bytes < least->bytes))
          least = &other;
      }
      free_piece(std::exchange(*least, Piece{}));
    }
  }
  std::array<Piece, KeptMemory::kMaxKept> pieces;
};

const OfThread<Kept>& kept_by_threads() noexcept {
  static const OfThread<Kept> kept;
  return kept;
}

}  // namespace

KeptMemory::KeptMemory(std::size_t bytes, bool keep)
    : bytes_(bytes), keep_(keep && bytes <= kMaxBytes) {
  if (Kept* const kept = keep_ ? kept_by_threads().find() : nullptr; kept != nullptr) {
    Piece* best = nullptr;
    for (Piece& piece : kept->pieces) {
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
    if (Kept* const kept = kept_by_threads().get_if_any(); kept != nullptr) kept->keep(piece);
  }
  free_piece(piece);
}

std::size_t KeptMemory::kept_bytes() noexcept {
  const Kept* const kept = kept_by_threads().find();
  return kept == nullptr ? 0 : kept->bytes();
}
void KeptMemory::release() noexcept {
  if (Kept* const kept = kept_by_threads().find(); kept != nullptr) kept->clear();
}

}}}  // namespace vortex::v0::detail

// Notices sequential walks among touches in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// One walk from block to block, upwards or downwards.
struct Cursor {
  bool live = false;
  bool forward = true;
  std::uint64_t head = 0;   // the block that it touched last
  std::uint64_t reach = 0;  // from the head to here every block has been found or read ahead
  std::size_t ahead = 0;    // blocks read ahead for it and not touched yet
  std::size_t depth = 0;    // requests that it may read ahead by now
  std::uint64_t steps = 0;
  std::uint64_t last_step = 0;  // when, in touches of the set

  // How far `block` lies in front of the head; negative behind it.
  std::int64_t distance(std::uint64_t block) const noexcept {
    const auto upwards = static_cast<std::int64_t>(block - head);
    return forward ? upwards : -upwards;
  }
  std::uint64_t block_at(std::int64_t distance) const noexcept {
    return head + static_cast<std::uint64_t>(forward ? distance : -distance);
  }
};

// A touch continues the walk that has it in reach. A touch beside one that continued nothing
// begins a walk in that direction. Any other touch stands alone, and changes nothing for the walks.
//
// Not thread-safe. Only the constructor allocates.
class VORTEX_EXPORT CursorSet {
 public:
  explicit CursorSet(std::size_t cursors);

  // The walk that the touch of `block` continues: the one with the nearest head. Null: none.
  // step() says what the walk does with it.
  Cursor* follow(std::uint64_t block) noexcept;
  // The walk moves on to the block; it may read ahead by `max_depth` requests in the end, beginning
  // with one and doubling with each step.
  void step(Cursor& cursor, std::uint64_t block, std::size_t max_depth) noexcept;

  enum class Beginning : std::uint8_t { kNone, kForward, kBackward };
  // Whether the touch of `block`, which continues nothing, begins a walk. It counts for those to
  // come if not.
  Beginning beginning_at(std::uint64_t block) noexcept;
  // The cursor for a new walk: one that is free, or else the one to give up for it. Idle ones go
  // first, then those that made few steps, and of these the one that has been waiting longest.
  Cursor& place_for_new() noexcept;
  // The cursor that began upwards with this block and made no step. Null: none.
  Cursor* unmoved_at(std::uint64_t block) noexcept;
  void begin(Cursor& cursor, std::uint64_t block, bool forward, std::size_t depth) noexcept;

  // Counts a touch. Ages are counted in them.
  void tick() noexcept { ++now_; }
  // Others have gone on so much longer that it may be over.
  bool idle(const Cursor& cursor) const noexcept;
  std::size_t live() const noexcept;
  // Live ones that are not idle.
  std::size_t active() const noexcept;
  // A walk stands in [begin, end).
  bool has_head_in(std::uint64_t begin, std::uint64_t end) const noexcept;

  std::uint32_t id_of(const Cursor& cursor) const noexcept {
    return static_cast<std::uint32_t>(&cursor - cursors_.data());
  }
  Cursor& operator[](std::uint32_t id) noexcept { return cursors_[id]; }
  std::vector<Cursor>& all() noexcept { return cursors_; }

 private:
  std::vector<Cursor> cursors_;
  std::vector<std::uint64_t> alone_;  // the last touches that stood alone, a ring
  std::size_t next_alone_ = 0;
  std::uint64_t now_ = 0;
};

}}  // namespace vortex::v0

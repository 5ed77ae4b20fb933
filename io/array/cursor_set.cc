#include "io/array/cursor_set.h"

#include <algorithm>
#include <tuple>

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};
// The second touch of each of many walks must still find the first.
constexpr std::size_t kTouchesPerCursor = 4;
constexpr std::size_t kMinTouches = 16;
// A walk that has made this many steps is expected to go on.
constexpr std::uint64_t kStepsOfAWalk = 4;
// How many touches a walk may stand still: a fixed number and some for each of the others.
constexpr std::uint64_t kIdleTouches = 16;
constexpr std::uint64_t kIdleTouchesPerCursor = 8;

}  // namespace

CursorSet::CursorSet(std::size_t cursors)
    : cursors_(std::max<std::size_t>(cursors, 1)),
      alone_(std::max(kMinTouches, kTouchesPerCursor * cursors_.size()), kNoBlock) {}

std::size_t CursorSet::live() const noexcept {
  return static_cast<std::size_t>(std::count_if(cursors_.begin(), cursors_.end(),
                                                [](const Cursor& cursor) { return cursor.live; }));
}

bool CursorSet::idle(const Cursor& cursor) const noexcept {
  return now_ - cursor.last_step > kIdleTouches + kIdleTouchesPerCursor * live();
}

std::size_t CursorSet::active() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(cursors_.begin(), cursors_.end(),
                    [this](const Cursor& cursor) { return cursor.live && !idle(cursor); }));
}

bool CursorSet::has_head_in(std::uint64_t begin, std::uint64_t end) const noexcept {
  return std::any_of(cursors_.begin(), cursors_.end(), [=](const Cursor& cursor) {
    return cursor.live && cursor.head >= begin && cursor.head < end;
  });
}

Cursor* CursorSet::follow(std::uint64_t block) noexcept {
  Cursor* nearest = nullptr;
  for (Cursor& cursor : cursors_) {
    if (!cursor.live) continue;
    const std::int64_t distance = cursor.distance(block);
    if (distance < 0 || distance > cursor.distance(cursor.reach) + 1) continue;
    if (nearest == nullptr || distance < nearest->distance(block)) nearest = &cursor;
  }
  return nearest;
}

void CursorSet::step(Cursor& cursor, std::uint64_t block, std::size_t max_depth) noexcept {
  if (cursor.distance(cursor.reach) < cursor.distance(block)) cursor.reach = block;
  if (block != cursor.head) {
    ++cursor.steps;
    cursor.depth = std::min(std::max<std::size_t>(2 * cursor.depth, 1), max_depth);
  }
  cursor.head = block;
  cursor.last_step = now_;
}

CursorSet::Beginning CursorSet::beginning_at(std::uint64_t block) noexcept {
  for (std::size_t age = 1; age <= alone_.size(); ++age) {
    std::uint64_t& other = alone_[(next_alone_ + alone_.size() - age) % alone_.size()];
    if (other == kNoBlock) continue;
    if (other + 1 != block && other != block + 1) continue;
    const bool forward = other < block;
    other = kNoBlock;
    return forward ? Beginning::kForward : Beginning::kBackward;
  }
  alone_[next_alone_] = block;
  next_alone_ = (next_alone_ + 1) % alone_.size();
  return Beginning::kNone;
}

Cursor& CursorSet::place_for_new() noexcept {
  const auto rank = [this](const Cursor& cursor) {
    return std::tuple(cursor.live, !idle(cursor), cursor.steps >= kStepsOfAWalk, cursor.last_step);
  };
  return *std::min_element(
      cursors_.begin(), cursors_.end(),
      [&](const Cursor& one, const Cursor& other) { return rank(one) < rank(other); });
}

Cursor* CursorSet::unmoved_at(std::uint64_t block) noexcept {
  const auto found = std::find_if(cursors_.begin(), cursors_.end(), [=](const Cursor& cursor) {
    return cursor.live && cursor.forward && cursor.steps == 0 && cursor.head == block;
  });
  return found != cursors_.end() ? &*found : nullptr;
}

void CursorSet::begin(Cursor& cursor, std::uint64_t block, bool forward,
                      std::size_t depth) noexcept {
  cursor = {};
  cursor.live = true;
  cursor.forward = forward;
  cursor.head = cursor.reach = block;
  cursor.depth = depth;
  cursor.last_step = now_;
}

}}  // namespace vortex::v0

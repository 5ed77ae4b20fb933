// Records and objects brought into an order where they are, by one thread or several.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Asks for a record that lies anywhere, or its first KiB, long before it is read: for the
// second-level cache, which waits for more lines at once than the first. gcc drops calls of what
// does nothing but prefetch, unless they are inlined.
template <int kLocality = 2>
[[gnu::always_inline]] inline void ask_for(const void* record, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64, kMostLines = 16;
  const auto* const begin = static_cast<const std::byte*>(record);
  const std::size_t some = std::min(kMostLines * kLine, bytes);
  for (std::size_t at = 0; at < some; at += kLine) __builtin_prefetch(begin + at, 0, kLocality);
  __builtin_prefetch(begin + some - 1, 0, kLocality);
}

// Along a path of places each record moves to the one before, so that all its visits depend on each
// other, and each waits for the memory. Several paths are therefore followed in turn, and what each
// will visit next is asked for. A path begins where nothing has moved yet, by lifting a record, and
// ends at a place whose record has been lifted, by itself or by another path.
//
// `Moves` moves records:
//   kMost                at most so many paths are followed in turn
//   lift(place, slot)    a record to a slot beside the array
//   move(from, to)       one to a place that is free
//   lay(slot, to)        one that has been lifted
//   prefetch(place)
template <typename Moves>
class RecordPaths {
 public:
  // Of paths that begin in [begin, end). Their slots are those from `first_slot` on.
  RecordPaths(const Moves& moves, Pair64* places, std::size_t begin, std::size_t end,
              std::size_t first_slot) noexcept
      : moves_(moves), places_(places), next_(begin), end_(end), first_slot_(first_slot) {}

  // Begins paths, so many at most.
  void lift(std::size_t at_once) noexcept {
    while (open_ < at_once && begin(paths_[open_], first_slot_ + open_)) ++open_;
  }
  // Cycles of no more places are turned whole.
  static constexpr std::size_t kShort = 16;
  // All threads do the first, then the second, then the third, when no path is open. The second
  // turns the cycles whose least place is in [begin, end), and returns how many records it has
  // moved: others look at their places then, which therefore stay as they are, and keys say
  // which have been turned.
  void forget_keys() noexcept {
    for (std::size_t i = next_; i < end_; ++i) places_[i].key = 0;
  }
  std::size_t turn_short() noexcept {
    constexpr std::size_t kAhead = 8;
    std::size_t moved = 0;
    for (std::size_t i = next_; i < end_; ++i) {
      if (i + kAhead < end_ && places_[i + kAhead].value > i + kAhead) {
        const std::uint64_t from = places_[i + kAhead].value;
        if (from < kLifted) moves_.prefetch(from);
      }
      if (begins_short(i)) moved += turn(i);
    }
    return moved;
  }
  void leave_turned() noexcept {
    for (std::size_t i = next_; i < end_; ++i) {
      if (places_[i].key != 0) places_[i].value = kMoved;
    }
  }

  // Follows them to their ends, and where one ends it begins the next, if `again`. Returns how many
  // records have moved.
  std::size_t follow(bool again) noexcept {
    std::size_t moved = 0;
    while (open_ != 0) {
      moved += open_;
      for (std::size_t i = 0; i < open_;) {
        if (step(paths_[i], again)) {
          ++i;
        } else {
          paths_[i] = paths_[--open_];
        }
      }
    }
    return moved;
  }

 private:
  // Instead of a place: the record has moved; it has been lifted, and the key is its slot.
  static constexpr std::uint64_t kMoved = ~std::uint64_t{0}, kLifted = kMoved - 1;

  struct Path {
    std::size_t to;    // the place that is free
    std::size_t from;  // where its record is
  };

  bool begin(Path& path, std::size_t slot) noexcept {
    while (next_ < end_ && (places_[next_].value >= kLifted || places_[next_].value == next_)) {
      ++next_;
    }
    if (next_ == end_) return false;
    moves_.lift(next_, slot);
    path = go_to(next_);
    places_[next_++] = {slot, kLifted};
    return true;
  }

  bool begins_short(std::size_t least) const noexcept {
    std::uint64_t place = places_[least].value;
    for (std::size_t places = 1; places < kShort && place > least && place < kLifted; ++places) {
      place = places_[place].value;
      if (place == least) return true;
    }
    return false;
  }
  std::size_t turn(std::size_t least) noexcept {
    std::size_t moved = 1, to = least;
    moves_.lift(least, first_slot_);
    places_[least].key = 1;
    for (std::size_t from = places_[to].value; from != least; from = places_[to].value) {
      moves_.move(from, to);
      places_[from].key = 1;
      to = from;
      ++moved;
    }
    moves_.lay(first_slot_, to);
    return moved;
  }

  Path go_to(std::size_t place) const noexcept {
    const std::size_t from = places_[place].value;
    moves_.prefetch(from);
    ask_for(places_ + from, sizeof(Pair64));
    return {place, from};
  }

  bool step(Path& path, bool again) noexcept {
    const Pair64 from = places_[path.from];
    if (from.value == kLifted) [[unlikely]] {
      moves_.lay(from.key, path.to);
      return again && begin(path, from.key);
    }
    moves_.move(path.from, path.to);
    const std::size_t place = path.from;
    path = go_to(place);
    places_[place].value = kMoved;
    return true;
  }

  const Moves moves_;
  Pair64* const places_;
  std::size_t next_;  // from here on, places may be where a path begins
  const std::size_t end_;
  const std::size_t first_slot_;
  std::array<Path, Moves::kMost> paths_;
  std::size_t open_ = 0;
};

// Brings the record that is at places[i].value to place i, for every i, by all threads of a team.
// The values are a permutation, and no longer afterwards, as are the keys.
//
// In rounds: threads lift records, all paths of a round before the first is followed, so that each
// place is visited by the one path that needs its record; then they follow these paths, which share
// long cycles. Of short cycles a round moves little: once there are few others, each is turned by
// the thread in whose part its first place lies, and then rounds go on.
template <typename Moves>
class PathMover {
 public:
  // Groups of `at_once` paths, Moves::kMost at most: `groups` of a thread, or one in all where
  // there is one thread. Throws std::bad_alloc.
  PathMover(std::size_t at_once, std::size_t groups, ThreadTeam& team)
      : at_once_(at_once), team_(team), groups_(team.threads() == 1 ? 1 : team.threads() * groups) {
    paths_.reserve(groups_);
  }

  std::size_t slots() const noexcept { return groups_ * at_once_; }

  // `moves` has so many slots. Returns how many have been moved while all threads had some to move.
  std::size_t move(const Moves& moves, Pair64* places, std::size_t count) noexcept {
    std::size_t together = 0;
    // What a group has passed by in one round has moved, or is moved by whom its path belongs to.
    paths_.clear();
    for (std::size_t i = 0; i < groups_; ++i) {
      paths_.emplace_back(moves, places, count / groups_ * i,
                          i + 1 == groups_ ? count : count / groups_ * (i + 1), i * at_once_);
    }
    if (groups_ > 1) {
      together = follow_long();
      together += turn_short();
      together += follow_long();
    }
    for (RecordPaths<Moves>& paths : paths_) {
      paths.lift(at_once_);
      paths.follow(true);
    }
    return together;
  }

  static void move_alone(const Moves& moves, Pair64* places, std::size_t count,
                         std::size_t at_once) noexcept {
    RecordPaths<Moves> paths(moves, places, 0, count, 0);
    paths.lift(at_once);
    paths.follow(true);
  }

 private:
  // Until a round moves few. Both return how many records they have moved.
  std::size_t follow_long() noexcept {
    constexpr std::size_t kLong = RecordPaths<Moves>::kShort;
    for (std::size_t together = 0;;) {
      std::atomic<std::size_t> moved = 0;
      run([&](std::size_t i) { paths_[i].lift(at_once_); });
      run([&](std::size_t i) { moved += paths_[i].follow(false); });
      together += moved;
      if (moved < kLong * groups_ * at_once_) return together;
    }
  }
  std::size_t turn_short() noexcept {
    std::atomic<std::size_t> moved = 0;
    run([&](std::size_t i) { paths_[i].forget_keys(); });
    run([&](std::size_t i) { moved += paths_[i].turn_short(); });
    run([&](std::size_t i) { paths_[i].leave_turned(); });
    return moved;
  }

  template <typename Body>
  void run(const Body& body) noexcept {
    team_.run(groups_, std::cref(body));
  }

  const std::size_t at_once_;
  ThreadTeam& team_;
  const std::size_t groups_;  // more than threads, since some paths are longer than others
  std::vector<RecordPaths<Moves>> paths_;
};

}}}  // namespace vortex::v0::detail

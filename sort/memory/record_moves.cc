#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Along a path of places each record moves to the one before, so that all its visits depend on each
// other, and each waits for the memory. Several paths are therefore followed in turn, and what each
// will visit next is asked for. A path begins where nothing has moved yet, by lifting a record, and
// ends at a place whose record has been lifted, by itself or by another path.
class RecordPaths {
 public:
  static constexpr std::size_t kMost = 16;

  // Of paths that begin in [begin, end). `held` is room for all records that are lifted, those that
  // others lift among them; its own are those from `first_slot` on.
  RecordPaths(void* records, std::size_t bytes, Pair64* places, std::size_t begin, std::size_t end,
              void* held, std::size_t first_slot = 0) noexcept
      : records_(static_cast<std::byte*>(records)),
        bytes_(bytes),
        places_(places),
        next_(begin),
        end_(end),
        held_(static_cast<std::byte*>(held)),
        first_slot_(first_slot) {}

  // Begins paths, so many at most.
  void lift(std::size_t at_once) noexcept {
    while (open_ < at_once && begin(paths_[open_], first_slot_ + open_)) ++open_;
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

  std::byte* record(std::size_t place) const noexcept { return records_ + place * bytes_; }

  bool begin(Path& path, std::size_t slot) noexcept {
    while (next_ < end_ && (places_[next_].value >= kLifted || places_[next_].value == next_)) {
      ++next_;
    }
    if (next_ == end_) return false;
    std::memcpy(held_ + slot * bytes_, record(next_), bytes_);
    path = go_to(next_);
    places_[next_++] = {slot, kLifted};
    return true;
  }

  Path go_to(std::size_t place) const noexcept {
    // The processor itself asks for more of long records.
    constexpr std::size_t kLine = 64, kMostBytes = 4 * kLine;
    const std::size_t from = places_[place].value;
    const std::size_t bytes = std::min(bytes_, kMostBytes);
    for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(record(from) + at, 1);
    __builtin_prefetch(record(from) + bytes - 1, 1);
    __builtin_prefetch(places_ + from, 1);
    return {place, from};
  }

  bool step(Path& path, bool again) noexcept {
    const Pair64 from = places_[path.from];
    if (from.value == kLifted) [[unlikely]] {
      std::memcpy(record(path.to), held_ + from.key * bytes_, bytes_);
      return again && begin(path, from.key);
    }
    std::memcpy(record(path.to), record(path.from), bytes_);
    const std::size_t place = path.from;
    path = go_to(place);
    places_[place].value = kMoved;
    return true;
  }

  std::byte* const records_;
  const std::size_t bytes_;
  Pair64* const places_;
  std::size_t next_;  // from here on, places may be where a path begins
  const std::size_t end_;
  std::byte* const held_;  // a slot for each path
  const std::size_t first_slot_;
  std::array<Path, kMost> paths_;
  std::size_t open_ = 0;
};

constexpr std::size_t kHeldBytes = std::size_t{64} << 10;

// Few, where records are large.
std::size_t paths_at_once(std::size_t record_bytes) noexcept {
  return std::clamp<std::size_t>(kHeldBytes / std::max<std::size_t>(record_bytes, 1), 1,
                                 RecordPaths::kMost);
}

}  // namespace

std::size_t moving_bytes(std::size_t record_bytes) noexcept {
  return paths_at_once(record_bytes) * record_bytes;
}

void move_to_places(void* records, std::size_t record_bytes, Pair64* places, std::size_t count,
                    void* held) noexcept {
  RecordPaths paths(records, record_bytes, places, 0, count, held);
  paths.lift(paths_at_once(record_bytes));
  paths.follow(true);
}

// In rounds: threads lift records, all paths of a round before the first is followed, so that each
// place is visited by the one path that needs its record; then they follow these paths, which share
// long cycles.
class RecordMover::Impl {
 public:
  Impl(std::size_t record_bytes, ThreadTeam& team)
      : bytes_(record_bytes),
        at_once_(paths_at_once(record_bytes)),
        team_(team),
        groups_(team.threads() == 1 ? 1 : team.threads() * (bytes_ > kHeldBytes ? 1 : 8)),
        held_(new std::byte[groups_ * at_once_ * bytes_]) {
    paths_.reserve(groups_);
  }

  std::size_t move(void* records, Pair64* places, std::size_t count) noexcept {
    std::size_t together = 0;
    // What a group has passed by in one round has moved, or is moved by whom its path belongs to.
    paths_.clear();
    for (std::size_t i = 0; i < groups_; ++i) {
      paths_.emplace_back(records, bytes_, places, count / groups_ * i,
                          i + 1 == groups_ ? count : count / groups_ * (i + 1), held_.get(),
                          i * at_once_);
    }
    for (bool go_on = groups_ > 1; go_on;) {
      std::atomic<std::size_t> moved = 0;
      run([&](std::size_t i) { paths_[i].lift(at_once_); });
      run([&](std::size_t i) { moved += paths_[i].follow(false); });
      // Short cycles are not worth a round.
      constexpr std::size_t kLong = 16;
      go_on = moved >= kLong * groups_ * at_once_;
      together += moved;
    }
    vortex::detail::move_to_places(records, bytes_, places, count, held_.get());
    return together;
  }

 private:
  template <typename Body>
  void run(const Body& body) noexcept {
    team_.run(groups_, std::cref(body));
  }

  const std::size_t bytes_;
  const std::size_t at_once_;
  ThreadTeam& team_;
  const std::size_t
      groups_;  // of paths; more than threads, since some paths are longer than others
  const std::unique_ptr<std::byte[]> held_;
  std::vector<RecordPaths> paths_;
};

RecordMover::RecordMover(std::size_t record_bytes, ThreadTeam& team)
    : impl_(std::make_unique<Impl>(record_bytes, team)) {}
RecordMover::~RecordMover() = default;

std::size_t RecordMover::move_to_places(void* records, Pair64* places, std::size_t count) noexcept {
  return impl_->move(records, places, count);
}

}}}  // namespace vortex::v0::detail

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

  RecordPaths(void* records, std::size_t bytes, Pair64* places, std::size_t count,
              void* held) noexcept
      : records_(static_cast<std::byte*>(records)),
        bytes_(bytes),
        places_(places),
        count_(count),
        held_(static_cast<std::byte*>(held)) {}

  void follow(std::size_t at_once) noexcept {
    std::array<Path, kMost> paths;
    std::size_t open = 0;
    while (open < at_once && begin(paths[open], open)) ++open;
    while (open != 0) {
      for (std::size_t i = 0; i < open;) {
        if (step(paths[i])) {
          ++i;
        } else {
          paths[i] = paths[--open];
        }
      }
    }
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
    while (next_ < count_ && (places_[next_].value >= kLifted || places_[next_].value == next_)) {
      ++next_;
    }
    if (next_ == count_) return false;
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

  bool step(Path& path) noexcept {
    const Pair64 from = places_[path.from];
    if (from.value == kLifted) [[unlikely]] {
      std::memcpy(record(path.to), held_ + from.key * bytes_, bytes_);
      return begin(path, from.key);
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
  const std::size_t count_;
  std::byte* const held_;  // a slot for each path
  std::size_t next_ = 0;   // from here on, places may be where a path begins
};

// Few, where records are large.
std::size_t paths_at_once(std::size_t record_bytes) noexcept {
  constexpr std::size_t kHeld = std::size_t{64} << 10;
  return std::clamp<std::size_t>(kHeld / std::max<std::size_t>(record_bytes, 1), 1,
                                 RecordPaths::kMost);
}

}  // namespace

std::size_t moving_bytes(std::size_t record_bytes) noexcept {
  return paths_at_once(record_bytes) * record_bytes;
}

void move_to_places(void* records, std::size_t record_bytes, Pair64* places, std::size_t count,
                    void* held) noexcept {
  RecordPaths(records, record_bytes, places, count, held).follow(paths_at_once(record_bytes));
}

}}}  // namespace vortex::v0::detail

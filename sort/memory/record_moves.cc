#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "sort/memory/record_paths.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

struct MovesOfBytes {
  static constexpr std::size_t kMost = 16;

  std::byte* record(std::size_t place) const noexcept { return records + place * bytes; }
  void lift(std::size_t place, std::size_t slot) const noexcept {
    std::memcpy(held + slot * bytes, record(place), bytes);
  }
  void move(std::size_t from, std::size_t to) const noexcept {
    std::memcpy(record(to), record(from), bytes);
  }
  void lay(std::size_t slot, std::size_t to) const noexcept {
    std::memcpy(record(to), held + slot * bytes, bytes);
  }
  [[gnu::always_inline]] void prefetch(std::size_t place) const noexcept {
    ask_for(record(place), bytes);
  }

  std::byte* records;
  std::size_t bytes;
  std::byte* held;
};

constexpr std::size_t kHeldBytes = std::size_t{64} << 10;

// Few, where records are large.
std::size_t paths_at_once(std::size_t record_bytes) noexcept {
  return std::clamp<std::size_t>(kHeldBytes / std::max<std::size_t>(record_bytes, 1), 1,
                                 MovesOfBytes::kMost);
}

}  // namespace

std::size_t moving_bytes(std::size_t record_bytes) noexcept {
  return paths_at_once(record_bytes) * record_bytes;
}

void move_to_places(void* records, std::size_t record_bytes, Pair64* places, std::size_t count,
                    void* held) noexcept {
  PathMover<MovesOfBytes>::move_alone(
      {static_cast<std::byte*>(records), record_bytes, static_cast<std::byte*>(held)}, places,
      count, paths_at_once(record_bytes));
}

class RecordMover::Impl {
 public:
  Impl(std::size_t record_bytes, ThreadTeam& team)
      : bytes_(record_bytes),
        mover_(paths_at_once(record_bytes), record_bytes > kHeldBytes ? 1 : 8, team),
        held_(new std::byte[mover_.slots() * record_bytes]) {}

  std::size_t move(void* records, Pair64* places, std::size_t count) noexcept {
    return mover_.move({static_cast<std::byte*>(records), bytes_, held_.get()}, places, count);
  }

 private:
  const std::size_t bytes_;
  PathMover<MovesOfBytes> mover_;
  const std::unique_ptr<std::byte[]> held_;
};

RecordMover::RecordMover(std::size_t record_bytes, ThreadTeam& team)
    : impl_(std::make_unique<Impl>(record_bytes, team)) {}
RecordMover::~RecordMover() = default;

std::size_t RecordMover::move_to_places(void* records, Pair64* places, std::size_t count) noexcept {
  return impl_->move(records, places, count);
}

}}}  // namespace vortex::v0::detail

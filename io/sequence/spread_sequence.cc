#include "io/sequence/spread_sequence.h"

#include <cerrno>

namespace vortex { inline namespace v0 {

SpreadSequence::SpreadSequence(SlotFiles& files, BlockAllocation allocation,
                               std::uint64_t most_units)
    : files_(&files),
      allocation_(std::move(allocation)),
      most_units_(most_units),
      left_out_(files.files(), 0) {
  places_.reserve(most_units);
}

bool SpreadSequence::find_place(std::uint64_t unit, UnitPlace& place) noexcept {
  // After that many tries by the strategy, the first that has room will do.
  constexpr std::uint64_t kMaxTries = 64;
  constexpr std::uint64_t kScatter = 0x9e3779b97f4a7c15;
  const auto files = static_cast<std::uint64_t>(left_out_.size());
  for (std::uint64_t k = 0; k < kMaxTries + files; ++k) {
    unsigned file = 0;
    if (k == 0) {
      file = allocation_.disk(unit);
    } else if (k < kMaxTries) {
      file = allocation_.disk((unit + k) * kScatter >> 32);
    } else {
      file = static_cast<unsigned>(k - kMaxTries);
    }
    if (left_out_[file] != 0) continue;
    const std::uint32_t slot = files_->take_slot(file);
    if (slot != SlotFiles::kNoSlot) {
      place = {file, slot};
      return true;
    }
    left_out_[file] = 1;
  }
  return false;
}

bool SpreadSequence::add_unit() noexcept {
  UnitPlace place;
  if (places_.size() == most_units_ || !find_place(places_.size(), place)) return false;
  places_.push_back(place);
  return true;
}

bool SpreadSequence::move_elsewhere(std::uint64_t unit) noexcept {
  left_out_[places_[unit].file] = 1;
  UnitPlace place;
  if (!find_place(unit, place)) return false;
  files_->refuse_slot(std::exchange(places_[unit], place));
  return true;
}

FileLayout::Place SpreadLayout::assign(std::uint64_t unit, std::size_t) noexcept {
  while (sequence_.units() <= unit) {
    if (!sequence_.add_unit()) return {};
  }
  return sequence_.locate(unit);
}

FileLayout::Place SpreadLayout::move_elsewhere(std::uint64_t unit, std::size_t,
                                               int error) noexcept {
  if (error != ENOSPC && error != EDQUOT) return {};
  return sequence_.move_elsewhere(unit) ? sequence_.locate(unit) : Place{};
}

}}  // namespace vortex::v0

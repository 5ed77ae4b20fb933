// Sorted records that go to a run on the disks from some moment on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "sort/record/record_output.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Passes records on to `out` as long as `has_room`, which is asked with the bytes that there would
// be in all and may wait; to the output that `spill` makes from the first time on that it has not.
class SpillingOutput final : public RecordOutput {
 public:
  using HasRoom = std::function<bool(std::uint64_t bytes)>;
  using Spill = std::function<RecordOutput&()>;

  // `out` outlives it.
  SpillingOutput(RecordOutput& out, HasRoom has_room, Spill spill)
      : out_(&out), has_room_(std::move(has_room)), spill_(std::move(spill)) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    const std::span<std::byte> room = out_->room(most_bytes);
    if (spilled_ || has_room_(done_ + room.size())) return room;
    out_ = &spill_();
    spilled_ = true;
    return out_->room(most_bytes);
  }
  void written(std::size_t bytes) override {
    done_ += bytes;
    out_->written(bytes);
  }

  bool spilled() const noexcept { return spilled_; }

 private:
  RecordOutput* out_;
  const HasRoom has_room_;
  const Spill spill_;
  std::uint64_t done_ = 0;
  bool spilled_ = false;
};

}}  // namespace vortex::v0

// Outputs that sorted records pass on their way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// How many bytes of room an output gives that has `done` bytes of records in blocks: whole records
// up to the end of the block in which the next one ends, so that all of a room is in the window of
// a stream, and so few that a stop or a progress report waits no longer than for a copy of 256 KiB.
inline constexpr std::size_t kMaxRoomBytes = std::size_t{256} << 10;
std::size_t room_in_block(std::uint64_t done, std::size_t record_bytes, std::size_t block_bytes,
                          std::size_t most_bytes) noexcept;

// Puts records one behind the other into the array of an output stream.
class PointerOutput final : public RecordOutput {
 public:
  PointerOutput(std::byte* to, std::size_t record_bytes, std::size_t block_bytes) noexcept
      : to_(to), record_bytes_(record_bytes), block_bytes_(block_bytes) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    return {to_ + done_, room_in_block(done_, record_bytes_, block_bytes_, most_bytes)};
  }
  void written(std::size_t bytes) override { done_ += bytes; }

 private:
  std::byte* to_;
  std::size_t record_bytes_;
  std::size_t block_bytes_;
  std::uint64_t done_ = 0;
};

// Passes on only the first of records with equal keys.
class FirstOfEqual final : public RecordOutput {
 public:
  // Both outlive it.
  FirstOfEqual(const RecordOrder& order, RecordOutput& out);

  std::span<std::byte> room(std::size_t most_bytes) override {
    room_ = out_.room(most_bytes);
    return room_;
  }
  void written(std::size_t bytes) override;

  // Records that were passed on.
  std::uint64_t records() const noexcept { return records_; }

 private:
  const RecordOrder& order_;
  RecordOutput& out_;
  std::span<std::byte> room_;
  std::vector<std::byte> last_;  // that was passed on
  std::uint64_t records_ = 0;
};

}}  // namespace vortex::v0

// Outputs that sorted records pass on their way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// How many bytes of room an output gives that has `done` bytes of records in blocks: whole records
// up to the end of the block in which the next one ends, so that all of a room is in the window of
// a stream, and so few that a stop or a progress report waits no longer than for a copy of 256 KiB.
inline constexpr std::size_t kMaxRoomBytes = std::size_t{256} << 10;
std::size_t room_in_block(std::uint64_t done, std::size_t record_bytes, std::size_t block_bytes,
                          std::size_t most_bytes) noexcept;
// The same room in the array of an output stream; but where the window of the stream has `wide`
// blocks more than a record takes, what is left of the block and all of these, which any thread may
// store to in any order then: the caller has touched them in theirs, and may wait in a fault here.
std::span<std::byte> room_in_blocks(std::byte* array, std::uint64_t done, std::size_t record_bytes,
                                    std::size_t block_bytes, std::size_t wide,
                                    std::uint64_t most_bytes) noexcept;

// Puts records one behind the other into the array of an output stream; the first bytes of them,
// where there is a `head`, there. The rooms behind it are as room_in_blocks().
class PointerOutput final : public RecordOutput {
 public:
  PointerOutput(std::byte* to, std::size_t record_bytes, std::size_t block_bytes,
                std::span<std::byte> head = {}, std::size_t wide = 0)
      : to_(to),
        record_bytes_(record_bytes),
        block_bytes_(block_bytes),
        wide_(wide),
        head_(head),
        in_both_(head.size() % record_bytes == 0 ? 0 : record_bytes) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    if (!head_.empty()) return room_of_head(most_bytes);
    return room_in_blocks(to_, done_, record_bytes_, block_bytes_, wide_, most_bytes);
  }
  void written(std::size_t bytes) override {
    head_.empty() ? void(done_ += bytes) : written_to_head(bytes);
  }

 private:
  std::span<std::byte> room_of_head(std::size_t most_bytes) noexcept;
  void written_to_head(std::size_t bytes) noexcept;

  std::byte* to_;
  std::size_t record_bytes_;
  std::size_t block_bytes_;
  std::size_t wide_;
  std::uint64_t done_ = 0;     // behind the head
  std::span<std::byte> head_;  // what is free of it
  std::vector<std::byte> in_both_;
};

// Passes records on, and keeps the first and the last of them.
class NotedEnds final : public RecordOutput {
 public:
  // `out` outlives it.
  NotedEnds(RecordOutput& out, std::size_t record_bytes)
      : out_(out), first_(record_bytes), last_(record_bytes) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    room_ = out_.room(most_bytes);
    return room_;
  }
  void written(std::size_t bytes) override;

  bool empty() const noexcept { return empty_; }
  const std::byte* first() const noexcept { return first_.data(); }
  const std::byte* last() const noexcept { return last_.data(); }

 private:
  RecordOutput& out_;
  std::span<std::byte> room_;
  std::vector<std::byte> first_;
  std::vector<std::byte> last_;
  bool empty_ = true;
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

// Passes on the first records only; others go nowhere.
class FirstOutput final : public RecordOutput {
 public:
  // `out` outlives it. `most` is not 0.
  FirstOutput(RecordOutput& out, std::size_t record_bytes, std::uint64_t most)
      : out_(out), left_(most), last_(record_bytes) {}

  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override;

  bool full() const noexcept { return left_ == 0; }
  std::uint64_t left() const noexcept { return left_; }
  // The last of them, once it is full.
  const std::byte* last() const noexcept { return last_.data(); }

 private:
  RecordOutput& out_;
  std::uint64_t left_;
  std::span<std::byte> room_;
  std::vector<std::byte> last_;
  std::vector<std::byte> nowhere_;
};

// What a sort lets out of sorted records: all of them, with `unique` the first of equal ones, and
// of these the first `most`; 0: all.
class SortedOutput {
 public:
  // Both outlive it.
  SortedOutput(const RecordOrder& order, bool unique, std::uint64_t most, RecordOutput& out);
  SortedOutput(const SortedOutput&) = delete;
  SortedOutput& operator=(const SortedOutput&) = delete;

  RecordOutput& to() noexcept { return *to_; }
  // Nothing more goes out.
  bool full() const noexcept { return first_ && first_->full(); }
  // The last that went out, if it is full.
  const std::byte* last() const noexcept { return first_->last(); }
  // How many that come may still go out, as far as that is known before.
  std::uint64_t left() const noexcept {
    if (!first_ || (unique_ && !first_->full())) return std::numeric_limits<std::uint64_t>::max();
    return first_->left();
  }
  // How many went out of `sorted` that came.
  std::uint64_t records(std::uint64_t sorted) const noexcept;

 private:
  const std::uint64_t most_;
  std::optional<FirstOutput> first_;
  std::optional<FirstOfEqual> unique_;
  RecordOutput* to_;
};

// Passes sorted records on to `out` as long as `has_room`, which is asked with the bytes that there
// would be in all and may wait; to the output that `spill` makes from the first time on that it has
// not.
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

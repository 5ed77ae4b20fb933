#include "sort/record/first_records.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "sort/record/record_output.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

// Of the records that come next: where few are wanted, they are cut seldom all the same.
constexpr std::size_t kLeastRoomBytes = std::size_t{16} << 10;
// With two pairs for each record a sort is at its fastest.
constexpr std::size_t kScratchOfRecord = 2 * sizeof(Pair64);
constexpr std::size_t kScratchBeside = 2 * alignof(std::max_align_t);

std::size_t least_room(std::size_t record_bytes) noexcept {
  return std::max<std::size_t>(kLeastRoomBytes / record_bytes, 1);
}

// In records; saturating.
std::uint64_t capacity_for(std::size_t record_bytes, std::uint64_t most) noexcept {
  return detail::saturating_sum(detail::saturating_product(most, 2), least_room(record_bytes));
}

std::uint64_t scratch_bytes(std::uint64_t capacity) noexcept {
  return detail::saturating_sum(detail::saturating_product(capacity, kScratchOfRecord),
                                kScratchBeside);
}

// Puts records one behind the other into memory.
class MemoryOutput final : public RecordOutput {
 public:
  explicit MemoryOutput(std::span<std::byte> memory) noexcept : left_(memory) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    return left_.first(std::min(most_bytes, left_.size()));
  }
  void written(std::size_t bytes) override { left_ = left_.subspan(bytes); }
  std::size_t left_bytes() const noexcept { return left_.size(); }

 private:
  std::span<std::byte> left_;
};

}  // namespace

std::uint64_t FirstRecords::memory_bytes(std::size_t record_bytes, std::uint64_t most) noexcept {
  const std::uint64_t capacity = capacity_for(record_bytes, most);
  const std::uint64_t records = detail::saturating_sum(capacity, most);
  return detail::saturating_sum(detail::saturating_product(records, record_bytes),
                                scratch_bytes(capacity));
}

FirstRecords::FirstRecords(const RecordOrder& order, std::uint64_t most, bool unique)
    : order_(order),
      record_bytes_(order.record_bytes()),
      most_(most),
      unique_(unique),
      least_room_(least_room(record_bytes_)),
      capacity_(static_cast<std::size_t>(capacity_for(record_bytes_, most))),
      memory_(std::make_unique_for_overwrite<std::byte[]>(
          static_cast<std::size_t>(memory_bytes(record_bytes_, most)))),
      scratch_(memory_.get(), static_cast<std::size_t>(scratch_bytes(capacity_))),
      records_(memory_.get() + scratch_.size()),
      sorted_(records_ + capacity_ * record_bytes_) {}

void FirstRecords::take(const std::byte* records, std::size_t count) {
  while (count > 0) {
    if (capacity_ - size_ < least_room_) cut();
    const std::size_t some = std::min(count, capacity_ - size_);
    std::byte* const to = records_ + size_ * record_bytes_;
    if (bound_ != nullptr) {
      size_ += order_.copy_before(bound_, records, some, to);
    } else {
      // One at a time: memcpy(3) of several blocks goes back to those that the stream has left.
      for (std::size_t i = 0; i < some; ++i) {
        std::memcpy(to + i * record_bytes_, records + i * record_bytes_, record_bytes_);
      }
      size_ += some;
    }
    records += some * record_bytes_;
    count -= some;
  }
}

// Leaves the first records, in order.
void FirstRecords::cut() {
  const auto most_bytes = static_cast<std::size_t>(most_) * record_bytes_;
  MemoryOutput memory({sorted_, most_bytes});
  SortedOutput sorted(order_, unique_, most_, memory);
  order_.sort(records_, size_, scratch_, sorted.to());
  const std::size_t bytes = most_bytes - memory.left_bytes();
  std::memcpy(records_, sorted_, bytes);
  size_ = bytes / record_bytes_;
  bound_ = sorted.full() ? records_ + most_bytes - record_bytes_ : nullptr;
}

void FirstRecords::emit(RecordOutput& out) { order_.sort(records_, size_, scratch_, out); }

FirstBound::FirstBound(const RecordOrder& order)
    : order_(order), record_bytes_(order.record_bytes()) {}

void FirstBound::tell(const std::byte* record) {
  const std::lock_guard lock(mutex_);
  if (!told_.empty() && !order_.less(record, told_.data())) return;
  told_.assign(record, record + record_bytes_);
}

// Null: none is known.
const std::byte* FirstBound::bound() {
  const std::lock_guard lock(mutex_);
  if (!told_.empty()) {
    if (bound_.empty() || order_.less(told_.data(), bound_.data())) bound_.swap(told_);
    told_.clear();
  }
  return bound_.empty() ? nullptr : bound_.data();
}

std::span<const std::byte> FirstBound::wanted(const std::byte* records, std::size_t count) {
  const std::byte* const bound = this->bound();
  if (bound == nullptr) return {records, count * record_bytes_};
  wanted_.resize(count * record_bytes_);
  const std::size_t kept = order_.copy_before(bound, records, count, wanted_.data());
  return std::span(wanted_).first(kept * record_bytes_);
}

}}  // namespace vortex::v0

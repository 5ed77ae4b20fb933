// Where sorted records go, and counted ones among them.
#pragma once

#include <cstddef>
#include <memory>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Where the sorted records go, in order.
template <typename Record>
class SortedOutput {
 public:
  virtual ~SortedOutput() = default;
  // Room for the next `count` records; everything before has been written. Null: it cannot be had.
  virtual Record* room(std::size_t count) noexcept = 0;
  // They have been written.
  virtual void written(Record* records, std::size_t count) noexcept = 0;
};

// An output to which hot keys are added where they belong: keys that have been counted instead of
// being moved. Only bare keys are ever hot.
template <typename Record, typename KeyOf>
class OutputWithHotKeys {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  static constexpr bool kBare = kBareKeys<KeyOf>;
  // The bytes that the constructor allocates.
  static constexpr std::size_t kWorkingBytes = kBare ? sizeof(HotKeys<Bits>) : 0;

  // The output outlives it.
  explicit OutputWithHotKeys(SortedOutput<Record>& output) : output_(output) {
    if constexpr (kBare) hot_ = std::make_unique<HotKeys<Bits>>();
  }

  // The hot keys. They exist only where keys are bare.
  HotKeys<Bits>& hot_keys() noexcept { return *hot_; }
  // Between these two calls, some of the keys that come are hot.
  void begin_counting() noexcept { counting_ = true; }
  void end_counting() noexcept { counting_ = false; }
  bool counting() const noexcept { return counting_; }

  // Calls fill(to), which writes `count` sorted records of the range, and writes the hot keys
  // before and among them. False: the output failed, as below.
  template <typename Fill>
  bool write(std::size_t count, const KeyRange<Bits>& range, Fill fill) noexcept {
    if (!write_below(range.low)) return false;
    std::size_t hot = 0;
    if constexpr (kBare) {
      if (counting_) hot = hot_->copies_up_to(range.high);
    }
    Record* const to = output_.room(count + hot);
    if (to == nullptr) return false;
    fill(to);
    if constexpr (kBare) {
      if (hot != 0) hot_->write_among(to, count, hot);
    }
    output_.written(to, count + hot);
    return true;
  }

  // The hot keys below `key`, or all up to `key`, that have not been written.
  bool write_below([[maybe_unused]] Bits key) noexcept {
    if constexpr (kBare) {
      if (counting_) return write_hot(hot_->copies_below(key));
    }
    return true;
  }
  bool write_up_to([[maybe_unused]] Bits key) noexcept {
    if constexpr (kBare) return write_hot(hot_->copies_up_to(key));
    return true;
  }

  // Room for records that are no hot keys, as of the output.
  Record* room(std::size_t count) noexcept { return output_.room(count); }
  void written(Record* records, std::size_t count) noexcept { output_.written(records, count); }

 private:
  bool write_hot(std::size_t copies) noexcept {
    if (copies == 0) return true;
    Record* const to = output_.room(copies);
    if (to == nullptr) return false;
    hot_->write(copies, to);
    output_.written(to, copies);
    return true;
  }

  SortedOutput<Record>& output_;
  std::unique_ptr<HotKeys<Bits>> hot_;  // of bare keys
  bool counting_ = false;
};

// The array whose chunks an arena has, front to back.
template <typename Record, typename Codec>
class ArrayOutput final : public SortedOutput<Record> {
 public:
  // Both outlive it.
  ArrayOutput(ChunkArena<Record>& arena, const Codec& codec) : arena_(arena), codec_(codec) {}

  // The result goes to `array`, and `before` records of it come before the arena's first chunk. It
  // is decoded unless it is to stay as it is.
  void start(Record* array, std::size_t before = 0, bool decodes = true) noexcept {
    at_ = array;
    before_ = before;
    records_ = 0;
    decodes_ = decodes;
  }

  Record* room(std::size_t count) noexcept override {
    Record* const here = at_;
    records_ += count;
    at_ += count;
    if (records_ > before_) arena_.claim(records_ - before_);
    return here;
  }
  void written(Record* records, std::size_t count) noexcept override {
    if (decodes_) codec_.decode(records, count);
  }

 private:
  Record* at_ = nullptr;
  std::size_t before_ = 0;
  std::size_t records_ = 0;
  bool decodes_ = true;
  ChunkArena<Record>& arena_;
  const Codec& codec_;
};

}}}  // namespace vortex::v0::detail

// The most frequent of bare keys, found by a sample and counted instead of moved.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// A table of keys and how often each has been met. A key is found in one step or not at all: of
// several that share a slot only the most frequent is hot.
template <typename Bits>
class HotKeys {
 public:
  static constexpr std::size_t kSample = 4096;

  // Takes the keys of a sorted sample that occur three times or more. Keys that are not hot move
  // to the front of the sample, still in order; returns how many.
  std::size_t choose(Bits* sorted, std::size_t size) noexcept {
    constexpr std::size_t kMin = 3;
    constexpr std::uint32_t kFree = 0;
    counts_.fill(kFree);
    const auto runs = [&](auto body) {
      for (std::size_t begin = 0, end; begin < size; begin = end) {
        for (end = begin + 1; end < size && sorted[end] == sorted[begin]; ++end) {
        }
        body(begin, end - begin);
      }
    };
    const Bits* some = nullptr;
    runs([&](std::size_t begin, std::size_t copies) {
      const std::size_t slot = slot_of(sorted[begin]);
      if (copies < kMin || copies <= counts_[slot]) return;
      counts_[slot] = static_cast<std::uint32_t>(copies);
      keys_[slot] = sorted[begin];
      some = &keys_[slot];
    });
    size_ = next_ = 0;
    if (some == nullptr) return size;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      // A free slot holds a key that belongs to another.
      if (counts_[slot] == kFree) keys_[slot] = *some;
    }
    counts_.fill(0);
    std::size_t others = 0;
    runs([&](std::size_t begin, std::size_t copies) {
      const Bits key = sorted[begin];
      if (keys_[slot_of(key)] == key) {
        in_order_[size_++] = key;
      } else {
        for (std::size_t i = 0; i < copies; ++i) sorted[others++] = key;
      }
    });
    return others;
  }

  // Counts the key if it is hot; says whether it is.
  [[gnu::always_inline]] bool count(Bits key) noexcept {
    const std::size_t slot = slot_of(key);
    const bool hot = keys_[slot] == key;
    counts_[slot] += hot;
    return hot;
  }

  // The counted keys are written out in order, between other keys. These two return the number of
  // copies of hot keys that have not been written yet: of the keys below `key`, or of all up to
  // `key`.
  std::size_t copies_below(Bits key) const noexcept {
    std::size_t copies = 0;
    for (std::size_t i = next_; i < size_ && in_order_[i] < key; ++i) copies += copies_of(i);
    return copies;
  }
  std::size_t copies_up_to(Bits key) const noexcept {
    std::size_t copies = 0;
    for (std::size_t i = next_; i < size_ && in_order_[i] <= key; ++i) copies += copies_of(i);
    return copies;
  }

  // Writes the next `copies`, as told by one of the above.
  void write(std::size_t copies, Bits* to) noexcept {
    const Bits* const end = to + copies;
    while (to != end) {
      to = write_copies(in_order_[next_], copies_of(next_), to, end);
      ++next_;
    }
  }

  // Writes the next `copies` among keys[0..count), which are in order; behind them is room.
  void write_among(Bits* keys, std::size_t count, std::size_t copies) noexcept {
    std::size_t last = next_;
    for (std::size_t left = copies; left != 0; ++last) left -= copies_of(last);
    const std::size_t next = last;
    while (copies != 0) {
      --last;
      const Bits key = in_order_[last];
      const auto greater =
          static_cast<std::size_t>(std::upper_bound(keys, keys + count, key) - keys);
      std::copy_backward(keys + greater, keys + count, keys + count + copies);
      count = greater;
      std::fill_n(keys + count + copies - copies_of(last), copies_of(last), key);
      copies -= copies_of(last);
    }
    next_ = next;
  }

 private:
  // Small enough to stay in the first-level cache besides the ends of the lists.
  static constexpr std::size_t kSlotBits = 10;
  static constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;

  static std::size_t slot_of(Bits key) noexcept {
    constexpr int kDigits = std::numeric_limits<Bits>::digits;
    return static_cast<Bits>(key * static_cast<Bits>(0x9e3779b97f4a7c15)) >> (kDigits - kSlotBits);
  }
  std::size_t copies_of(std::size_t index) const noexcept {
    return counts_[slot_of(in_order_[index])];
  }

  std::array<Bits, kSlots> keys_;
  std::array<std::uint32_t, kSlots> counts_;
  std::array<Bits, kSlots> in_order_;  // the hot keys, `size_` of them
  std::size_t size_ = 0;
  std::size_t next_ = 0;  // of in_order_, to be written
};

}}}  // namespace vortex::v0::detail

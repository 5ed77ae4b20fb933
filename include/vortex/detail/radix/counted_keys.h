// Bare keys that are counted instead of moved: all of a small range, or the most frequent, which a
// sample finds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "vortex/detail/radix/digit.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 { namespace detail {

// Whether a record is nothing but its key: then any records with that key are as good as those that
// were there, and how many there were is all that a sort needs to know.
template <typename KeyOf>
inline constexpr bool kBareKeys = std::is_same_v<KeyOf, KeyOfWord>;

// Writes `copies` of `key` and returns where they end. May overwrite the memory behind them, up to
// `end`.
template <typename Bits>
Bits* write_copies(Bits key, std::size_t copies, Bits* to, const Bits* end) noexcept {
  // A few at once without asking how many: mostly there are no more.
  constexpr std::size_t kStep = 32 / sizeof(Bits);
  if (end - to < static_cast<std::ptrdiff_t>(kStep)) return std::fill_n(to, copies, key);
  for (std::size_t i = 0; i < kStep; ++i) to[i] = key;
  if (copies > kStep) [[unlikely]]
    std::fill(to + kStep, to + copies, key);
  return to + copies;
}

// All keys of a small range, a counter for each.
template <typename Bits>
class CountedKeys {
 public:
  // The counters stay in the second-level cache.
  static constexpr std::size_t kMaxCounters = std::size_t{1} << 16;

  // Whether to count `count` keys of `range`: reading the counters takes as long as the keys.
  static bool suits(const KeyRange<Bits>& range, std::size_t count) noexcept {
    const Bits span = static_cast<Bits>(range.high - range.low);
    return span < kMaxCounters && span < count && count <= 0xffffffff;
  }

  // `counters`: room for as many as the range has keys.
  CountedKeys(const KeyRange<Bits>& range, std::uint32_t* counters) noexcept
      : range_(range), counters_(counters) {
    std::fill_n(counters_, static_cast<std::size_t>(range.high - range.low) + 1, 0);
  }
  void add(const Bits* keys, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) ++counters_[keys[i] - range_.low];
  }
  // To to[0..count), where `count` is how many have been added.
  void write(Bits* to, std::size_t count) const noexcept {
    const Bits* const end = to + count;
    for (std::size_t i = 0; to != end; ++i) {
      to = write_copies(static_cast<Bits>(range_.low + i), counters_[i], to, end);
    }
  }

 private:
  const KeyRange<Bits> range_;
  std::uint32_t* const counters_;
};

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

  // The counted keys are written out in order, between other keys. This is how many copies of hot
  // keys have not been written yet: of the keys below `key`, or of all up to `key`.
  std::size_t copies_below(Bits key, bool or_equal = false) const noexcept {
    std::size_t copies = 0;
    for (std::size_t i = next_; i < size_; ++i) {
      if (in_order_[i] > key || (in_order_[i] == key && !or_equal)) break;
      copies += copies_of(i);
    }
    return copies;
  }
  std::size_t copies_up_to(Bits key) const noexcept { return copies_below(key, true); }

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

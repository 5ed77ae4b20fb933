// Bare keys that are counted instead of moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

}}}  // namespace vortex::v0::detail

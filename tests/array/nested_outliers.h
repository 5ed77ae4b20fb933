// Keys that lead a radix sort deep and leave lists behind on every level.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace vortex::test {

// One level: the range is cut into 2^bits slices. Nearly all keys lie in slice `through`, where the
// next level cuts again; the first and the last slice hold `at_ends` keys each, and every other
// slice `elsewhere`.
struct NestedLevel {
  int bits = 8;
  std::uint64_t through = 1;
  std::size_t at_ends = 250;
  std::size_t elsewhere = 1;
};

// The levels that came nearest to exhausting the chunks of a sort of 23 000 records of 24 bytes:
// one for every byte of a key but the last.
template <typename Bits>
std::vector<NestedLevel> outliers_at_every_byte() {
  return std::vector<NestedLevel>(sizeof(Bits) - 1);
}

template <typename Random>
std::vector<NestedLevel> random_nesting(Random& random) {
  std::vector<NestedLevel> levels(1 + random() % 16);
  const int bits = static_cast<int>(1 + random() % 8);
  for (NestedLevel& level : levels) {
    level.bits = random() % 4 == 0 ? static_cast<int>(1 + random() % 8) : bits;
    const std::uint64_t last = (std::uint64_t{1} << level.bits) - 1;
    constexpr std::size_t kEnds[] = {0, 1, 3, 60, 250, 1000};
    level.through = random() % 3 == 0   ? last
                    : random() % 2 == 0 ? std::min<std::uint64_t>(1, last)
                                        : random() % (last + 1);
    level.at_ends = kEnds[random() % std::size(kEnds)];
    level.elsewhere = random() % 3;
  }
  return levels;
}

enum class NestedOrder { kShuffled, kOuterFirst, kInnerFirst };

// At least `count` keys, no more unless the levels alone hold more.
template <typename Bits, typename Random>
std::vector<Bits> nested_keys(const std::vector<NestedLevel>& levels, std::size_t count,
                              Random& random, NestedOrder order = NestedOrder::kShuffled) {
  std::vector<Bits> keys;
  int shift = std::numeric_limits<Bits>::digits;
  Bits prefix = 0;
  const auto add = [&](Bits slice, std::size_t copies) {
    // Without levels there is one slice, and no shift as wide as a key.
    const bool all = shift == std::numeric_limits<Bits>::digits;
    const Bits begin = all ? prefix : static_cast<Bits>(prefix | (slice << shift));
    const Bits rest = static_cast<Bits>(all ? ~Bits{0} : (Bits{1} << shift) - 1);
    for (std::size_t i = 0; i < copies; ++i) {
      keys.push_back(static_cast<Bits>(begin | (random() & rest)));
    }
  };
  for (const NestedLevel& level : levels) {
    if (level.bits > shift) break;
    shift -= level.bits;
    const auto last = static_cast<Bits>((Bits{1} << level.bits) - 1);
    const auto through = static_cast<Bits>(level.through);
    for (Bits slice = 0; slice <= last; ++slice) {
      if (slice == through) continue;
      add(slice, slice == 0 || slice == last ? level.at_ends : level.elsewhere);
    }
    prefix = static_cast<Bits>(prefix | (through << shift));
  }
  if (keys.size() < count) add(0, count - keys.size());
  if (order == NestedOrder::kShuffled) std::shuffle(keys.begin(), keys.end(), random);
  if (order == NestedOrder::kInnerFirst) std::reverse(keys.begin(), keys.end());
  return keys;
}

}  // namespace vortex::test

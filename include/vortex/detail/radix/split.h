// Into how many buckets a level splits its records (section 5.5 of the Vortex paper), and where.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Bits that tell `count` records apart until about 64 are left together.
inline int bits_to_split(std::size_t count) noexcept {
  constexpr std::size_t kLeave = 96;
  return count <= kLeave ? 0 : std::bit_width((count - 1) / kLeave);
}

// How many of `bits` bits the first level takes: as few levels of 8 bits at most as there can be,
// which differ least, the larger splits first.
constexpr int first_split(int bits) noexcept {
  const int levels = (bits + 7) / 8;
  return levels == 0 ? 0 : (bits + levels - 1) / levels;
}

// Address space on x86-64.
inline constexpr int kAddressBits = 47;

// The most bits, 8 at most, that a sort of `bytes` bytes may split by when each of its 2^b buckets
// reserves room for all of them, besides the array and its pool. 0: none.
constexpr int most_split_bits(std::uint64_t bytes) noexcept {
  int bits = 8;
  while (bits > 0 && bytes > (std::uint64_t{1} << kAddressBits) / ((1u << bits) + 2)) --bits;
  return bits;
}

// Takes `most` keys of `count`, key_at(place), to `to`: one from each part, at a place that
// periodic data are unlikely to line up with.
template <typename Bits, typename KeyAt>
void take_sample(std::size_t count, std::size_t most, const KeyAt& key_at, Bits* to) noexcept {
  const std::size_t step = count / most;
  for (std::size_t i = 0; i < most; ++i) to[i] = key_at(i * step + (i * 0x9e3779b97f4a7c15) % step);
}

enum class SplitKind { kSlices, kScaled, kClamped, kThreeWay, kDoubling };

template <typename Bits>
struct Split {
  SplitKind kind = SplitKind::kSlices;
  SliceDigit<Bits> slices;
  ScaledDigit<Bits> scaled;
  ClampedDigit<Bits> clamped;
  ThreeWayDigit<Bits> three_way;
  DoublingDigit<Bits> doubling;
  unsigned buckets = 0;
  bool repeats = false;  // some keys are much more frequent than others
};

// Calls body(digit) with the split's digit.
template <typename Bits, typename Body>
void with_digit(const Split<Bits>& split, Body body) {
  switch (split.kind) {
    case SplitKind::kSlices:
      return body(split.slices);
    case SplitKind::kScaled:
      return body(split.scaled);
    case SplitKind::kClamped:
      return body(split.clamped);
    case SplitKind::kThreeWay:
      return body(split.three_way);
    case SplitKind::kDoubling:
      return body(split.doubling);
  }
}

// The keys that bucket `bucket` of a split of `parent` can hold.
template <typename Bits>
KeyRange<Bits> range_of(const Split<Bits>& split, unsigned bucket,
                        const KeyRange<Bits>& parent) noexcept {
  KeyRange<Bits> range;
  with_digit(split, [&](const auto& digit) { range = digit.range_of(bucket, parent); });
  return range;
}

// Whether the range of a bucket is about as narrow as that of the keys which it will hold, so that
// these need not be looked at. Buckets at the ends of a clamped split reach to the ends of the
// parent.
template <typename Bits>
bool is_tight(const Split<Bits>& split, unsigned bucket) noexcept {
  return split.kind == SplitKind::kSlices || split.kind == SplitKind::kScaled ||
         (split.kind == SplitKind::kClamped && bucket != 0 && bucket + 1 != split.buckets);
}

// All keys of the range in at most `most` equal slices: right for uniform keys.
template <typename Bits>
Split<Bits> even_split(const KeyRange<Bits>& range, unsigned most) noexcept {
  Split<Bits> split;
  if (std::has_single_bit(most)) {
    split.slices = SliceDigit<Bits>::of(range, std::countr_zero(most));
    split.buckets = split.slices.buckets(range);
  } else {
    split.kind = SplitKind::kScaled;
    split.scaled = ScaledDigit<Bits>::of(range, most);
    split.buckets = split.scaled.buckets(range);
  }
  return split;
}

// Sorts the sample and chooses: one key that is a quarter of the sample goes into a bucket of its
// own; otherwise the part of the range in which the sample lies is cut into equal slices, or into
// slices that double in width if that spreads the sample better. Which keys lie outside the sample
// does not matter for correctness, only for balance. At most `most` >= 3 buckets.
template <typename Bits>
Split<Bits> split_by_sample(Bits* sample, std::size_t size, const KeyRange<Bits>& range,
                            unsigned most) noexcept {
  std::sort(sample, sample + size);
  std::size_t most_equal = 0, equal = 0;
  Split<Bits> split;
  for (std::size_t i = 0; i < size; ++i) {
    equal = i != 0 && sample[i] == sample[i - 1] ? equal + 1 : 1;
    if (equal <= most_equal) continue;
    most_equal = equal;
    split.three_way.pivot = sample[i];
  }
  split.repeats = 128 * most_equal >= size;
  if (4 * most_equal >= size) {
    split.kind = SplitKind::kThreeWay;
    split.buckets = 3;
    return split;
  }
  const KeyRange<Bits> seen{sample[0], sample[size - 1]};
  // Uniform keys leave gaps of about 1/size of the range at its ends; within four of those the
  // whole range is as good and nothing needs clamping.
  const Bits span = static_cast<Bits>(range.high - range.low);
  const Bits gap = static_cast<Bits>(span / size * 8);
  const bool whole = static_cast<Bits>(seen.low - range.low) <= gap &&
                     static_cast<Bits>(range.high - seen.high) <= gap;
  const int bits = std::bit_width(most) - 1;
  split.clamped = ClampedDigit<Bits>::of(seen, std::bit_width(most - 1));
  if (split.clamped.buckets() > most) split.clamped = ClampedDigit<Bits>::of(seen, bits);
  std::size_t fullest = 0, run = 0;
  for (std::size_t i = 0; i < size; ++i) {
    run = i != 0 && split.clamped(sample[i]) == split.clamped(sample[i - 1]) ? run + 1 : 1;
    fullest = std::max(fullest, run);
  }
  const std::size_t even = (size >> bits) + 1;
  if (fullest > 8 * even) {
    split.doubling = DoublingDigit<Bits>::of(sample, size, most);
    std::size_t fullest_doubling = 0;
    run = 0;
    for (std::size_t i = 0; i < size; ++i) {
      run = i != 0 && split.doubling(sample[i]) == split.doubling(sample[i - 1]) ? run + 1 : 1;
      fullest_doubling = std::max(fullest_doubling, run);
    }
    if (2 * fullest_doubling < fullest) {
      split.kind = SplitKind::kDoubling;
      split.buckets = split.doubling.buckets();
      return split;
    }
  }
  if (whole) {
    Split<Bits> slices = even_split(range, most);
    slices.repeats = split.repeats;
    return slices;
  }
  split.kind = SplitKind::kClamped;
  split.buckets = split.clamped.buckets();
  return split;
}

}}}  // namespace vortex::v0::detail

// Into how many buckets a level splits its records (section 5.5 of the Vortex paper), and where:
// found out from a sample of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/record/record_codec.h"

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

// Where `count` records, at least as many as the sample, are looked at for key `i` of a sample of
// `size`: one in each part, at a place that periodic data are unlikely to line up with.
inline std::size_t sample_place(std::size_t i, std::size_t size, std::size_t count) noexcept {
  const std::size_t step = count / size;
  return i * step + (i * 0x9e3779b97f4a7c15 >> 32) % step;
}
// Takes `most` keys of `count`, key_at(place), to `to`.
template <typename Bits, typename KeyAt>
void take_sample(std::size_t count, std::size_t most, const KeyAt& key_at, Bits* to) noexcept {
  for (std::size_t i = 0; i < most; ++i) to[i] = key_at(sample_place(i, most, count));
}

enum class SplitKind { kSlices, kScaled, kClamped, kThreeWay, kDoubling, kLinear };

template <typename Bits>
struct Split {
  SplitKind kind = SplitKind::kSlices;
  SliceDigit<Bits> slices;
  ScaledDigit<Bits> scaled;
  ClampedDigit<Bits> clamped;
  ThreeWayDigit<Bits> three_way;
  DoublingDigit<Bits> doubling;
  LinearDigit<Bits, true> linear;
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
    case SplitKind::kLinear:
      return body(split.linear);
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

// The most keys of a sorted sample that lie in one bucket.
template <typename Bits, typename Digit>
std::size_t fullest_bucket(const Bits* sample, std::size_t size, const Digit& digit) noexcept {
  std::size_t fullest = 0, run = 0;
  for (std::size_t i = 0; i < size; ++i) {
    run = i != 0 && digit(sample[i]) == digit(sample[i - 1]) ? run + 1 : 1;
    fullest = std::max(fullest, run);
  }
  return fullest;
}

// Whether the range of a bucket is about as narrow as that of the keys which it will hold, so that
// these need not be looked at. Buckets at the ends of a clamped split reach to the ends of the
// parent.
template <typename Bits>
bool is_tight(const Split<Bits>& split, unsigned bucket) noexcept {
  return split.kind == SplitKind::kSlices || split.kind == SplitKind::kScaled ||
         ((split.kind == SplitKind::kClamped || split.kind == SplitKind::kLinear) && bucket != 0 &&
          bucket + 1 != split.buckets);
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
// does not matter for correctness, only for balance. At most `most` >= 3 buckets. `floats`: keys
// are encoded floating-point numbers of all their bits, which may be cut by their values.
template <typename Bits>
Split<Bits> split_by_sample(Bits* sample, std::size_t size, const KeyRange<Bits>& range,
                            unsigned most, bool floats = false) noexcept {
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
  const std::size_t fullest = fullest_bucket(sample, size, split.clamped);
  if (floats && LinearDigit<Bits, true>::suits(seen)) {
    split.linear = LinearDigit<Bits, true>::of(seen, most);
    if (split.linear.factor > 0 && 2 * fullest_bucket(sample, size, split.linear) < fullest) {
      split.kind = SplitKind::kLinear;
      split.buckets = split.linear.buckets();
      return split;
    }
  }
  const std::size_t even = (size >> bits) + 1;
  if (fullest > 8 * even) {
    split.doubling = DoublingDigit<Bits>::of(sample, size, most);
    if (2 * fullest_bucket(sample, size, split.doubling) < fullest) {
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

// A split, and whether hot keys are left out of it and counted.
template <typename Bits>
struct SplitLevel {
  Split<Bits> split;
  bool counts_hot = false;
};

// Takes samples and chooses splits. Allocates in its constructor only.
template <typename Record, typename KeyOf>
class LevelSplitter {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  using Dense = DenseSorter<Record, KeyOf>;
  static constexpr std::size_t kSample = 512;

  // All outlive it. `workspace` is room for twice HotKeys::kSample records, free between calls.
  LevelSplitter(const SortRules<Record, KeyOf>& rules, const Dense& dense, Record* workspace,
                OutputWithHotKeys<Record, KeyOf>& output)
      : rules_(rules),
        dense_(dense),
        workspace_(workspace),
        output_(output),
        sample_(std::make_unique<Bits[]>(kSample)) {}

  // The level that `count` records of the range are split by: take(to, most) takes a sample of at
  // most `most` keys, bits_of(n) are the bits that n records are split by. Where some keys of bare
  // ones are frequent they become hot: they are counted, and only the others are split. Then the
  // output has begun to count.
  template <typename BitsOf, typename Take>
  SplitLevel<Bits> split(std::size_t count, const KeyRange<Bits>& range, BitsOf bits_of,
                         Take take) noexcept {
    SplitLevel<Bits> level;
    const std::size_t size = take(sample_.get(), kSample);
    level.split = split_by_sample(sample_.get(), size, range, 1u << bits_of(count), rules_.floats);
    if constexpr (kBareKeys<KeyOf>) {
      constexpr std::size_t kMaxForHot = std::size_t{1} << 23;
      if (!level.split.repeats || output_.counting() || count < 16 * HotKeys<Bits>::kSample ||
          count > kMaxForHot) {
        return level;
      }
      auto* const sample = reinterpret_cast<Bits*>(workspace_);
      const std::size_t looked = take(sample, HotKeys<Bits>::kSample);
      dense_.sort(workspace_, looked, workspace_ + HotKeys<Bits>::kSample, false);
      const std::size_t others = output_.hot_keys().choose(sample, looked);
      if (looked - others < looked / 8) return level;
      output_.begin_counting();
      level.counts_hot = true;
      const std::size_t few = std::min(others, kSample);
      for (std::size_t i = 0; i < few; ++i) sample_[i] = sample[i * others / few];
      const int fewer = std::max(bits_of(count / looked * others), 2);
      level.split = few == 0
                        ? even_split(range, 1u << fewer)
                        : split_by_sample(sample_.get(), few, range, 1u << fewer, rules_.floats);
      level.split.repeats = true;
    }
    return level;
  }

  // Calls body(bucket_of, leave_out) with what tells a record's bucket and whether it is counted.
  template <typename Body>
  void with_level(const SplitLevel<Bits>& level, Body body) noexcept {
    with_digit(level.split, [&](const auto& digit) {
      const auto bucket_of = rules_.on_record(digit);
      if constexpr (kBareKeys<KeyOf>) {
        if (level.counts_hot) {
          return body(bucket_of,
                      [&hot = output_.hot_keys()](Bits key) noexcept { return hot.count(key); });
        }
      }
      body(bucket_of, [](const Record&) noexcept { return false; });
    });
  }

  // Up to `most` keys of the array or chain, evenly spread, to `to`; returns how many.
  template <typename Codec>
  std::size_t take(const Record* records, std::size_t count, const Codec& codec, Bits* to,
                   std::size_t most) const noexcept {
    const EncodedKey key_of(rules_.key_of, codec);
    take_sample(
        count, most, [&](std::size_t at) noexcept { return key_of(records[at]); }, to);
    return most;
  }
  std::size_t take(const ChunkArena<Record>& arena, const Chain& chain, Bits* to,
                   std::size_t most) const noexcept {
    return take(NodeCursor{&arena, chain.head}, chain.count, to, most);
  }
  // From a list of `count` records: `cursor` has data(), size() and advance(), and stands at its
  // first piece. Which records are taken depends on their order alone, not on the pieces.
  template <typename Cursor>
  std::size_t take(Cursor cursor, std::size_t count, Bits* to, std::size_t most) const noexcept {
    constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
    const std::size_t chunks = count / kChunk;
    // From as many records as fill a chunk, evenly spread, a few evenly spread in turn.
    const std::size_t every = std::max<std::size_t>(chunks / most, 1);
    const std::size_t from_each =
        std::clamp<std::size_t>(most / std::max<std::size_t>(chunks, 1), 1, kChunk);
    std::size_t taken = 0, begin = 0;
    for (std::size_t index = 0; index < chunks && taken + from_each <= most; index += every) {
      const std::size_t start = index * kChunk;
      forward(cursor, begin, start);
      for (std::size_t i = 0; i < from_each; ++i) {
        const std::size_t place = start + (i * kChunk / from_each + index) % kChunk;
        Cursor at = cursor;
        std::size_t before = begin;
        forward(at, before, place);
        to[taken++] = rules_.key_of(at.data()[place - before]);
      }
    }
    return taken;
  }

 private:
  struct NodeCursor {
    const Record* data() const noexcept { return arena->data(node); }
    std::size_t size() const noexcept { return arena->size(node); }
    void advance() noexcept { node = arena->next(node); }
    const ChunkArena<Record>* arena;
    std::uint32_t node;
  };

  // Moves a cursor, before which there are `before` records, to the piece with that record.
  template <typename Cursor>
  static void forward(Cursor& cursor, std::size_t& before, std::size_t place) noexcept {
    while (place - before >= cursor.size()) {
      before += cursor.size();
      cursor.advance();
    }
  }

  const SortRules<Record, KeyOf>& rules_;
  const Dense& dense_;
  Record* const workspace_;
  OutputWithHotKeys<Record, KeyOf>& output_;
  const std::unique_ptr<Bits[]> sample_;
};

}}}  // namespace vortex::v0::detail

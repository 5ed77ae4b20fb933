// Monotone maps from the bits of a key to the number of its bucket.
//
// Code that runs for every record chooses by ?: instead of std::min() and std::max(), which take
// references. With AddressSanitizer, gcc 12 moves the store that gives a constant or a temporary
// its value out of an unrolled loop, to where the life of the variable has ended, and the sanitizer
// ends the program.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace vortex { inline namespace v0 { namespace detail {

inline constexpr unsigned kMaxBuckets = 256;

// The keys a bucket can hold, both ends included.
template <typename Bits>
struct KeyRange {
  Bits low = 0;
  Bits high = std::numeric_limits<Bits>::max();

  // Of no keys, and with others.
  static constexpr KeyRange none() noexcept { return {std::numeric_limits<Bits>::max(), 0}; }
  constexpr void widen(const KeyRange& keys) noexcept {
    low = keys.low < low ? keys.low : low;
    high = keys.high > high ? keys.high : high;
  }
  constexpr void widen(Bits key) noexcept { widen({key, key}); }
};

// Equal slices of a range that holds every key: the bits at some position, relative to `low`.
template <typename Bits>
struct SliceDigit {
  Bits low = 0;
  int shift = 0;

  unsigned operator()(Bits key) const noexcept {
    return static_cast<unsigned>(static_cast<Bits>(key - low) >> shift);
  }

  // 2^bits slices or fewer. `range` must not be a single key.
  static SliceDigit of(const KeyRange<Bits>& range, int bits) noexcept {
    const int width = std::bit_width(static_cast<Bits>(range.high - range.low));
    return {range.low, std::max(width - bits, 0)};
  }
  unsigned buckets(const KeyRange<Bits>& range) const noexcept { return (*this)(range.high) + 1; }
  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    const Bits first = static_cast<Bits>(low + (static_cast<Bits>(bucket) << shift));
    const Bits last = static_cast<Bits>(first + ((Bits{1} << shift) - 1));
    return {first, last < first ? parent.high : std::min(last, parent.high)};
  }
};

// Equal slices of a range that holds every key, as many as one likes.
template <typename Bits>
struct ScaledDigit {
  Bits low = 0;
  int shift = 0;
  std::uint64_t factor = 0;

  unsigned operator()(Bits key) const noexcept {
    return static_cast<unsigned>(
        (static_cast<std::uint64_t>(static_cast<Bits>(key - low) >> shift) * factor) >> 32);
  }

  // `slices` < 2^16 of them; of a range of fewer keys, some can hold none.
  static ScaledDigit of(const KeyRange<Bits>& range, unsigned slices) noexcept {
    const Bits span = static_cast<Bits>(range.high - range.low);
    // 32 bits of a distance tell the slices apart, and their product with the factor fits 64.
    const int shift = std::max(static_cast<int>(std::bit_width(span)) - 32, 0);
    const auto last = static_cast<std::uint64_t>(span >> shift);
    return {range.low, shift, (std::uint64_t{slices} << 32) / (last + 1)};
  }
  unsigned buckets(const KeyRange<Bits>& range) const noexcept { return (*this)(range.high) + 1; }
  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    const Bits first = first_of(bucket);
    const Bits next = first_of(bucket + 1);
    const auto last = static_cast<Bits>(next - 1);
    // Behind the last slice the numbers may wrap around.
    return {first, bucket == (*this)(parent.high) ? parent.high : last};
  }

 private:
  Bits first_of(unsigned bucket) const noexcept {
    const std::uint64_t distance = ((std::uint64_t{bucket} << 32) + factor - 1) / factor;
    return static_cast<Bits>(low + static_cast<Bits>(static_cast<Bits>(distance) << shift));
  }
};

// Slices of a range in which most keys lie, taken from a sample; keys outside go to the first or
// last.
template <typename Bits>
struct ClampedDigit {
  Bits low = 0;
  int shift = 0;
  Bits last = 0;

  unsigned operator()(Bits key) const noexcept {
    const Bits distance = key < low ? Bits{0} : static_cast<Bits>(key - low);
    const Bits slice = static_cast<Bits>(distance >> shift);
    return static_cast<unsigned>(slice < last ? slice : last);
  }

  static ClampedDigit of(const KeyRange<Bits>& sampled, int bits) noexcept {
    const auto slice = SliceDigit<Bits>::of(sampled, bits);
    return {slice.low, slice.shift, static_cast<Bits>(slice(sampled.high))};
  }
  unsigned buckets() const noexcept { return static_cast<unsigned>(last) + 1; }
  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    const Bits first = static_cast<Bits>(low + (static_cast<Bits>(bucket) << shift));
    const Bits end = static_cast<Bits>(first + ((Bits{1} << shift) - 1));
    return {bucket == 0 ? parent.low : first, bucket == last || end < first ? parent.high : end};
  }
};

// Equal slices of the values of encoded floating-point keys. Those of their bits are finest where
// values are smallest, so that most of them stay empty: numbers of one scale are spread by value.
// `clamps`: the range is that of a sample, and keys outside, NaNs among them, go to the first or
// last slice.
template <typename Bits, bool clamps = false>
struct LinearDigit {
  using Float = std::conditional_t<sizeof(Bits) == 4, float, double>;
  static constexpr unsigned kMaxSlices = 16384;

  Bits low = 0;
  Bits high = 0;
  Float first = 0;  // the number that `low` is
  Float factor = 0;

  unsigned operator()(Bits key) const noexcept {
    if constexpr (clamps) {
      key = key < low ? low : key;
      key = key < high ? key : high;
    }
    return static_cast<unsigned>(static_cast<int>(scaled(key)));
  }
  // The slice, and where in it the key lies, of the range that holds it.
  Float scaled(Bits key) const noexcept {
    // Each step keeps the order of numbers, however it is rounded.
    return (number(key) - first) * factor;
  }

  // At most `slices` < kMaxSlices of them, of a range that is no single key. Its factor is 0 where
  // the range is not one of numbers that can be cut so: NaNs, infinite ones and those near to them,
  // or such as lie too near to each other. Their bits tell that: programs can have asked for
  // signals where arithmetic is invalid or overflows.
  static LinearDigit of(const KeyRange<Bits>& range, unsigned slices) noexcept {
    using Limits = std::numeric_limits<Float>;
    LinearDigit digit{range.low, range.high, 0, 0};
    constexpr Bits kMost = std::bit_cast<Bits>(Limits::max() / 2);
    if (magnitude(range.low) > kMost || magnitude(range.high) > kMost) return digit;
    digit.first = number(range.low);
    const Float span = number(range.high) - digit.first;
    // A little less, so that the last key falls into the last slice.
    if (span >= kMaxSlices * Limits::min())
      digit.factor = static_cast<Float>(slices) / span * (1 - Float{1} / 65536);
    return digit;
  }
  // Numbers of one sign and exponent are cut as well by their bits, and faster.
  static bool suits(const KeyRange<Bits>& range) noexcept {
    return ((range.low ^ range.high) >> (std::numeric_limits<Float>::digits - 1)) != 0;
  }
  unsigned buckets() const noexcept { return (*this)(high) + 1; }
  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    const Bits begin = bucket == 0 ? parent.low : first_of(bucket);
    return {begin,
            bucket + 1 == buckets() ? parent.high : static_cast<Bits>(first_of(bucket + 1) - 1)};
  }

 private:
  static constexpr int kSign = std::numeric_limits<Bits>::digits - 1;

  // As KeyEncoder does it.
  static Bits decoded(Bits key) noexcept {
    const auto flipped = static_cast<Bits>(key ^ (Bits{1} << kSign));
    const auto negative = static_cast<Bits>(-static_cast<Bits>(flipped >> kSign));
    return static_cast<Bits>(flipped ^ (negative >> 1));
  }
  static Float number(Bits key) noexcept { return std::bit_cast<Float>(decoded(key)); }
  // The bits without the sign.
  static Bits magnitude(Bits key) noexcept {
    return static_cast<Bits>(decoded(key) & ((Bits{1} << kSign) - 1));
  }
  // The least key of the range in this bucket or in one behind it.
  Bits first_of(unsigned bucket) const noexcept {
    Bits begin = low, end = high;
    while (begin < end) {
      const auto middle = static_cast<Bits>(begin + (end - begin) / 2);
      if ((*this)(middle) < bucket) {
        begin = static_cast<Bits>(middle + 1);
      } else {
        end = middle;
      }
    }
    return begin;
  }
};

// Below, equal to and above one key that is a large part of all.
template <typename Bits>
struct ThreeWayDigit {
  Bits pivot = 0;

  unsigned operator()(Bits key) const noexcept {
    return static_cast<unsigned>(key >= pivot) + static_cast<unsigned>(key > pivot);
  }
  unsigned buckets() const noexcept { return 3; }
  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    if (bucket == 1) return {pivot, pivot};
    if (bucket == 0) return {parent.low, pivot == 0 ? pivot : static_cast<Bits>(pivot - 1)};
    return {pivot == std::numeric_limits<Bits>::max() ? pivot : static_cast<Bits>(pivot + 1),
            parent.high};
  }
};

// For keys that crowd at the low end, as ranks of a Zipf distribution do: classes that double in
// width, each in eight slices, gathered into buckets that the sample fills evenly.
template <typename Bits>
struct DoublingDigit {
  // The exponent of a number and three bits behind it, as double has them: numbers below sixteen
  // have classes of their own, and some classes there none.
  static constexpr unsigned kClasses = 8 * std::min(std::numeric_limits<Bits>::digits, 63) + 1;

  Bits low = 0;
  unsigned count = 0;
  std::array<std::uint8_t, kClasses> bucket_of{};

  static unsigned class_of(Bits distance) noexcept {
    // Converting a signed number is what processors do fast. Clearing the fifth bit and some below
    // keeps it from being rounded up to the next class.
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    const std::uint64_t number = distance < kMax ? distance : kMax;
    const auto kept = static_cast<std::int64_t>(number & ~(number >> 4));
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(kept));
    constexpr int kBefore = 8 * 1023 - 1;
    const int index = static_cast<int>(bits >> 49) - kBefore;
    return index < 0 ? 0u : static_cast<unsigned>(index);
  }
  // The least number of the class or of those after it.
  static Bits first_of(unsigned index) noexcept {
    if (index == 0) return 0;
    const unsigned exponent = (index - 1) / 8;
    const std::uint64_t leading = std::uint64_t{8 + (index - 1) % 8};
    return static_cast<Bits>(exponent >= 3 ? leading << (exponent - 3)
                                           : (leading + (7u >> exponent)) >> (3 - exponent));
  }

  unsigned operator()(Bits key) const noexcept {
    return bucket_of[class_of(key < low ? Bits{0} : static_cast<Bits>(key - low))];
  }
  unsigned buckets() const noexcept { return count; }

  // `sorted` holds `size` sampled keys in order.
  static DoublingDigit of(const Bits* sorted, std::size_t size, unsigned most) noexcept {
    DoublingDigit digit;
    digit.low = sorted[0];
    // A class gets a bucket of its own as soon as the classes since the last border hold their
    // share.
    std::size_t at = 0, held = 0;
    unsigned bucket = 0;
    for (unsigned index = 0; index < kClasses; ++index) {
      std::size_t here = 0;
      while (at < size && class_of(static_cast<Bits>(sorted[at] - digit.low)) == index)
        ++at, ++here;
      if (held != 0 && (held + here) * most > size && bucket + 1 < most) {
        ++bucket;
        held = 0;
      }
      digit.bucket_of[index] = static_cast<std::uint8_t>(bucket);
      held += here;
    }
    digit.count = bucket + 1;
    return digit;
  }

  KeyRange<Bits> range_of(unsigned bucket, const KeyRange<Bits>& parent) const noexcept {
    const auto begin = std::lower_bound(bucket_of.begin(), bucket_of.end(), bucket);
    const auto end = std::upper_bound(bucket_of.begin(), bucket_of.end(), bucket);
    KeyRange<Bits> range = parent;
    if (bucket != 0) {
      range.low =
          static_cast<Bits>(low + first_of(static_cast<unsigned>(begin - bucket_of.begin())));
    }
    if (end != bucket_of.end()) {
      const Bits next =
          static_cast<Bits>(low + first_of(static_cast<unsigned>(end - bucket_of.begin())) - 1);
      // Classes beyond the largest key wrap around.
      if (next >= range.low) range.high = next;
    }
    return range;
  }
};

}}}  // namespace vortex::v0::detail

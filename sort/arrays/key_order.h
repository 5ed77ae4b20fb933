// Keys with the places of their records in one word each, and what is told of keys before they are
// sorted so, and after.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sort/memory/shares.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// A word holds the place of a record in its lowest bits and as much of the key as there is room
// for above them: sorted as numbers, words are in the order of these parts of the keys, and equal
// ones in the order of their places.
class KeyWords {
 public:
  KeyWords(const KeyRange<std::uint64_t>& range, std::size_t count) noexcept
      : least_(range.low),
        width_(range.high - range.low),
        place_bits_(static_cast<int>(std::bit_width(count - 1))),
        dropped_(std::max(0, place_bits_ + static_cast<int>(std::bit_width(width_)) - 64)) {}

  // Words of encoded doubles that are such themselves, so that they can be sorted by their values:
  // the place takes the place of the lowest bits. `short_keys`: these are those of a number that
  // has fewer digits, such as a float, and tell nothing.
  static KeyWords of_doubles(std::size_t count, bool short_keys) noexcept {
    KeyWords words({0, ~std::uint64_t{0}}, count);
    if (short_keys) words.untold_ = (std::uint64_t{1} << words.dropped_) - 1;
    return words;
  }
  // Whether the lowest `bits` of an encoded double are those of a number with fewer digits.
  static bool is_short(std::uint64_t key, int bits) noexcept {
    return (as_encoded(key) & ((std::uint64_t{1} << bits) - 1)) == 0;
  }

  // Whether words can hold the key, which is one of those that they were made for.
  bool holds(std::uint64_t key) const noexcept {
    return (key - least_ <= width_) & ((as_encoded(key) & untold_) == 0);
  }
  // Whether words tell whole keys.
  bool exact() const noexcept { return dropped_ == 0 || untold_ != 0; }
  // The lowest bits of a key that words do not hold.
  int dropped() const noexcept { return dropped_; }

  std::uint64_t word(std::uint64_t key, std::size_t place) const noexcept {
    return (key - least_) >> dropped_ << place_bits_ | place;
  }
  std::size_t place(std::uint64_t word) const noexcept {
    return word & ((std::uint64_t{1} << place_bits_) - 1);
  }
  // The key, where words are exact.
  std::uint64_t key(std::uint64_t word) const noexcept {
    const std::uint64_t key = (word >> place_bits_ << dropped_) + least_;
    return key | (((key >> 63) - 1) & untold_);
  }
  bool same_part(std::uint64_t left, std::uint64_t right) const noexcept {
    return (left ^ right) >> place_bits_ == 0;
  }
  // Whether two neighbours among the words have the same part: for vectors, without a branch. More
  // keys than one, so that the difference has a bit less than a word.
  bool any_same_part(const std::uint64_t* words, std::size_t count) const noexcept {
    std::uint64_t borrows = 0;
    for (std::size_t i = 1; i < count; ++i)
      borrows |= ((words[i] ^ words[i - 1]) >> place_bits_) - 1;
    return borrows >> 63 != 0;
  }
  std::uint64_t with_place(std::uint64_t word, std::size_t place) const noexcept {
    return word - this->place(word) + place;
  }

 private:
  // Zeros behind the last digit of a number, which negative ones have as ones.
  static std::uint64_t as_encoded(std::uint64_t key) noexcept { return key ^ ((key >> 63) - 1); }

  std::uint64_t least_;
  std::uint64_t width_;
  int place_bits_;
  int dropped_;
  std::uint64_t untold_ = 0;  // of the bits that are dropped, those that tell nothing
};

// The order of pairs of a key and a place by both.
inline bool before_by_both(const Pair64& a, const Pair64& b) noexcept {
  return a.key != b.key ? a.key < b.key : a.value < b.value;
}

// The most keys that for_each_block() hands over at once.
inline constexpr std::size_t kKeyBlock = 512;

// Calls body(bits, begin, size) for blocks of keys [begin, end).
template <typename Body>
void for_each_block(const KeySource& keys, std::size_t begin, std::size_t end, Body body) {
  std::array<std::uint64_t, kKeyBlock> bits;
  while (begin != end) {
    const std::size_t size = std::min(kKeyBlock, end - begin);
    keys.read(begin, size, bits.data());
    body(bits.data(), begin, size);
    begin += size;
  }
}

// Finds out whether keys are in order while they pass by. Keys at random are found to be in none
// after a few.
class OrderWatch {
 public:
  // Watches keys from `begin` on, which are in order if they are so with the key in front of them.
  OrderWatch(const KeySource& keys, std::size_t begin) noexcept
      : before_(begin == 0 ? 0 : keys[begin - 1]) {}

  void add(const std::uint64_t* bits, std::size_t begin, std::size_t size) noexcept {
    if (!ascending_ && !descending_) return;
    bool falls = begin != 0 && bits[0] < before_, rises = begin != 0 && bits[0] >= before_;
    for (std::size_t i = 1; i < size; ++i) {
      falls |= bits[i] < bits[i - 1];
      rises |= bits[i] >= bits[i - 1];
    }
    ascending_ &= !falls;
    descending_ &= !rises;
    before_ = bits[size - 1];
  }

  bool ascending() const noexcept { return ascending_; }
  // Whether they are in descending order, with no two equal.
  bool descending() const noexcept { return descending_; }

 private:
  std::uint64_t before_;
  bool ascending_ = true;
  bool descending_ = true;
};

// Keys that are spread evenly over an array, in order: so few that to look at them first costs
// little.
class KeySample {
 public:
  KeySample(const KeySource& keys, std::size_t count) noexcept;

  // What all keys are likely to lie between.
  KeyRange<std::uint64_t> likely_range() const noexcept;
  // Whether all seem to be encoded doubles that are better cut by their values than by their bits.
  // Others are sorted as well by that, if slower.
  bool are_doubles() const noexcept;
  // Words for them, see there.
  KeyWords words_of_doubles() const noexcept;
  // Whether so few keys are expected to share a word's part of the key that they are looked up one
  // by one.
  bool has_few_ties(const KeyWords& form) const noexcept;

 private:
  static constexpr std::size_t kLeast = 64, kMost = 1024, kOneOf = 256;

  std::size_t count_;  // of all keys
  std::size_t size_;
  std::array<std::uint64_t, kMost> keys_;
};

KeyRange<std::uint64_t> range_of(const KeySource& keys, Shares& shares);

// Puts words with equal parts of keys, which are sorted, into the order of the whole keys. `group`
// is room that is used again.
void settle_ties(const KeySource& keys, std::uint64_t* words, std::size_t count,
                 const KeyWords& form, std::vector<Pair64>& group);

}}}  // namespace vortex::v0::detail

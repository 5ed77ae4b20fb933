// Keys and places of records in one word each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 { namespace detail {

// What keys lie between, both included.
struct KeyExtent {
  std::uint64_t least;
  std::uint64_t greatest;
};

// A word holds the place of a record in its lowest bits and as much of the key as there is room
// for above them: sorted as numbers, words are in the order of these parts of the keys, and equal
// ones in the order of their places.
class KeyWords {
 public:
  KeyWords(const KeyExtent& range, std::size_t count) noexcept
      : least_(range.least),
        width_(range.greatest - range.least),
        place_bits_(static_cast<int>(std::bit_width(count - 1))),
        dropped_(std::max(0, place_bits_ + static_cast<int>(std::bit_width(width_)) - 64)) {}

  // Whether words can hold the key, which is one of those that they were made for.
  bool holds(std::uint64_t key) const noexcept { return key - least_ <= width_; }
  // Whether words hold whole keys.
  bool exact() const noexcept { return dropped_ == 0; }
  // The lowest bits of a key that words do not hold.
  int dropped() const noexcept { return dropped_; }

  std::uint64_t word(std::uint64_t key, std::size_t place) const noexcept {
    return (key - least_) >> dropped_ << place_bits_ | place;
  }
  std::size_t place(std::uint64_t word) const noexcept {
    return word & ((std::uint64_t{1} << place_bits_) - 1);
  }
  // The key, where words are exact.
  std::uint64_t key(std::uint64_t word) const noexcept { return (word >> place_bits_) + least_; }
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
  std::uint64_t least_;
  std::uint64_t width_;
  int place_bits_;
  int dropped_;
};

}}}  // namespace vortex::v0::detail

// What is told of keys before they are sorted with their places, and after.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sort/arrays/key_words.h"
#include "sort/memory/shares.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/key_source.h"

namespace vortex { inline namespace v0 { namespace detail {

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
  KeyExtent likely_extent() const noexcept;
  // Whether so few keys are expected to share a word's part of the key that they are looked up one
  // by one.
  bool has_few_ties(const KeyWords& form) const noexcept;

 private:
  static constexpr std::size_t kLeast = 64, kMost = 1024, kOneOf = 256;

  std::size_t count_;  // of all keys
  std::size_t size_;
  std::array<std::uint64_t, kMost> keys_;
};

// What the keys lie between.
KeyExtent extent_of(const KeySource& keys, Shares& shares);

// Puts words with equal parts of keys, which are sorted, into the order of the whole keys. `group`
// is room that is used again.
void settle_ties(const KeySource& keys, std::uint64_t* words, std::size_t count,
                 const KeyWords& form, std::vector<Pair64>& group);

}}}  // namespace vortex::v0::detail

// Rows moved so that the one that belongs at a place is there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sort/arrays/key_order.h"
#include "sort/arrays/nth_key.h"
#include "sort/arrays/rows.h"
#include "vortex/detail/record/key_source.h"

namespace vortex { inline namespace v0 { namespace detail {

// The places of rows [begin, end) whose keys satisfy `Such`, a block at a time.
template <typename Such>
class PlacesOfSuch {
 public:
  PlacesOfSuch(const KeySource& keys, std::size_t begin, std::size_t end, Such such)
      : keys_(keys), begin_(begin), end_(end), such_(such) {}

  // How many are known now: none only where there are no more.
  std::size_t find() noexcept {
    while (used_ == size_ && begin_ != end_) {
      const std::size_t size = std::min(kBlock, end_ - begin_);
      std::array<std::uint64_t, kBlock> bits;
      keys_.read(begin_, size, bits.data());
      used_ = size_ = 0;
      for (std::size_t i = 0; i < size; ++i) {
        places_[size_] = begin_ + i;
        size_ += such_(bits[i]) ? 1 : 0;
      }
      begin_ += size;
    }
    return size_ - used_;
  }
  // The next of them, which are used now.
  const std::size_t* take(std::size_t count) noexcept {
    used_ += count;
    return places_.data() + used_ - count;
  }

 private:
  static constexpr std::size_t kBlock = 512;

  const KeySource& keys_;
  std::size_t begin_;
  std::size_t end_;
  Such such_;
  std::size_t used_ = 0;
  std::size_t size_ = 0;
  std::array<std::size_t, kBlock> places_;
};

// Swaps rows so that those with keys less than `nth.bits` lie in front, and a row with that key at
// place `at`, which is the one that it has in a sorted array. `keys` are those of the rows.
inline void partition_rows(const Rows& rows, std::size_t count, const KeySource& keys,
                           const NthKey& nth, std::size_t at) noexcept {
  const auto exchange = [&](auto& left, auto& right) {
    for (;;) {
      const std::size_t size = std::min(left.find(), right.find());
      if (size == 0) return;
      rows.swap(size, left.take(size), right.take(size));
    }
  };
  const std::uint64_t key = nth.bits;
  PlacesOfSuch not_less(keys, 0, nth.less, [=](std::uint64_t bits) { return bits >= key; });
  PlacesOfSuch less(keys, nth.less, count, [=](std::uint64_t bits) { return bits < key; });
  exchange(not_less, less);
  // Rows that are equal fill the places up to `at`; those behind them may be anywhere.
  PlacesOfSuch greater(keys, nth.less, at + 1, [=](std::uint64_t bits) { return bits != key; });
  PlacesOfSuch equal(keys, at + 1, count, [=](std::uint64_t bits) { return bits == key; });
  exchange(greater, equal);
}

}}}  // namespace vortex::v0::detail

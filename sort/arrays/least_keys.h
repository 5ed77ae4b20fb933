// The few least of many keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sort/arrays/key_order.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Keeps the `wanted` least of the keys that pass by, equal ones by their places: those below a
// bound are collected, and when their room is full, the bound sinks to the greatest of the least.
// So a key costs a comparison, and keys that fall all the time a constant more.
class LeastKeys {
 public:
  // Throws std::bad_alloc. Room for twice as many, and some, which whoever adds keys touches first.
  explicit LeastKeys(std::size_t wanted)
      : wanted_(wanted),
        most_(2 * wanted + kMore),
        found_(std::make_unique_for_overwrite<Pair64[]>(most_)) {}

  // What one for so many takes.
  static constexpr std::size_t bytes(std::size_t wanted) noexcept {
    return (2 * wanted + kMore) * sizeof(Pair64);
  }

  // Keys of places [begin, end), which are greater than those seen before. `skip(at, end, bound)`
  // is a place from `at` on such that none in front of it has a key below the bound.
  template <typename Skip>
  void add(const KeySource& keys, std::size_t begin, std::size_t end, const Skip& skip) noexcept {
    constexpr std::size_t kBlock = 32;
    while (begin != end) {
      if (bounded_) begin = skip(begin, end, bound_);
      const std::size_t block_end = std::min(begin + kBlock, end);
      for_each_block(keys, begin, block_end,
                     [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                       add_block(bits, at, size);
                     });
      begin = block_end;
    }
  }
  void add(const KeySource& keys, std::size_t begin, std::size_t end) noexcept {
    for_each_block(keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                     add_block(bits, at, size);
                   });
  }

  // Those of another one, of as many, which has seen other places.
  void add(LeastKeys& other) noexcept {
    shrink();
    other.shrink();
    std::copy_n(other.found_.get(), other.size_, found_.get() + size_);
    size_ += other.size_;
    shrink();
  }

  // Keys and places, in any order.
  std::span<Pair64> finish() noexcept {
    shrink();
    return {found_.get(), size_};
  }

 private:
  static constexpr std::size_t kMore = 16;

  void add_block(const std::uint64_t* bits, std::size_t at, std::size_t size) noexcept {
    std::size_t i = 0;
    // There is no bound yet.
    for (; !bounded_ && i < size; ++i) collect({bits[i], at + i});
    for (; i < size; ++i) {
      if (bits[i] < bound_) [[unlikely]]
        collect({bits[i], at + i});
    }
  }
  void collect(const Pair64& pair) noexcept {
    found_[size_++] = pair;
    if (size_ == most_) shrink();
  }
  void shrink() noexcept {
    if (size_ <= wanted_) return;
    Pair64* const last = found_.get() + wanted_ - 1;
    std::nth_element(found_.get(), last, found_.get() + size_, before_by_both);
    size_ = wanted_;
    bound_ = last->key;
    bounded_ = true;
  }

  const std::size_t wanted_;
  const std::size_t most_;
  std::unique_ptr<Pair64[]> found_;
  std::size_t size_ = 0;
  std::uint64_t bound_ = 0;
  bool bounded_ = false;
};

}}}  // namespace vortex::v0::detail

// Blocks of words, each sorted by the base case, are merged by networks: a level costs a quarter of
// what quicksort takes for it where words are so few. Included once for each instruction set, after
// its lanes, which add to what sorting_network.h asks for:
//   Record, kFlip, kGreatest          a word, what is XORed to it in the lanes, the greatest there
//   load(at), store(at, v)            of a whole register that is aligned

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sort/kernels/vector_sorts.h"

namespace vortex { inline namespace v0 { namespace detail { namespace {

// Sorts a bitonic sequence of `count` words, blocks of kBlock of a number that is a power of two.
template <typename Lanes, std::size_t kBlock>
VORTEX_KERNEL void clean(typename Lanes::Record* words, std::size_t count) noexcept {
  constexpr std::size_t kRegisters = kBlock / Lanes::kLanes;
  if (count > kBlock) {
    const std::size_t half = count / 2;
    for (std::size_t i = 0; i < half; i += Lanes::kLanes) {
      auto low = Lanes::load(words + i), high = Lanes::load(words + half + i);
      Lanes::exchange(low, high);
      Lanes::store(words + i, low);
      Lanes::store(words + half + i, high);
    }
    clean<Lanes, kBlock>(words, half);
    clean<Lanes, kBlock>(words + half, half);
    return;
  }
  typename Lanes::Vector v[kRegisters];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRegisters; ++i) v[i] = Lanes::load(words + i * Lanes::kLanes);
  clean_between_registers<Lanes, kRegisters>(v);
  clean_between_lanes<Lanes, kRegisters, Lanes::kLanes>(v);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRegisters; ++i) Lanes::store(words + i * Lanes::kLanes, v[i]);
}

// Merges the sorted halves of such words.
template <typename Lanes, std::size_t kBlock>
VORTEX_KERNEL void merge_halves(typename Lanes::Record* words, std::size_t count) noexcept {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += Lanes::kLanes) {
    auto* const mirrored = words + count - Lanes::kLanes - i;
    auto low = Lanes::load(words + i);
    auto high = Lanes::template reverse<Lanes::kLanes>(Lanes::load(mirrored));
    Lanes::exchange(low, high);
    Lanes::store(words + i, low);
    Lanes::store(mirrored, high);
  }
  clean<Lanes, kBlock>(words, half);
  clean<Lanes, kBlock>(words + half, half);
}

// Sorts at most kMostBlocks blocks; sort_block(in, count, out) sorts a part of one, or a whole one,
// to words as they are in the lanes, and returns how many words it has written, padding among them.
template <typename Lanes, std::size_t kBlock, typename Sort>
VORTEX_KERNEL void sort_blocks(const typename Lanes::Record* words, std::size_t count,
                               typename Lanes::Record* out, const Sort& sort_block) noexcept {
  using Word = typename Lanes::Record;
  alignas(64) Word sorted[kMostBlocks * kBlock];
  std::size_t size = kBlock;
  while (size < count) size *= 2;
  std::size_t written = 0;
  for (std::size_t at = 0; at < count; at += kBlock) {
    written = at + sort_block(words + at, std::min(count - at, kBlock), sorted + at);
  }
  std::fill(sorted + written, sorted + size, Lanes::kGreatest);
  for (std::size_t half = kBlock; half < size; half *= 2) {
    // A second half that is padding alone is where it belongs.
    for (std::size_t at = 0; at + half < count; at += 2 * half) {
      merge_halves<Lanes, kBlock>(sorted + at, 2 * half);
    }
  }
  if constexpr (Lanes::kFlip == 0) {
    std::memcpy(out, sorted, count * sizeof(Word));
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = sorted[i] ^ Lanes::kFlip;
  }
}

}}}}  // namespace vortex::v0::detail::(anonymous)

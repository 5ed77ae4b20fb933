#include "vortex/array_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/least_keys.h"
#include "sort/arrays/nth_key.h"
#include "sort/arrays/numbers.h"
#include "sort/arrays/row_moves.h"
#include "sort/arrays/scratch.h"
#include "sort/memory/shares.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// So few numbers are sorted as fast as one of them is found.
constexpr std::size_t kFewNumbers = 1024;

// Sorts pairs of keys and places by both.
void sort_by_both(std::span<Pair64> pairs, Shares& shares, unsigned threads) {
  constexpr std::size_t kFew = 1024;
  if (pairs.size() <= kFew) {
    std::sort(pairs.begin(), pairs.end(), before_by_both);
    return;
  }
  const auto turn = [&] {
    shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for (; begin != end; ++begin) std::swap(pairs[begin].key, pairs[begin].value);
    });
  };
  turn();
  sort_pairs_64(pairs.data(), pairs.size(), false, threads);
  turn();
  sort_pairs_64(pairs.data(), pairs.size(), true, threads);
}

// Moves the rows of the pairs to the front, in the order of these.
void move_to_front(const Selection& all, std::span<Pair64> pairs, Shares& shares) {
  const Scratch<std::byte> room(pairs.size() * all.bytes);
  move_to_front(Rows(all.records, all.bytes), pairs, room.get(), shares);
}

// Finds the first k records in one pass.
void sort_few_of_many(const Selection& all, std::size_t k) {
  Shares shares(all.count, all.threads);
  std::vector<LeastKeys> parts;
  parts.reserve(shares.shares());
  for (std::size_t share = 0; share < shares.shares(); ++share) parts.emplace_back(k);
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    if (all.numbers == nullptr) return parts[share].add(all.keys, begin, end);
    parts[share].add(all.keys, begin, end,
                     [&](std::size_t at, std::size_t to, std::uint64_t bound) {
                       return skip_not_less(all.records, *all.numbers, at, to, bound);
                     });
  });
  // Every other one takes those of its neighbour, until one has them all.
  for (std::size_t step = 1; step < parts.size(); step *= 2) {
    shares.run([&](std::size_t share, std::size_t, std::size_t) {
      if (share % (2 * step) == 0 && share + step < parts.size())
        parts[share].add(parts[share + step]);
    });
  }
  const std::span<Pair64> pairs = parts.front().finish();
  Shares of_pairs(k, all.threads);
  sort_by_both(pairs, of_pairs, all.threads);
  move_to_front(all, pairs, of_pairs);
}

// Sorts the first k records, all of which belong there.
void sort_front(const Selection& all, std::size_t k) {
  if (all.numbers != nullptr) {
    sort_numbers(all.records, *all.numbers, k, all.threads);
    return;
  }
  const Scratch<Pair64> memory(k);
  const std::span pairs(memory.get(), k);
  Shares shares(k, all.threads);
  shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    for_each_block(all.keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                     for (std::size_t i = 0; i < size; ++i) pairs[at + i] = {bits[i], at + i};
                   });
  });
  sort_pairs_64(pairs.data(), k, true, all.threads);
  move_to_front(all, pairs, shares);
}

}  // namespace

void select(const Selection& all, std::size_t k) {
  if (k >= all.count) return;
  if (all.count <= kFewNumbers && all.numbers != nullptr) {
    sort_numbers(all.records, *all.numbers, all.count, 1);
    return;
  }
  Shares shares(all.count, all.threads);
  const NthKey nth = nth_key(all.keys, k, shares);
  partition_rows(Rows(all.records, all.bytes), all.keys, nth, k, shares);
}

void partial_sort(const Selection& all, std::size_t k) {
  constexpr std::size_t kFewOf = 64, kMostOf = 2;
  k = std::min(k, all.count);
  if (k == 0) return;
  if (k <= all.count / kFewOf) return sort_few_of_many(all, k);
  // To sort them all takes as long as to find more of them, and to sort these.
  if (k >= all.count / kMostOf || all.count <= kFewNumbers) return sort_front(all, all.count);
  select(all, k - 1);
  sort_front(all, k);
}

}}}  // namespace vortex::v0::detail

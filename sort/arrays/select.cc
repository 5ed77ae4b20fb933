#include "vortex/array_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sort/arrays/first_of_each.h"
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

// Sorts the pairs of the first records, and moves these to the front.
void move_to_front_in_order(const Selection& all, std::span<Pair64> pairs,
                            const SharesOf& shares_of) {
  const auto shares = shares_of(pairs.size());
  sort_by_both(pairs, *shares, all.threads);
  move_to_front(all, pairs, *shares);
}

// Finds the first k records in one pass.
void sort_few_of_many(const Selection& all, std::size_t k, Shares& shares,
                      const SharesOf& shares_of) {
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
  move_to_front_in_order(all, parts.front().finish(), shares_of);
}

// The same records: finds the last key of theirs first, and takes as many with that key as there is
// room for, the first ones.
void sort_more_of_many(const Selection& all, std::size_t k, Shares& shares,
                       const SharesOf& shares_of) {
  const NthKey last = nth_key(all.keys, k - 1, all.bytes, shares);
  const Scratch<Pair64> memory(k);
  Pair64* const pairs = memory.get();
  // Keys that are less, and equal ones: how many come before a share's.
  std::vector<std::size_t> less(shares.shares() + 1), equal(shares.shares() + 1);
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    std::size_t below = 0, same = 0;
    for_each_block(all.keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
                     for (std::size_t i = 0; i < size; ++i) {
                       below += bits[i] < last.bits ? 1 : 0;
                       same += bits[i] == last.bits ? 1 : 0;
                     }
                   });
    less[share + 1] = below;
    equal[share + 1] = same;
  });
  std::partial_sum(less.begin(), less.end(), less.begin());
  equal[0] = last.less;
  std::partial_sum(equal.begin(), equal.end(), equal.begin());
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    std::size_t to_less = less[share], to_equal = equal[share];
    for_each_block(all.keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                     for (std::size_t i = 0; i < size; ++i) {
                       if (bits[i] > last.bits) [[likely]]
                         continue;
                       std::size_t& to = bits[i] < last.bits ? to_less : to_equal;
                       if (to < k) pairs[to++] = {bits[i], at + i};
                     }
                   });
  });
  move_to_front_in_order(all, {pairs, k}, shares_of);
}

// Sorts the first k records, all of which belong there.
void sort_front(const Selection& all, std::size_t k, const SharesOf& shares_of) {
  if (all.numbers != nullptr) {
    sort_numbers(all.records, *all.numbers, k, all.threads);
    return;
  }
  const Scratch<Pair64> memory(k);
  const std::span pairs(memory.get(), k);
  const auto shares = shares_of(k);
  shares->run([&](std::size_t, std::size_t begin, std::size_t end) {
    for_each_block(all.keys, begin, end,
                   [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
                     for (std::size_t i = 0; i < size; ++i) pairs[at + i] = {bits[i], at + i};
                   });
  });
  sort_pairs_64(pairs.data(), k, true, all.threads);
  move_to_front(all, pairs, *shares);
}

}  // namespace

void select(const Selection& all, std::size_t k, Shares& shares) {
  const NthKey nth = nth_key(all.keys, k, all.bytes, shares);
  partition_rows(Rows(all.records, all.bytes), all.keys, nth, k, shares);
}

void partial_sort(const Selection& all, std::size_t k, const SharesOf& shares_of,
                  std::size_t most_kept_by_each) {
  constexpr std::size_t kFewOf = 64, kMostOf = 2;
  k = std::min(k, all.count);
  if (k == 0) return;
  if (k <= all.count / kFewOf) {
    const auto shares = shares_of(all.count);
    const bool each = k <= most_kept_by_each || shares->shares() == 1;
    return (each ? sort_few_of_many : sort_more_of_many)(all, k, *shares, shares_of);
  }
  // To sort them all takes as long as to find more of them, and to sort these.
  if (k >= all.count / kMostOf || all.count <= kFewNumbers)
    return sort_front(all, all.count, shares_of);
  select(all, k - 1, *shares_of(all.count));
  sort_front(all, k, shares_of);
}

void select(const Selection& all, std::size_t k) {
  if (k >= all.count) return;
  if (all.count <= kFewNumbers && all.numbers != nullptr) {
    sort_numbers(all.records, *all.numbers, all.count, 1);
    return;
  }
  Shares shares(all.count, all.threads);
  select(all, k, shares);
}

void partial_sort(const Selection& all, std::size_t k) {
  partial_sort(all, k,
               [&](std::size_t count) { return std::make_unique<Shares>(count, all.threads); });
}

std::size_t keep_first_of_each(void* records, std::size_t bytes, std::size_t count,
                               const CopyFirstOfEach& copy, unsigned threads) {
  // A thread for so many bytes, of which it reads a block at a time.
  constexpr std::size_t kShareBytes = std::size_t{8} << 20, kBlockBytes = std::size_t{1} << 20;
  if (count == 0) return 0;
  std::optional<Shares> shares;
  std::optional<FirstOfEach> by_threads;
  try {
    shares.emplace(count, threads, std::min(Shares::kMinShare, kShareBytes / bytes + 1));
    if (shares->shares() > 1) by_threads.emplace(records, bytes, copy, *shares, kBlockBytes);
  } catch (const std::bad_alloc&) {
    // One needs no memory.
  }
  return by_threads ? by_threads->run(*shares) : copy(0, count, records);
}

}}}  // namespace vortex::v0::detail

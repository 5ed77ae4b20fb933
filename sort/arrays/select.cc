#include "vortex/array_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/least_keys.h"
#include "sort/arrays/nth_key.h"
#include "sort/arrays/numbers.h"
#include "sort/arrays/rows.h"
#include "sort/arrays/scratch.h"
#include "sort/memory/shares.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

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
void partition_rows(const Rows& rows, std::size_t count, const KeySource& keys, const NthKey& nth,
                    std::size_t at) noexcept {
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

// So few numbers are sorted as fast as one of them is found.
constexpr std::size_t kFewNumbers = 1024;

// Sorts pairs of keys and places by both.
void sort_by_both(std::vector<Pair64>& pairs, unsigned threads) {
  constexpr std::size_t kFew = 1024;
  if (pairs.size() <= kFew) {
    std::sort(pairs.begin(), pairs.end(), before_by_both);
    return;
  }
  const auto turn = [&] {
    for (Pair64& pair : pairs) std::swap(pair.key, pair.value);
  };
  turn();
  sort_pairs_64(pairs.data(), pairs.size(), false, threads);
  turn();
  sort_pairs_64(pairs.data(), pairs.size(), true, threads);
}

// Moves the rows at the places of the pairs to the front, in the order of the pairs; the rows that
// were there go where these came from. `room` is for as many rows as pairs.
void move_to_front(const Rows& rows, const std::vector<Pair64>& pairs, std::byte* room,
                   std::vector<bool>& stays) noexcept {
  const std::size_t count = pairs.size();
  rows.gather(
      count, [&](std::size_t i) { return pairs[i].value; }, room);
  for (const Pair64& pair : pairs) {
    if (pair.value < count) stays[pair.value] = true;
  }
  std::size_t front = 0;
  for (const Pair64& pair : pairs) {
    if (pair.value < count) continue;
    while (stays[front]) ++front;
    std::memcpy(rows.at(pair.value), rows.at(front++), rows.bytes());
  }
  std::memcpy(rows.at(0), room, count * rows.bytes());
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
  std::vector<Pair64> pairs;
  pairs.reserve(parts.size() * k);
  for (LeastKeys& part : parts) {
    const std::vector<Pair64>& least = part.finish();
    pairs.insert(pairs.end(), least.begin(), least.end());
  }
  std::nth_element(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(k - 1), pairs.end(),
                   before_by_both);
  pairs.resize(k);
  sort_by_both(pairs, all.threads);
  const Scratch<std::byte> room(k * all.bytes);
  std::vector<bool> stays(k);
  move_to_front(Rows(all.records, all.bytes), pairs, room.get(), stays);
}

// Sorts the first k records, all of which belong there.
void sort_front(const Selection& all, std::size_t k) {
  if (all.numbers != nullptr) {
    sort_numbers(all.records, *all.numbers, k, all.threads);
    return;
  }
  std::vector<Pair64> pairs(k);
  for_each_block(all.keys, 0, k, [&](const std::uint64_t* bits, std::size_t at, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) pairs[at + i] = {bits[i], at + i};
  });
  sort_pairs_64(pairs.data(), k, true, all.threads);
  const Scratch<std::byte> room(k * all.bytes);
  std::vector<bool> stays(k);
  move_to_front(Rows(all.records, all.bytes), pairs, room.get(), stays);
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
  partition_rows(Rows(all.records, all.bytes), all.count, all.keys, nth, k);
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

// Rows of an array moved in front of others, by threads. `Shares` is that of sort/memory/shares.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/nth_key.h"
#include "sort/arrays/rows.h"

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
      // What is stored there might be these, for all that the compiler knows.
      const Such such = such_;
      const std::size_t begin = begin_;
      std::size_t found = 0;
      for (std::size_t i = 0; i < size; ++i) {
        places_[found] = begin + i;
        found += such(bits[i]) ? 1 : 0;
      }
      used_ = 0;
      size_ = found;
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

// Parts of the rows of a share that are counted, so that few rows are looked at again.
inline constexpr std::size_t kCountedParts = 64;

// What several shares need to exchange rows.
struct ExchangeRoom {
  explicit ExchangeRoom(std::size_t shares)
      : lefts(shares == 1 ? 0 : kCountedParts * shares + 1),
        rights(lefts),
        from(lefts),
        to(lefts) {}
  std::vector<std::size_t> lefts, rights, from, to;
};

// Rows [begin, end), those with such keys counted by all threads.
template <typename Such>
class CountedRows {
 public:
  template <typename Shares>
  CountedRows(const KeySource& keys, std::size_t begin, std::size_t end, Such such,
              std::span<std::size_t> before, Shares& shares)
      : keys_(keys), begin_(begin), end_(end), such_(such), before_(before) {
    std::fill(before_.begin(), before_.end(), 0);
    shares.run([&](std::size_t share, std::size_t, std::size_t) {
      for (std::size_t i = share * kCountedParts; i < (share + 1) * kCountedParts; ++i) {
        for_each_block(keys_, begin_of(i), begin_of(i + 1),
                       [&](const std::uint64_t* bits, std::size_t, std::size_t size) {
                         before_[i + 1] +=
                             static_cast<std::size_t>(std::count_if(bits, bits + size, such_));
                       });
      }
    });
    std::partial_sum(before_.begin(), before_.end(), before_.begin());
  }

  std::size_t count() const noexcept { return before_.back(); }
  // Where the one lies that has so many in front of it.
  std::size_t place(std::size_t rank) const noexcept {
    if (rank >= count()) return end_;
    const auto part = static_cast<std::size_t>(
        std::upper_bound(before_.begin(), before_.end(), rank) - before_.begin() - 1);
    PlacesOfSuch places(keys_, begin_of(part), begin_of(part + 1), such_);
    std::size_t seen = before_[part], found = places.find();
    for (; seen + found <= rank; found = places.find()) {
      seen += found;
      places.take(found);
    }
    return places.take(found)[rank - seen];
  }

 private:
  std::size_t begin_of(std::size_t part) const noexcept {
    return begin_ + (end_ - begin_) * part / (before_.size() - 1);
  }

  const KeySource& keys_;
  const std::size_t begin_, end_;
  const Such such_;
  const std::span<std::size_t> before_;
};

// Exchanges the first row of each, then the second, and so on while both have one.
template <typename Left, typename Right>
void exchange_rows(const Rows& rows, PlacesOfSuch<Left> left, PlacesOfSuch<Right> right) noexcept {
  for (;;) {
    const std::size_t found = left.find();
    if (found == 0) return;
    const std::size_t size = std::min(found, right.find());
    if (size == 0) return;
    rows.swap(size, left.take(size), right.take(size));
  }
}

// Does that with such rows of [begin, middle) and [middle, end). The result is the same, whatever
// the threads.
template <typename Left, typename Right, typename Shares>
void exchange_rows(const Rows& rows, const KeySource& keys, std::size_t begin, std::size_t middle,
                   std::size_t end, Left left, Right right, Shares& shares, ExchangeRoom& room) {
  const std::size_t parts = shares.shares();
  if (parts == 1) {
    return exchange_rows(rows, PlacesOfSuch(keys, begin, middle, left),
                         PlacesOfSuch(keys, middle, end, right));
  }
  const CountedRows lefts(keys, begin, middle, left, room.lefts, shares);
  if (lefts.count() == 0) return;
  const CountedRows rights(keys, middle, end, right, room.rights, shares);
  const std::size_t swaps = std::min(lefts.count(), rights.count());
  // Each does as many, of rows that no other one looks at.
  auto &from = room.from, &to = room.to;
  from[parts] = middle;
  to[parts] = end;
  shares.run([&](std::size_t share, std::size_t, std::size_t) {
    from[share] = lefts.place(swaps * share / parts);
    to[share] = rights.place(swaps * share / parts);
  });
  shares.run([&](std::size_t share, std::size_t, std::size_t) {
    exchange_rows(rows, PlacesOfSuch(keys, from[share], from[share + 1], left),
                  PlacesOfSuch(keys, to[share], to[share + 1], right));
  });
}

// Swaps rows so that those with keys less than `nth.bits` lie in front, and a row with that key at
// place `at`, which is the one that it has in a sorted array. `keys` are those of the rows, and
// `shares` of all of them. Throws std::bad_alloc with nothing moved.
template <typename Shares>
void partition_rows(const Rows& rows, const KeySource& keys, const NthKey& nth, std::size_t at,
                    Shares& shares) {
  ExchangeRoom room(shares.shares());
  const std::uint64_t key = nth.bits;
  exchange_rows(
      rows, keys, 0, nth.less, shares.count(), [=](std::uint64_t bits) { return bits >= key; },
      [=](std::uint64_t bits) { return bits < key; }, shares, room);
  // Rows that are equal fill the places up to `at`; those behind them may be anywhere.
  exchange_rows(
      rows, keys, nth.less, at + 1, shares.count(), [=](std::uint64_t bits) { return bits != key; },
      [=](std::uint64_t bits) { return bits == key; }, shares, room);
}

// Moves the rows at the places of the pairs to the front, in the order of the pairs; the rows that
// were there go where these came from. The keys of the pairs are used up, `shares` are of them.
// `room` is for as many rows as pairs. Throws std::bad_alloc with nothing moved.
template <typename Shares>
void move_to_front(const Rows& rows, std::span<Pair64> pairs, std::byte* room, Shares& shares) {
  const std::size_t count = pairs.size();
  std::vector<unsigned char> stays(count);
  // Rows from behind the front, and rows of it that do not stay: how many come before a share's.
  std::vector<std::size_t> coming(shares.shares() + 1), going(shares.shares() + 1);
  shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
    rows.gather(
        end - begin, [&](std::size_t i) { return pairs[begin + i].value; },
        room + begin * rows.bytes());
    const auto own = pairs.subspan(begin, end - begin);
    coming[share + 1] = static_cast<std::size_t>(std::count_if(
        own.begin(), own.end(), [=](const Pair64& pair) { return pair.value >= count; }));
  });
  std::partial_sum(coming.begin(), coming.end(), coming.begin());
  if (coming.back() != 0) {
    shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      for (; begin != end; ++begin) {
        if (pairs[begin].value < count) stays[pairs[begin].value] = 1;
      }
    });
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      going[share + 1] =
          static_cast<std::size_t>(std::count(stays.data() + begin, stays.data() + end, 0));
    });
    std::partial_sum(going.begin(), going.end(), going.begin());
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      std::size_t to = going[share];
      for (; begin != end; ++begin) {
        if (stays[begin] == 0) pairs[to++].key = begin;
      }
    });
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      std::size_t from = coming[share];
      for (; begin != end; ++begin) {
        const std::uint64_t to = pairs[begin].value;
        if (to >= count) std::memcpy(rows.at(to), rows.at(pairs[from++].key), rows.bytes());
      }
    });
  }
  shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
    std::memcpy(rows.at(begin), room + begin * rows.bytes(), (end - begin) * rows.bytes());
  });
}

}}}  // namespace vortex::v0::detail

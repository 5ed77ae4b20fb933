// Entries of an index brought into an order that a comparison tells, by all threads together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sort/arrays/index_entries.h"

namespace vortex { inline namespace v0 {

// Sorts and merges entries by before(a, b), which knows them by their values alone. The keys are
// room for the values in between, so it takes no memory but a few bytes for each part of a thread;
// afterwards only the values of entries are told, and no key is a mark.
template <typename Team, typename Before>
class ComparedEntries {
 public:
  ComparedEntries(std::span<IndexEntry> entries, Team& team, const Before& before)
      : entries_(entries), team_(team), before_(before) {}

  // Pieces by one thread each, which are merged two by two, by all threads.
  void sort() {
    const std::size_t count = entries_.size();
    const std::size_t pieces = count < kLeast ? 1 : parts_for(team_);
    std::vector<std::size_t> bounds(pieces + 1);
    for (std::size_t i = 0; i <= pieces; ++i) bounds[i] = count * i / pieces;
    team_.run(pieces, [&](std::size_t i) {
      std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(bounds[i]),
                entries_.begin() + static_cast<std::ptrdiff_t>(bounds[i + 1]), before_);
    });
    while (bounds.size() > 2) merge_two_by_two(bounds);
  }

  // Two parts, each in order. Stable.
  void merge(std::size_t middle) {
    std::vector<std::size_t> bounds = {0, middle, entries_.size()};
    merge_two_by_two(bounds);
  }

 private:
  // To sort fewer of them takes less time than to wake others.
  static constexpr std::size_t kLeast = 256;

  // Entries [begin, middle) and [middle, end), each in order.
  struct Pair {
    std::size_t begin, middle, end;
  };

  // What is between bounds is in order, and half as many bounds are left.
  void merge_two_by_two(std::vector<std::size_t>& bounds) {
    std::vector<Pair> pairs;
    std::size_t kept = 0;
    for (std::size_t i = 0; i + 1 < bounds.size(); i += 2) {
      const std::size_t last = std::min(i + 2, bounds.size() - 1);
      pairs.push_back({bounds[i], bounds[i + 1], bounds[last]});
      bounds[kept++] = bounds[i];
    }
    bounds[kept++] = entries_.size();
    bounds.resize(kept);
    in_parts(entries_.size(), team_, [&](std::size_t begin, std::size_t end) {
      const auto first = std::partition_point(pairs.begin(), pairs.end(),
                                              [&](const Pair& pair) { return pair.end <= begin; });
      for (auto pair = first; begin < end; begin = pair++->end)
        merge_part(*pair, begin, std::min(end, pair->end));
    });
    in_parts(entries_.size(), team_, [&](std::size_t begin, std::size_t end) {
      for (IndexEntry& entry : entries_.subspan(begin, end - begin)) entry = {0, entry.key};
    });
  }

  // Makes entries [begin, end) of the result: their values, as keys.
  void merge_part(const Pair& pair, std::size_t begin, std::size_t end) {
    std::size_t left = pair.begin + from_left(pair, begin - pair.begin);
    std::size_t right = pair.middle + (begin - left);
    for (; begin < end; ++begin) {
      const bool takes_right =
          left == pair.middle || (right != pair.end && before_(entries_[right], entries_[left]));
      entries_[begin].key = entries_[takes_right ? right++ : left++].value;
    }
  }

  // How many of the first `rank` entries of the result come from the left.
  std::size_t from_left(const Pair& pair, std::size_t rank) const {
    const std::size_t lefts = pair.middle - pair.begin, rights = pair.end - pair.middle;
    std::size_t least = rank > rights ? rank - rights : 0, most = std::min(rank, lefts);
    while (least < most) {
      const std::size_t half = least + (most - least) / 2;
      const bool is_among =
          !before_(entries_[pair.middle + rank - half - 1], entries_[pair.begin + half]);
      (is_among ? least : most) = half + (is_among ? 1 : 0);
    }
    return least;
  }

  const std::span<IndexEntry> entries_;
  Team& team_;
  const Before& before_;
};

// Sorts the entries from `middle` on, and merges them with those in front, which are in order.
template <typename Team, typename Before>
void sort_behind(std::span<IndexEntry> entries, IndexEntry* middle, Team& team,
                 const Before& before) {
  const auto in_front = static_cast<std::size_t>(middle - entries.data());
  ComparedEntries(entries.subspan(in_front), team, before).sort();
  ComparedEntries(entries, team, before).merge(in_front);
}

}}  // namespace vortex::v0

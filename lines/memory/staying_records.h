// Which entries and records of an arena stay, and that they move together, by all threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "lines/memory/string_sort.h"
#include "lines/record/stored_record.h"
#include "sort/record/key_chunk.h"

namespace vortex { inline namespace v0 {

// Into how many shares as many bytes are cut for the threads of a team. Little is done by one of
// them: to wake others takes longer.
template <typename Team>
std::size_t shares_of(std::uint64_t bytes, const Team& team) noexcept {
  constexpr std::uint64_t kLeastShare = std::uint64_t{64} << 10;
  constexpr std::uint64_t kLeastShares = 32;
  const std::uint64_t worth = bytes / kLeastShare;
  if (team.threads() == 1 || worth < kLeastShares) return 1;
  return static_cast<std::size_t>(std::min<std::uint64_t>(worth, 8 * team.threads()));
}

// The first of `count` items with which the sum of their weights reaches `wanted`, which is not 0;
// `count`: it does not.
template <typename Team, typename Weight>
std::size_t sum_reaches(std::size_t count, std::uint64_t wanted, const Weight& weight, Team& team) {
  const auto search = [&](std::size_t at, std::size_t end) {
    for (; at < end; ++at) {
      const std::uint64_t own = weight(at);
      if (own >= wanted) break;
      wanted -= own;
    }
    return at;
  };
  // It is reached soon where few are wanted.
  constexpr std::size_t kSoon = std::size_t{1} << 14;
  const std::size_t soon = std::min(count, kSoon);
  const std::size_t shares = shares_of((count - soon) * sizeof(IndexEntry), team);
  if (const std::size_t found = search(0, shares == 1 ? count : soon);
      shares == 1 || found < soon) {
    return found;
  }
  const auto begin_of = [&](std::size_t share) { return soon + (count - soon) * share / shares; };
  std::vector<std::uint64_t> sums(shares);
  team.run(shares, [&](std::size_t share) {
    std::uint64_t sum = 0;
    for (std::size_t i = begin_of(share), end = begin_of(share + 1); i < end; ++i) sum += weight(i);
    sums[share] = sum;
  });
  std::size_t share = 0;
  while (share < shares && sums[share] < wanted) wanted -= sums[share++];
  return share == shares ? count : search(begin_of(share), begin_of(share + 1));
}

// Items that one thread moves, in their order: downwards where they lie, or to other memory.
template <typename Item>
struct ItemMove {
  const Item* from = nullptr;
  const Item* from_end = nullptr;
  Item* to = nullptr;
  std::size_t items = 0;  // that arrive

  const Item* to_end() const noexcept { return to + items; }
};

// The records of an arena that stay are found in three steps: their entries come together, with
// their places as keys; these are sorted; the records come together in the order of their places.
template <typename Team>
class StayingRecords {
 public:
  // The team outlives it.
  StayingRecords(bool has_keys, std::uint64_t flip, Team& team) noexcept
      : has_keys_(has_keys), flip_(flip), team_(team) {}

  // Of the record, with its key and lengths.
  std::uint64_t bytes_of(const IndexEntry& entry) const noexcept {
    const char* end = stored_at(entry);
    stored_record(end, has_keys_);
    return static_cast<std::uint64_t>(end - stored_at(entry));
  }
  // Of the records of those entries for which stays(entry) holds, in any order of their places.
  template <typename Stays>
  std::uint64_t bytes_of(std::span<const IndexEntry> entries, const Stays& stays) const {
    constexpr std::size_t kCacheLine = 64;
    const std::size_t shares = shares_of(entries.size() * kCacheLine, team_);
    std::vector<std::uint64_t> sums(shares);
    team_.run(shares, [&](std::size_t share) {
      std::uint64_t bytes = 0;
      const IndexEntry* const end = entries.data() + entries.size() * (share + 1) / shares;
      for (auto* at = entries.data() + entries.size() * share / shares; at != end; ++at) {
        if (!stays(*at)) continue;
        if (end - at > kAhead) __builtin_prefetch(stored_at(at[kAhead]));
        bytes += bytes_of(*at);
      }
      sums[share] = bytes;
    });
    std::uint64_t bytes = 0;
    for (const std::uint64_t sum : sums) bytes += sum;
    return bytes;
  }

  // Brings entries together, in their order: from `to` on, which is where they lie, or in front of
  // `end` in other memory where that is null. choose(entries, give) calls give(entry, repeats) for
  // those that stay, and how many more each stands for. It is called for any number of shares, and
  // twice for each.
  template <typename Choose>
  std::span<IndexEntry> bring_together(std::span<const IndexEntry> entries, IndexEntry* to,
                                       IndexEntry* end, const Choose& choose) const {
    const std::size_t shares = shares_of(entries.size_bytes(), team_);
    const auto put = [&](const ItemMove<IndexEntry>& move) {
      IndexEntry* at = move.to;
      choose(std::span(move.from, move.from_end),
             [&at](const IndexEntry& entry, std::uint64_t repeats) {
               const auto place = reinterpret_cast<std::uint64_t>(stored_at(entry));
               *at = {place, place};
               add_repeats(*at++, repeats);
             });
      return at;
    };
    const IndexEntry* const first = entries.data();
    if (shares == 1 && to != nullptr) return {to, put({first, first + entries.size(), to})};
    std::vector<ItemMove<IndexEntry>> moves(shares);
    team_.run(shares, [&](std::size_t share) {
      ItemMove<IndexEntry> move{first + entries.size() * share / shares,
                                first + entries.size() * (share + 1) / shares};
      choose(std::span(move.from, move.from_end),
             [&move](const IndexEntry&, std::uint64_t) { ++move.items; });
      moves[share] = move;
    });
    std::size_t all = 0;
    for (const auto& move : moves) all += move.items;
    if (to == nullptr) to = end - all;
    IndexEntry* const begin = to;
    for (auto& move : moves) to = (move.to = to) + move.items;
    in_waves(moves, put);
    return {begin, to};
  }

  // Entries of one thread, and the records that it moves with them.
  struct RecordMove : ItemMove<char> {
    std::span<IndexEntry> entries;
  };
  // The entries are sorted by their places. Each of these moves has about as many bytes at most, of
  // records and of all that they lie among, and about as many entries; none is empty.
  std::vector<RecordMove> moves_of(std::span<IndexEntry> entries, char* to) const {
    const char* const first = stored_at(entries.front());
    const auto bytes =
        static_cast<std::uint64_t>(stored_at(entries.back()) - first) + bytes_of(entries.back());
    const std::size_t shares = shares_of(bytes + entries.size_bytes(), team_);
    if (shares == 1) return {RecordMove{{first, first + bytes, to}, entries}};
    std::vector<std::size_t> bounds;
    for (std::size_t i = 0; i < shares; ++i) {
      const auto place = reinterpret_cast<std::uint64_t>(first + bytes * i / shares);
      const auto at = std::lower_bound(entries.begin(), entries.end(), place,
                                       [](const auto& e, std::uint64_t p) { return e.key < p; });
      bounds.push_back(static_cast<std::size_t>(at - entries.begin()));
      bounds.push_back(entries.size() * i / shares);
    }
    bounds.push_back(entries.size());
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    std::vector<RecordMove> moves(bounds.size() - 1);
    team_.run(moves.size(), [&](std::size_t i) {
      moves[i] = measured(entries.subspan(bounds[i], bounds[i + 1] - bounds[i]));
    });
    for (RecordMove& move : moves) to = (move.to = to) + move.items;
    return moves;
  }
  // Moves the records together, from `to` on. Their entries get their places and chunks. Returns
  // the end of the records.
  char* move(std::span<IndexEntry> entries, char* to) const {
    if (entries.empty()) return to;
    const std::vector<RecordMove> moves = moves_of(entries, to);
    if (moves.size() == 1) return put_records(moves.front());
    in_waves(moves, [&](const RecordMove& move) { put_records(move); });
    return moves.back().to + moves.back().items;
  }

  // Turns `entries` round, of which only the first ones are kept: these lie at the end then, as if
  // their records had been pushed.
  void turn_round(std::span<IndexEntry> entries, std::size_t kept) const {
    const std::size_t pairs = std::min(kept, entries.size() / 2);
    const std::size_t shares = shares_of(2 * pairs * sizeof(IndexEntry), team_);
    team_.run(shares, [&](std::size_t share) {
      const std::size_t end = pairs * (share + 1) / shares;
      for (std::size_t i = pairs * share / shares; i < end; ++i) {
        std::swap(entries[i], entries[entries.size() - 1 - i]);
      }
    });
  }

 private:
  static constexpr std::ptrdiff_t kAhead = 12;  // how many records ahead bytes are asked for

  RecordMove measured(std::span<IndexEntry> entries) const noexcept {
    std::uint64_t bytes = 0;
    for (const IndexEntry& entry : entries) bytes += bytes_of(entry);
    const char* const from = stored_at(entries.front());
    const char* const end = stored_at(entries.back()) + bytes_of(entries.back());
    return {{from, end, nullptr, static_cast<std::size_t>(bytes)}, entries};
  }

  char* put_records(const RecordMove& move) const noexcept {
    char* to = move.to;
    for (IndexEntry& entry : move.entries) {
      const char* const from = stored_at(entry);
      const char* end = from;
      stored_record(end, has_keys_);
      std::memmove(to, from, static_cast<std::size_t>(end - from));
      const std::uint64_t repeated = repeats_of(entry);
      entry.value = reinterpret_cast<std::uint64_t>(to);
      entry.key = chunk_at(stored_record_at(to, has_keys_).key, 0) ^ flip_;
      add_repeats(entry, repeated);
      to += end - from;
    }
    return to;
  }

  // Calls put() for moves that lie one behind the other, and go to places one behind the other. A
  // wave of them has all that go to where none of the wave comes from, but each itself: no memory
  // holds anything besides. So waves grow with what has been left out; where much lies behind
  // little that is left out, they are one move each.
  template <typename Move, typename Put>
  void in_waves(const std::vector<Move>& moves, const Put& put) const {
    for (std::size_t first = 0, end = 0; first < moves.size(); first = end) {
      while (++end < moves.size()) {
        const Move& next = moves[end];
        if (next.to_end() > moves[first].from && next.to < moves[end - 1].from_end) break;
      }
      team_.run(end - first, [&](std::size_t i) { put(moves[first + i]); });
    }
  }

  const bool has_keys_;
  const std::uint64_t flip_;
  Team& team_;
};

}}  // namespace vortex::v0

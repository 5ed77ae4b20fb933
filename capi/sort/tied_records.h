// Records whose keys agree in their first 8 bytes, sorted by all of their keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sort/arrays/compared_entries.h"
#include "sort/arrays/index_entries.h"
#include "vortex/detail/array/large_groups.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace capi {

// The order of places by the keys of records.
class OrderOfPlaces {
 public:
  OrderOfPlaces(const std::byte* records, const RecordFormat& format) noexcept
      : records_(records), format_(format) {}
  bool operator()(std::uint64_t a, std::uint64_t b) const {
    const int order = format_.compare(records_ + a * format_.record_bytes(),
                                      records_ + b * format_.record_bytes());
    return order != 0 ? order < 0 : a < b;
  }
  bool operator()(const Pair64& a, const Pair64& b) const { return (*this)(a.value, b.value); }

 private:
  const std::byte* const records_;
  const RecordFormat& format_;
};

// How many threads a team for ties of so many records has.
inline unsigned threads_for_ties(std::size_t count, unsigned threads) {
  constexpr std::size_t kWorthThreads = std::size_t{1} << 16;
  return count < kWorthThreads ? 1 : detail::ThreadTeam::resolve(threads);
}

// Calls sort(begin, end) for each range of items, in [begin, end), whose bits_at() are equal.
template <typename BitsAt, typename Sort>
void for_ties(std::size_t begin, std::size_t end, const BitsAt& bits_at, const Sort& sort) {
  while (begin != end) {
    const std::uint64_t bits = bits_at(begin);
    std::size_t next = begin + 1;
    while (next != end && bits_at(next) == bits) ++next;
    if (next - begin > 1) sort(begin, next);
    begin = next;
  }
}

struct TiedRange {
  std::size_t begin, end;
  std::size_t size() const noexcept { return end - begin; }
  TiedRange part(std::size_t from, std::size_t to) const noexcept {
    return {begin + from, begin + to};
  }
};

// Of `count` items in the order of bits_at(). Ranges of equal bits that are so large that it pays
// are sorted by sort_large(begin, end), which all threads work on, one after the other, the largest
// first. The rest is for sort_part(begin, end), by a thread each, and no range is in two of these.
template <typename Team, typename BitsAt, typename SortPart, typename SortLarge>
void sort_ties(std::size_t count, Team& team, const BitsAt& bits_at, const SortPart& sort_part,
               const SortLarge& sort_large) {
  const unsigned threads = team.threads();
  if (threads == 1) return sort_part(0, count);
  const std::size_t task = count / parts_for(team) + 1;
  const auto [alone, tasks] = detail::share_out_groups(
      TiedRange{0, count}, 2 * task, task, threads, threads,
      [&](const TiedRange&, std::size_t i) { return bits_at(i); },
      // ComparedEntries merges in so many steps that to wake its threads for them takes as long as
      // to sort that many items for each.
      [&](std::size_t size) { return size / threads + std::size_t{16} * threads; },
      [&](const TiedRange& range) {
        sort_large(range.begin, range.end);
        return false;
      });
  team.run(alone.size() + tasks.size(), [&, &alone = alone, &tasks = tasks](std::size_t i) {
    const TiedRange& range = i < alone.size() ? alone[i] : tasks[i - alone.size()];
    sort_part(range.begin, range.end);
  });
}

// Places of records, in the order of their leading bits.
template <typename Team>
void sort_tied_places(std::span<Pair64> places, const OrderOfPlaces& before, Team& team) {
  const auto bits_at = [&](std::size_t i) { return places[i].key; };
  sort_ties(
      places.size(), team, bits_at,
      [&](std::size_t begin, std::size_t end) {
        for_ties(begin, end, bits_at, [&](std::size_t first, std::size_t last) {
          std::sort(places.data() + first, places.data() + last, before);
        });
      },
      [&](std::size_t begin, std::size_t end) {
        ComparedEntries(places.subspan(begin, end - begin), team, before).sort();
      });
}

// The same without the bits beside them, which are those at a place. Takes 16 bytes for each record
// of a range that all threads sort; throws std::bad_alloc.
template <typename Place, typename Bits>
void sort_tied_places(Place* places, std::size_t count, const Bits& bits,
                      const OrderOfPlaces& before, detail::ThreadTeam& team) {
  const auto bits_at = [&](std::size_t i) { return bits[places[i]]; };
  sort_ties(
      count, team, bits_at,
      [&](std::size_t begin, std::size_t end) {
        for_ties(begin, end, bits_at, [&](std::size_t first, std::size_t last) {
          std::sort(places + first, places + last, before);
        });
      },
      [&](std::size_t begin, std::size_t end) {
        const std::size_t tied = end - begin;
        const std::unique_ptr<Pair64[]> pairs(new Pair64[tied]);
        in_parts(tied, team, [&](std::size_t first, std::size_t last) {
          for (; first != last; ++first) pairs[first] = {0, places[begin + first]};
        });
        ComparedEntries(std::span(pairs.get(), tied), team, before).sort();
        in_parts(tied, team, [&](std::size_t first, std::size_t last) {
          for (; first != last; ++first)
            places[begin + first] = static_cast<Place>(pairs[first].value);
        });
      });
}

// The same of records themselves, by one thread.
inline void sort_part_of_records(std::byte* records, std::size_t count,
                                 const RecordFormat& format) {
  const std::size_t bytes = format.record_bytes();
  const std::unique_ptr<std::byte[]> held(new std::byte[detail::moving_bytes(bytes)]);
  std::vector<Pair64> places;
  for_ties(
      0, count, [&](std::size_t i) { return format.leading_bits(records + i * bytes); },
      [&](std::size_t begin, std::size_t end) {
        std::byte* const tied = records + begin * bytes;
        places.clear();
        places.resize(end - begin);
        for (std::size_t i = 0; i < places.size(); ++i) places[i] = {0, i};
        std::sort(places.begin(), places.end(), OrderOfPlaces(tied, format));
        detail::move_to_places(tied, bytes, places.data(), places.size(), held.get());
      });
}

// Sorts records that are in the order of their leading bits by all of their keys. Takes 16 bytes
// for each record of the ranges that are sorted at once, and what moving records takes; throws
// std::bad_alloc.
inline void sort_tied_records(std::byte* records, std::size_t count, const RecordFormat& format,
                              detail::ThreadTeam& team) {
  const std::size_t bytes = format.record_bytes();
  std::unique_ptr<Pair64[]> places;  // of the largest range, which is the first
  std::optional<detail::RecordMover> mover;
  sort_ties(
      count, team, [&](std::size_t i) { return format.leading_bits(records + i * bytes); },
      [&](std::size_t begin, std::size_t end) {
        sort_part_of_records(records + begin * bytes, end - begin, format);
      },
      [&](std::size_t begin, std::size_t end) {
        const std::size_t tied = end - begin;
        if (!mover) {
          places.reset(new Pair64[tied]);
          mover.emplace(bytes, team);
        }
        in_parts(tied, team, [&](std::size_t first, std::size_t last) {
          for (; first != last; ++first) places[first] = {0, first};
        });
        const OrderOfPlaces before(records + begin * bytes, format);
        ComparedEntries(std::span(places.get(), tied), team, before).sort();
        mover->move_to_places(records + begin * bytes, places.get(), tied);
      });
}

}}}  // namespace vortex::v0::capi

// Records whose keys agree in their first 8 bytes, sorted by all of their keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sort/arrays/compared_entries.h"
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

// Threads for ties of so many records.
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

// Of `count` items in the order of bits_at(). Ranges of equal bits that are more than a part of a
// thread's are sorted by sort_large(begin, end), which all threads work on, one after the other.
// The rest is for sort_part(begin, end), by a thread each, and no range is in two of these.
template <typename BitsAt, typename SortPart, typename SortLarge>
void sort_ties(std::size_t count, detail::ThreadTeam& team, const BitsAt& bits_at,
               const SortPart& sort_part, const SortLarge& sort_large) {
  struct Part {
    std::size_t begin, end;
  };
  const auto first_where = [](std::size_t begin, std::size_t end, const auto& holds) {
    while (begin < end) {
      const std::size_t middle = begin + (end - begin) / 2;
      if (holds(middle)) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin;
  };
  const std::size_t most = count / parts_for(team) + 1;
  std::vector<Part> parts;
  for (std::size_t begin = 0; begin != count;) {
    std::size_t from = count, to = count;  // the range in which a part would end
    if (count - begin > most) {
      const std::uint64_t bits = bits_at(begin + most);
      from = first_where(begin, begin + most, [&](std::size_t i) { return bits_at(i) >= bits; });
      to = first_where(begin + most, count, [&](std::size_t i) { return bits_at(i) > bits; });
    }
    const bool is_large = to - from > most;
    parts.push_back({begin, is_large ? from : to});
    if (is_large) sort_large(from, to);
    begin = to;
  }
  team.run(parts.size(), [&](std::size_t i) { sort_part(parts[i].begin, parts[i].end); });
}

// Places of records, in the order of their leading bits.
inline void sort_tied_places(std::span<Pair64> places, const OrderOfPlaces& before,
                             detail::ThreadTeam& team) {
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
                      const OrderOfPlaces& before, unsigned threads) {
  detail::ThreadTeam team(threads_for_ties(count, threads));
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

// Sorts records that are in the order of their leading bits by all of their keys.
inline void sort_tied_records(std::byte* records, std::size_t count, const RecordFormat& format,
                              unsigned threads) {
  const std::size_t bytes = format.record_bytes();
  detail::ThreadTeam team(threads_for_ties(count, threads));
  const auto bits_at = [&](std::size_t i) { return format.leading_bits(records + i * bytes); };
  sort_ties(
      count, team, bits_at,
      [&](std::size_t begin, std::size_t end) {
        const std::unique_ptr<std::byte[]> held(new std::byte[detail::moving_bytes(bytes)]);
        std::vector<Pair64> places;
        for_ties(begin, end, bits_at, [&](std::size_t first, std::size_t last) {
          std::byte* const tied = records + first * bytes;
          places.clear();
          while (places.size() != last - first) places.push_back({0, places.size()});
          std::sort(places.begin(), places.end(), OrderOfPlaces(tied, format));
          detail::move_to_places(tied, bytes, places.data(), places.size(), held.get());
        });
      },
      [&](std::size_t begin, std::size_t end) {
        std::byte* const tied = records + begin * bytes;
        const auto settle = [&](Pair64* places, detail::ThreadTeam& all) {
          ComparedEntries(std::span(places, end - begin), all, OrderOfPlaces(tied, format)).sort();
        };
        detail::sort_by_places(
            tied, bytes, end - begin, threads, [](std::size_t) { return std::uint64_t{0}; },
            settle);
      });
}

}}}  // namespace vortex::v0::capi

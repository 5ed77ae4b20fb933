// Chunks of an array that change places, by several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/radix/chunk_arena.h"

namespace vortex { inline namespace v0 { namespace detail {

// Knows for each place where the chunk comes from that is to be there. Places are numbered: the
// chunks of the array, then a store, then others where chunks come from. Each is the destination of
// one chunk at most, and the source of one at most. So destinations form paths, which end where a
// chunk comes from that is no destination, and cycles; and threads that follow different ones never
// meet.
template <typename Record>
class ChunkMovers {
 public:
  using Place = std::uint32_t;
  // A chunk that is full or not, and where it is to be.
  struct PlacedPiece {
    Place place;
    std::uint32_t count;
  };
  // Places of the array for the full chunks of a list, [slots, slots_end), and the first of the
  // store for the others.
  struct Range {
    std::size_t slots = 0;
    std::size_t slots_end = 0;
    std::size_t store = 0;
  };

  // The store begins at `extra`, and other places follow it.
  ChunkMovers(Record* array, std::size_t array_chunks, Record* extra, std::size_t store_chunks)
      : array_(array), chunks_(array_chunks), extra_(extra), store_chunks_(store_chunks) {}

  void reserve() {
    source_of_.assign(chunks_ + store_chunks_, kNone);
    leaves_.assign(chunks_ + store_chunks_, 0);
    cycles_.reserve(chunks_ / 2 + 1);
  }
  static std::size_t working_bytes(std::size_t array_chunks, std::size_t store_chunks) noexcept {
    return (array_chunks + store_chunks) * (sizeof(Place) + 1) +
           (array_chunks / 2 + 1) * sizeof(Place);
  }

  Record* at(Place place) const noexcept {
    return place < chunks_ ? array_ + place * kChunk : extra_ + (place - chunks_) * kChunk;
  }
  Place place_of(const Record* chunk) const noexcept {
    const bool in_array = chunk >= array_ && chunk < array_ + chunks_ * kChunk;
    return static_cast<Place>(in_array
                                  ? static_cast<std::size_t>(chunk - array_) / kChunk
                                  : static_cast<std::size_t>(chunk - extra_) / kChunk + chunks_);
  }
  Place store(std::size_t index) const noexcept { return static_cast<Place>(chunks_ + index); }

  // Begins a plan for the chunks [begin, end) of the array and the first `stored` of the store.
  void start(std::size_t begin, std::size_t end, std::size_t stored) noexcept {
    begin_ = begin;
    end_ = end;
    for (std::size_t place = begin; place < end; ++place) forget(place);
    for (std::size_t i = 0; i < stored; ++i) forget(chunks_ + i);
  }
  // Chunks that move, and chunks of the array that stay. Threads may call these for different
  // chunks and destinations.
  void stays(Place place) noexcept { source_of_[place] = place; }
  void moves(Place from, Place to) noexcept {
    source_of_[to] = from;
    if (from != to && from < chunks_) leaves_[from] = 1;
  }
  // The same for a list: for_each(body) calls body(records, count, next) for its chunks in order,
  // and `to` gets where each is to be. Chunks that lie in the range already stay there if they may.
  template <typename ForEach>
  void place(const Range& range, bool may_stay, PlacedPiece* to, const ForEach& for_each) noexcept {
    const auto stays_there = [&](Place place, std::size_t count) {
      return may_stay && count == kChunk && place >= range.slots && place < range.slots_end;
    };
    if (may_stay) {
      for_each([&](const Record* records, std::size_t count, const Record*) {
        if (stays_there(place_of(records), count)) stays(place_of(records));
      });
    }
    std::size_t slot = range.slots, stored = range.store;
    for_each([&](const Record* records, std::size_t count, const Record*) {
      const Place from = place_of(records);
      PlacedPiece& piece = *to++;
      piece = {from, static_cast<std::uint32_t>(count)};
      if (stays_there(from, count)) return;
      while (slot < range.slots_end && source_of_[slot] != kNone) ++slot;
      piece.place =
          count == kChunk && slot < range.slots_end ? static_cast<Place>(slot) : store(stored++);
      moves(from, piece.place);
    });
  }

  // Fills the destinations in [begin, end) that hold nothing, and those from which that takes
  // chunks; returns how many. Threads may do that for different destinations.
  std::size_t move_along_paths(std::size_t begin, std::size_t end) noexcept {
    std::size_t moved = 0;
    for (std::size_t place = begin; place < end; ++place) {
      // A place that holds a chunk belongs to another path, or to a cycle.
      if (leaves_[place] != 0) continue;
      for (std::size_t to = place; is_destination(to);) {
        const Place from = source_of_[to];
        move(from, to);
        ++moved;
        if (from >= chunks_) break;
        to = from;
      }
    }
    return moved;
  }

  // How many cycles are left.
  std::size_t find_cycles() noexcept {
    constexpr std::uint8_t kSeen = 2;
    cycles_.clear();
    for (std::size_t place = begin_; place < end_; ++place) {
      if (!is_destination(place) || leaves_[place] == kSeen) continue;
      cycles_.push_back(static_cast<Place>(place));
      for (std::size_t at = place; leaves_[at] != kSeen; at = source_of_[at]) leaves_[at] = kSeen;
    }
    return cycles_.size();
  }
  // Follows the cycles [first, last), and returns how many chunks it has moved. `room` is room for
  // a chunk.
  std::size_t move_along_cycles(std::size_t first, std::size_t last, Record* room) noexcept {
    std::size_t moved = 0;
    for (std::size_t cycle = first; cycle < last; ++cycle) {
      const Place begin = cycles_[cycle];
      copy(at(begin), room);
      Place to = begin;
      for (Place from; (from = source_of_[to]) != begin; to = from, ++moved) move(from, to);
      copy(room, at(to));
      source_of_[to] = to;
      ++moved;
    }
    return moved;
  }

  // Pieces, which lie in order but for gaps and for what is in the store, on their way to the
  // records of the array from `begin` on.
  struct ClosingUp {
    std::span<const PlacedPiece> pieces;
    std::size_t begin = 0;
    std::size_t segments = 0;  // that threads may move
    std::size_t head = 0;
  };
  // With at most `segments`; one, where `room` chunks are not enough for what is kept of each.
  ClosingUp close_up(std::span<const PlacedPiece> pieces, std::size_t begin, std::size_t segments,
                     std::size_t room) const noexcept {
    // A piece moves to the right by no more than what is in the store, and to the left by less than
    // a chunk.
    const std::size_t head =
        pieces.size() + 1 - static_cast<std::size_t>(std::ranges::count_if(pieces, is_there()));
    if (head + 1 > room || pieces.size() / segments < head + 2) segments = 1;
    return {pieces, begin, segments, head};
  }
  // Steps for each segment, the second after the first of all: copies what others will write over
  // to `kept`, and moves the segment. Then what is in the store is left.
  void keep(const ClosingUp& all, std::size_t index, Record* kept) noexcept {
    if (all.segments == 1) return;
    const Segment segment = segment_of(all, index);
    for_each_there(segment, [&](const PlacedPiece& piece, std::size_t, std::size_t i) {
      if (segment.keeps(i)) copy(at(piece.place), std::exchange(kept, kept + kChunk));
    });
  }
  void move(const ClosingUp& all, std::size_t index, const Record* kept) noexcept {
    const Segment segment = segment_of(all, index);
    std::size_t to = segment.to, there = segment.there;
    for (const PlacedPiece& piece : segment.pieces) to += piece.count;
    for (std::size_t i = segment.pieces.size(); i-- > 0;) {
      const PlacedPiece& piece = segment.pieces[i];
      to -= piece.count;
      if (piece.place >= chunks_ || segment.keeps(--there)) continue;
      if (to > piece.place * kChunk) copy_to(at(piece.place), piece.count, to);
    }
    for_each_there(segment, [&](const PlacedPiece& piece, std::size_t to, std::size_t i) {
      if (!segment.keeps(i) && to < piece.place * kChunk) {
        copy_to(at(piece.place), piece.count, to);
      }
    });
    for_each_there(segment, [&](const PlacedPiece& piece, std::size_t to, std::size_t i) {
      if (segment.keeps(i)) copy_to(std::exchange(kept, kept + kChunk), piece.count, to);
    });
  }
  void finish(const ClosingUp& all) noexcept {
    std::size_t to = all.begin;
    for (const PlacedPiece& piece : all.pieces) {
      if (piece.place >= chunks_) copy_to(at(piece.place), piece.count, to);
      to += piece.count;
    }
  }

 private:
  static constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;
  static constexpr Place kNone = 0xffffffff;

  // Pieces that one thread moves to the records of the array from `to` on.
  struct Segment {
    std::span<const PlacedPiece> pieces = {};
    std::size_t to = 0;
    std::size_t there = 0;  // so many lie in the array,
    std::size_t head = 0;   // of which so many at the beginning and at the end are kept apart
    std::size_t tail = 0;

    bool keeps(std::size_t index) const noexcept { return index < head || index + tail >= there; }
  };
  // Calls body(piece, to, index) for those that lie in the array.
  template <typename Body>
  void for_each_there(const Segment& segment, const Body& body) noexcept {
    std::size_t to = segment.to, index = 0;
    for (const PlacedPiece& piece : segment.pieces) {
      if (piece.place < chunks_) body(piece, to, index++);
      to += piece.count;
    }
  }
  auto is_there() const noexcept {
    return [this](const PlacedPiece& piece) { return piece.place < chunks_; };
  }
  Segment segment_of(const ClosingUp& all, std::size_t i) const noexcept {
    Segment segment{
        .to = all.begin, .head = i == 0 ? 0 : all.head, .tail = i + 1 == all.segments ? 0U : 1U};
    const std::size_t first = all.pieces.size() * i / all.segments;
    segment.pieces = all.pieces.subspan(first, all.pieces.size() * (i + 1) / all.segments - first);
    for (const PlacedPiece& piece : all.pieces.first(first)) segment.to += piece.count;
    segment.there = static_cast<std::size_t>(std::ranges::count_if(segment.pieces, is_there()));
    return segment;
  }
  void copy_to(const Record* from, std::size_t count, std::size_t to) noexcept {
    std::memmove(static_cast<void*>(array_ + to), from, count * sizeof(Record));
  }

  void forget(std::size_t place) noexcept {
    source_of_[place] = kNone;
    leaves_[place] = 0;
  }
  // Whether a chunk is still to come.
  bool is_destination(std::size_t place) const noexcept {
    return source_of_[place] != kNone && source_of_[place] != place;
  }
  static void copy(const Record* from, Record* to) noexcept {
    std::memcpy(static_cast<void*>(to), from, ChunkLayout<Record>::kChunkBytes);
  }
  void move(Place from, std::size_t to) noexcept {
    copy(at(from), at(static_cast<Place>(to)));
    source_of_[to] = static_cast<Place>(to);
  }

  Record* const array_;
  const std::size_t chunks_;
  Record* const extra_;
  const std::size_t store_chunks_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<Place> source_of_;      // itself: the chunk that belongs there is there
  std::vector<std::uint8_t> leaves_;  // the place holds a chunk that belongs elsewhere
  std::vector<Place> cycles_;         // a place of each
};

}}}  // namespace vortex::v0::detail

// Memory in chunks of a few KiB that lists of records grow through.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Writes the line to stderr and aborts: where a sort's own reckoning is wrong, and going on would
// overwrite memory of others. In every build. The lines that say it is a bug in vortex are about
// bounds that no input should break.
[[noreturn]] VORTEX_EXPORT void broken_bound(const char* line) noexcept;

// How records are grouped: chunks of 4 KiB, or about that. Their lists are a hundredth of the
// records where a chunk has 4000 bytes.
template <typename Record>
struct ChunkLayout {
  static constexpr std::size_t kFit = 4096 / sizeof(Record);
  static constexpr std::size_t kChunkRecords =
      std::max<std::size_t>(8, kFit * sizeof(Record) < 4000 ? kFit + 1 : kFit);
  static constexpr std::size_t kChunkBytes = kChunkRecords * sizeof(Record);
  // Records of a cache line, or one.
  static constexpr std::size_t kLineRecords = sizeof(Record) >= 64 ? 1 : 64 / sizeof(Record);

  // Asks for so many records: a line, or all of a record that has more.
  [[gnu::always_inline]] static void prefetch_line(const Record* records) noexcept {
    for (std::size_t at = 0; at < std::max<std::size_t>(sizeof(Record), 64); at += 64)
      __builtin_prefetch(reinterpret_cast<const std::byte*>(records) + at);
  }
};

// A list of records in chunks. All chunks but the last are full, unless the list has been joined
// from several (ChunkArena::rebase() to pieces).
struct Chain {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t head = kNone;
  std::uint32_t tail = kNone;
  std::size_t count = 0;
};

// Records that lie together: a full chunk, or the end of a list.
template <typename Record>
struct Piece {
  Record* records;
  std::size_t count;
};

// What an arena knows of a chunk, by a number.
template <typename Record>
struct ChunkNode {
  Record* data;
  std::uint32_t next;
  std::uint16_t missing;  // records that would fill it
  bool live;
};

// Chunks of an array that is being sorted in place, and spare ones. Chunks of the array join the
// free ones when they have been read; when the result arrives at a chunk that still holds records
// of some list, they are moved to a free chunk elsewhere. Everything is allocated by the
// constructor and reserve(), or is the user's.
//
// take() hands out the chunk that was freed last: it is still in cache.
template <typename Record>
class ChunkArena {
 public:
  static constexpr std::size_t kChunkRecords = ChunkLayout<Record>::kChunkRecords;
  static constexpr std::size_t kListBytes = 32;  // at most, for each chunk

  using Node = ChunkNode<Record>;

  // `array` of `array_chunks` chunks (0 chunks: all memory is spare) and `spare_chunks` from
  // `spare`.
  ChunkArena(Record* array, std::size_t array_chunks, Record* spare, std::size_t spare_chunks)
      : spare_(spare), spare_chunks_(spare_chunks) {
    reserve(array_chunks);
    rebase(array, array_chunks);
  }

  // Allocates what rebase() to arrays of up to `array_chunks` chunks needs, with up to `outside`
  // pieces outside of them. rebase() must follow.
  void reserve(std::size_t array_chunks, std::size_t outside = 0) {
    const std::size_t most = array_chunks + outside + spare_chunks_;
    if (most > most_nodes_) {
      own_nodes_ = std::make_unique_for_overwrite<Node[]>(most);
      nodes_ = own_nodes_.get();
    }
    reserve_lists(array_chunks, most);
  }
  // The same, instead of reserve(), for an arena whose nodes are those of `all` from `first` on.
  // Arenas that have all their nodes there may read the lists of each other, and take chunks from
  // each other that are in no list.
  void reserve_in(Node* all, std::size_t first, std::size_t array_chunks, std::size_t outside) {
    own_nodes_ = nullptr;
    nodes_ = all;
    first_node_ = static_cast<std::uint32_t>(first);
    free_.clear();
    free_chunks_ = 0;
    reserve_lists(array_chunks, array_chunks + outside + spare_chunks_);
  }
  std::uint32_t first_node() const noexcept { return first_node_; }

  // Turns to another array, with all spare chunks free. No larger one than reserve() has been told.
  void rebase(Record* array, std::size_t array_chunks) noexcept {
    array_ = array;
    array_chunks_ = array_chunks;
    result_chunks_ = 0;
    owners_.resize(array_chunks);
    free_.clear();
    free_chunks_ = spare_chunks_;
    std::uint32_t node = first_node_;
    for (std::size_t i = 0; i < array_chunks; ++i, ++node) {
      nodes_[node] = {array + i * kChunkRecords, Chain::kNone, 0, true};
      owners_[i] = node;
    }
    free_spare(node);
  }

  // Turns to a list of pieces, which the arena gets: piece_of(i) for i from 0 to `pieces` - 1, one
  // at least. Full ones lie in chunks of the array or elsewhere, others elsewhere, with the room of
  // a chunk. The chunks of the array that hold none are free, as are all spare ones. Returns the
  // list. No more than reserve() has been told.
  template <typename PieceOf>
  Chain rebase(Record* array, std::size_t array_chunks, std::size_t pieces,
               PieceOf piece_of) noexcept {
    array_ = array;
    array_chunks_ = array_chunks;
    result_chunks_ = 0;
    owners_.assign(array_chunks, Chain::kNone);
    free_.clear();
    free_chunks_ = spare_chunks_;
    std::uint32_t node = first_node_;
    Chain chain{node, node + static_cast<std::uint32_t>(pieces - 1), 0};
    for (std::size_t i = 0; i < pieces; ++i, ++node) {
      const Piece<Record> piece = piece_of(i);
      nodes_[node] = {piece.records, node == chain.tail ? Chain::kNone : node + 1,
                      static_cast<std::uint16_t>(kChunkRecords - piece.count), true};
      note_owner(node);
      chain.count += piece.count;
    }
    std::uint32_t empty = 0;
    for (const std::uint32_t owner : owners_) empty += owner == Chain::kNone ? 1 : 0;
    free_chunks_ += empty;
    const std::uint32_t spare = node + empty;
    free_spare(spare);
    for (std::size_t chunk = 0; node < spare; ++chunk) {
      if (owners_[chunk] != Chain::kNone) continue;
      nodes_[node] = {array + chunk * kChunkRecords, Chain::kNone, 0, false};
      owners_[chunk] = node;
      free_.push_back(node++);
    }
    return chain;
  }

  std::size_t spare_chunks() const noexcept { return spare_chunks_; }
  // The fewest chunks that have been free at once since the arena was made.
  std::size_t least_free_chunks() const noexcept { return least_free_; }

  // Spare chunks that have been used at some time: the others may have no memory behind them yet.
  std::size_t spare_chunks_touched() const noexcept { return spare_chunks_ - spare_untouched_; }

  // The bytes that reserve() allocates.
  static constexpr std::size_t list_bytes(std::size_t array_chunks, std::size_t other_chunks) {
    return (array_chunks + other_chunks) * (sizeof(Node) + sizeof(std::uint32_t)) +
           array_chunks * sizeof(std::uint32_t);
  }
  // The bytes that reserve() has allocated for lists.
  std::size_t list_bytes() const noexcept {
    return most_nodes_ * sizeof(Node) +
           (owners_.capacity() + free_.capacity()) * sizeof(std::uint32_t);
  }

  Record* data(std::uint32_t node) const noexcept { return nodes_[node].data; }
  std::uint32_t next(std::uint32_t node) const noexcept { return nodes_[node].next; }
  // How many records a chunk of a list holds, unless it is the last.
  std::size_t size(std::uint32_t node) const noexcept {
    return kChunkRecords - nodes_[node].missing;
  }
  void link(std::uint32_t node, std::uint32_t next) noexcept { nodes_[node].next = next; }

  // A free chunk. The user sees to it that there is one, as ChainSorter does; where there is
  // none the process ends, before anything is overwritten.
  std::uint32_t take() noexcept {
    for (;;) {
      if (free_.empty()) [[unlikely]]
        broken_bound(
            "vortex: a sort needs more spare chunks than it has set aside: a bug in vortex\n");
      const std::uint32_t node = free_.back();
      free_.pop_back();
      spare_untouched_ = std::min(spare_untouched_, free_.size());
      if (in_result(node)) continue;
      least_free_ = std::min(least_free_, --free_chunks_);
      nodes_[node].live = true;
      nodes_[node].missing = 0;
      nodes_[node].next = Chain::kNone;
      return node;
    }
  }
  void give(std::uint32_t node) noexcept {
    nodes_[node].live = false;
    free_.push_back(node);
    ++free_chunks_;
  }

  // Calls body(records, count, next) for the chunks of a chain in order, where `next` is what will
  // be read then; each is given back afterwards if `give`.
  template <bool give, typename Body>
  void for_each_chunk(const Chain& chain, Body body) noexcept {
    std::size_t left = chain.count;
    for (std::uint32_t node = chain.head; left != 0;) {
      const std::uint32_t next = this->next(node);
      const std::size_t here = std::min(left, size(node));
      const Record* records = data(node);
      body(records, here, left > here ? data(next) : records);
      if constexpr (give) this->give(node);
      left -= here;
      node = next;
    }
  }

  // The result is about to be written to the first `records` records of the array (counted from its
  // first chunk): moves out of the way what is still needed.
  void claim(std::size_t records) noexcept {
    const std::size_t end = std::min((records + kChunkRecords - 1) / kChunkRecords, array_chunks_);
    const std::size_t begin = result_chunks_;
    if (end <= begin) return;
    result_chunks_ = end;  // from here on take() avoids them
    for (std::size_t chunk = begin; chunk < end; ++chunk) {
      const std::uint32_t node = owners_[chunk];
      if (!nodes_[node].live) {
        least_free_ = std::min(least_free_, --free_chunks_);  // take() will pass it over
        continue;
      }
      const std::uint32_t refuge = take();
      std::memcpy(static_cast<void*>(nodes_[refuge].data), nodes_[node].data,
                  ChunkLayout<Record>::kChunkBytes);
      std::swap(nodes_[refuge].data, nodes_[node].data);
      // `refuge` now names a chunk of the result and is never used again.
      nodes_[refuge].live = false;
      note_owner(node);
      owners_[chunk] = refuge;
    }
  }

 private:
  static_assert(kChunkRecords <= 0xffff);

  void reserve_lists(std::size_t array_chunks, std::size_t most) {
    most_nodes_ = std::max(most_nodes_, most);
    free_.reserve(most_nodes_);
    owners_.reserve(array_chunks);
  }
  // Makes the last nodes those of the spare chunks, all free; `first` is the first of them.
  void free_spare(std::uint32_t first) noexcept {
    for (std::size_t i = spare_chunks_; i-- > 0;) {
      const std::uint32_t node = first + static_cast<std::uint32_t>(i);
      nodes_[node] = {spare_ + i * kChunkRecords, Chain::kNone, 0, false};
      free_.push_back(node);
    }
    spare_untouched_ = std::min(spare_untouched_, free_.size());
  }

  std::size_t chunk_of(const Record* data) const noexcept {
    return static_cast<std::size_t>(data - array_) / kChunkRecords;
  }
  bool in_array(const Record* data) const noexcept {
    return data >= array_ && data < array_ + array_chunks_ * kChunkRecords;
  }
  bool in_result(std::uint32_t node) const noexcept {
    const Record* at = nodes_[node].data;
    return in_array(at) && chunk_of(at) < result_chunks_;
  }
  void note_owner(std::uint32_t node) noexcept {
    if (in_array(nodes_[node].data)) owners_[chunk_of(nodes_[node].data)] = node;
  }

  Record* spare_;
  std::size_t spare_chunks_;
  std::size_t spare_untouched_ = static_cast<std::size_t>(-1);  // at the bottom of the free ones
  Record* array_ = nullptr;
  std::size_t array_chunks_ = 0;
  std::size_t result_chunks_ = 0;
  Node* nodes_ = nullptr;  // those of this arena begin at first_node_
  std::uint32_t first_node_ = 0;
  std::size_t most_nodes_ = 0;
  std::unique_ptr<Node[]> own_nodes_;
  std::vector<std::uint32_t> owners_;  // node of each chunk of the array
  std::vector<std::uint32_t> free_;    // and some of the result, which take() passes over
  std::size_t free_chunks_ = 0;        // without those
  std::size_t least_free_ = static_cast<std::size_t>(-1);
};

}}}  // namespace vortex::v0::detail

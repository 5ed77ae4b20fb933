// Sorting records that lie in memory on their way to somewhere else, with the order inlined.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "vortex/detail/merge/order_rules.h"
#include "vortex/detail/record/key.h"
#include "vortex/record_order.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// The scratch with which sort_records() works at all on `records` records of any size: about 23
// bytes times the square root of their number. With 16 bytes a record it moves each record once;
// with 32 it is at its fastest.
VORTEX_EXPORT std::size_t least_sort_scratch_bytes(std::uint64_t records) noexcept;

// The room of a scratch for pairs. Throws Error(ENOMEM) when it is too small to sort that many
// records.
VORTEX_EXPORT std::span<Pair64> pairs_of_scratch(std::span<std::byte> scratch, std::size_t records);

// How many records are sorted at once in room for that many pairs, and where their spare pairs are,
// if any. Pieces that are shorter than all leave room for the cursors of all pieces.
struct SortPieces {
  std::size_t records = 0;
  Pair64* spare = nullptr;
};
VORTEX_EXPORT SortPieces pieces_of_sort(std::size_t records, std::span<Pair64> pairs) noexcept;

// Sort pairs by their keys, in any order where these are equal; and by their values.
VORTEX_EXPORT void sort_pairs_by_key(Pair64* pairs, std::size_t count, Pair64* spare) noexcept;
VORTEX_EXPORT void sort_by_place(Pair64* begin, Pair64* end) noexcept;
// Sorts words in the order of their bits; `scratch` makes that faster where it is large enough.
// False: they are too many at once.
VORTEX_EXPORT bool sort_words_by_bits(std::byte* words, std::size_t count,
                                      std::span<std::byte> scratch) noexcept;

// Moves records so that pairs[i].value becomes i, cycle by cycle.
VORTEX_EXPORT void permute_records(std::byte* records, std::size_t record_bytes, Pair64* pairs,
                                   std::size_t count) noexcept;

// Appends records in the order that an index says.
VORTEX_EXPORT void append_by_index(RecordOutput& out, const std::byte* records,
                                   std::size_t record_bytes, const RecordIndex& index,
                                   std::size_t count);

// The parts of sort_records() that compare.
template <typename Rules>
class RecordSort {
 public:
  RecordSort(const Rules& order, std::byte* records, std::size_t count)
      : order_(order),
        records_(records),
        count_(count),
        record_bytes_(order.record_bytes()),
        bits_decide_(order.leading_bits_decide()) {}

  // The order of records that need not be sorted; kPlaces for all others.
  RecordIndex::Order given_order() const noexcept {
    if (while_less(false) == count_) return RecordIndex::Order::kGiven;
    return while_less(true) == count_ ? RecordIndex::Order::kReversed : RecordIndex::Order::kPlaces;
  }

  // Sorts pairs of the records [first, first + count) by the order and, where that does not decide,
  // their indices, which count from `first`.
  void sort_pairs(std::size_t first, std::size_t count, Pair64* pairs, Pair64* spare) const {
    for (std::size_t i = 0; i < count; ++i) pairs[i] = {order_.leading_bits(at(first + i)), i};
    sort_pairs_by_key(pairs, count, spare);
    for (std::size_t i = 0, end = 0; i < count; i = end) {
      end = i + 1;
      while (end < count && pairs[end].key == pairs[i].key) ++end;
      if (end - i > 1) sort_equal_bits(first, pairs + i, pairs + end);
    }
  }

  // Merges pieces of `piece` records each (the last may be shorter) by a heap of cursors. Not by a
  // LoserTree, which allocates and takes three times as much for each piece: the least scratch is
  // what the cursors of all pieces need.
  void merge_pieces(std::size_t piece, Pair64* scratch, RecordOutput& out) const {
    auto* const cursors = reinterpret_cast<Cursor*>(scratch);
    std::size_t size = 0;
    for (std::size_t first = 0; first < count_; first += piece) {
      cursors[size] = {order_.leading_bits(at(first)), at(first),
                       at(std::min(first + piece, count_)), size};
      ++size;
    }
    for (std::size_t i = size; i > 0; --i) sift_down(cursors, i - 1, size);
    for (std::size_t left = count_ * record_bytes_; left > 0;) {
      const std::span<std::byte> room = out.room(left);
      for (std::size_t to = 0; to < room.size(); to += record_bytes_) {
        Cursor& top = cursors[0];
        std::memcpy(room.data() + to, top.at, record_bytes_);
        top.at += record_bytes_;
        if (top.at == top.end) {
          top = cursors[--size];
        } else {
          top.bits = order_.leading_bits(top.at);
        }
        sift_down(cursors, 0, size);
      }
      out.written(room.size());
      left -= room.size();
    }
  }

 private:
  struct Cursor {
    std::uint64_t bits;
    const std::byte* at;
    const std::byte* end;
    std::size_t piece;
  };
  static_assert(sizeof(Cursor) <= 2 * sizeof(Pair64));

  // How many records, from the first on, are less than the one before, or are not.
  std::size_t while_less(bool wanted) const noexcept {
    if (count_ == 0) return 0;
    KeyedRecord before = with_bits(order_, at(0));
    for (std::size_t i = 1; i < count_; ++i) {
      const KeyedRecord here = with_bits(order_, at(i));
      if (less(order_, here, before) != wanted) return i;
      before = here;
    }
    return count_;
  }

  std::byte* at(std::size_t index) const noexcept { return records_ + index * record_bytes_; }

  void sort_equal_bits(std::size_t first, Pair64* begin, Pair64* end) const {
    if (bits_decide_) return sort_by_place(begin, end);
    std::sort(begin, end, [this, first](const Pair64& a, const Pair64& b) {
      // One comparison decides: of equal records the one with the smaller index is less.
      const std::byte* const left = at(first + a.value);
      const std::byte* const right = at(first + b.value);
      return a.value < b.value ? !order_.less_of_equal_bits(right, left)
                               : order_.less_of_equal_bits(left, right);
    });
  }

  bool before(const Cursor& a, const Cursor& b) const noexcept {
    if (a.bits != b.bits) return a.bits < b.bits;
    if (bits_decide_) return a.piece < b.piece;
    return a.piece < b.piece ? !order_.less_of_equal_bits(b.at, a.at)
                             : order_.less_of_equal_bits(a.at, b.at);
  }

  void sift_down(Cursor* cursors, std::size_t i, std::size_t size) const noexcept {
    for (std::size_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && before(cursors[child + 1], cursors[child])) ++child;
      if (!before(cursors[child], cursors[i])) return;
      std::swap(cursors[child], cursors[i]);
      i = child;
    }
  }

  const Rules& order_;
  std::byte* const records_;
  const std::size_t count_;
  const std::size_t record_bytes_;
  const bool bits_decide_;
};

// Appends `count` records to `out` in order; equal ones keep their order. Records that are in order
// or in strictly descending order already are only read. Otherwise pairs of leading bits and index
// are sorted in `scratch`, and the records are appended from where they are; where the scratch does
// not hold a pair for each, pieces are sorted in place that fit, and merged to the output.
// `records` hold the same records afterwards, in an unspecified order.
//
// Uses `scratch` and, besides, a fixed amount of stack; allocates nothing. Throws Error(ENOMEM),
// with nothing appended, when the scratch is smaller than least_sort_scratch_bytes(count), and what
// `out` throws.
template <typename Rules>
void sort_records(const Rules& order, std::byte* records, std::size_t count,
                  std::span<std::byte> scratch, RecordOutput& out) {
  const RecordSort<Rules> sort(order, records, count);
  const std::size_t record_bytes = order.record_bytes();
  RecordIndex index{sort.given_order()};
  if (index.order != RecordIndex::Order::kPlaces) {
    return append_by_index(out, records, record_bytes, index, count);
  }
  const std::span<Pair64> pairs = pairs_of_scratch(scratch, count);
  const SortPieces pieces = pieces_of_sort(count, pairs);
  for (std::size_t first = 0; first < count; first += pieces.records) {
    const std::size_t here = std::min(pieces.records, count - first);
    sort.sort_pairs(first, here, pairs.data(), pieces.spare);
    if (here == count) {
      index.places = pairs.data();
      return append_by_index(out, records, record_bytes, index, count);
    }
    permute_records(records + first * record_bytes, record_bytes, pairs.data(), here);
  }
  sort.merge_pieces(pieces.records, pairs.data(), out);
}

// The same order as an index, with a pair and a spare one for each record in `scratch`.
template <typename Rules>
RecordIndex index_records(const Rules& order, std::byte* records, std::size_t count,
                          std::span<std::byte> scratch) {
  const RecordSort<Rules> sort(order, records, count);
  RecordIndex index{sort.given_order()};
  if (index.order != RecordIndex::Order::kPlaces) return index;
  const std::span<Pair64> pairs = pairs_of_scratch(scratch, count);
  sort.sort_pairs(0, count, pairs.data(), pairs.data() + count);
  index.places = pairs.data();
  return index;
}

// The scratch that this takes. None: they are too many at once.
VORTEX_EXPORT std::optional<std::size_t> scratch_to_index_records(std::size_t count) noexcept;

}}}  // namespace vortex::v0::detail

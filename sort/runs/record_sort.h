// Sorting records that lie in memory on their way to somewhere else.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "sort/memory/index_sort.h"
#include "sort/record/record_order.h"
#include "vortex/error.h"

namespace vortex::inline v0 {

// The scratch with which sort_records() works at all on `records` records of any size: about 23
// bytes times the square root of their number. With 16 bytes a record it moves each record once;
// with 32 it is at its fastest.
inline std::size_t least_sort_scratch_bytes(std::uint64_t records) noexcept {
  // m pairs sort a piece, and then hold the cursors of all pieces, two pairs each.
  const auto pairs = static_cast<std::uint64_t>(std::sqrt(2.0 * static_cast<double>(records))) + 4;
  return sizeof(Pair64) * std::min(records, pairs) + alignof(std::max_align_t);
}

namespace detail {

// The parts of sort_records().
template <RecordOrder O>
class RecordSort {
 public:
  RecordSort(const O& order, std::byte* records, std::size_t count)
      : order_(order),
        records_(records),
        count_(count),
        record_bytes_(order.record_bytes()),
        bits_decide_(order.leading_bits_decide()) {}

  // How many records, from the first on, are in order; and in strictly descending order.
  std::size_t ascending() const noexcept {
    std::size_t i = 1;
    while (i < count_ && !order_.less(at(i), at(i - 1))) ++i;
    return std::min(i, count_);
  }
  std::size_t descending() const noexcept {
    std::size_t i = 1;
    while (i < count_ && order_.less(at(i), at(i - 1))) ++i;
    return std::min(i, count_);
  }

  template <typename Output>
  void append_forwards(Output& out) const {
    for (std::size_t i = 0; i < count_; ++i) out.append(at(i));
  }
  template <typename Output>
  void append_backwards(Output& out) const {
    for (std::size_t i = count_; i > 0; --i) out.append(at(i - 1));
  }

  // Whether the records can be sorted as numbers, where they are.
  bool are_bits() const noexcept {
    if constexpr (requires { order_.bits_are_record(); }) {
      return order_.bits_are_record() && count_ <= kMostIndexPairs &&
             reinterpret_cast<std::uintptr_t>(records_) % alignof(std::uint64_t) == 0;
    }
    return false;
  }
  void sort_as_bits(std::uint64_t* spare) const noexcept {
    if constexpr (requires { order_.bits_are_record(); }) {
      auto* const bits = reinterpret_cast<std::uint64_t*>(records_);
      for (std::size_t i = 0; i < count_; ++i) bits[i] = order_.leading_bits(at(i));
      sort_bits(bits, count_, spare);
      for (std::size_t i = 0; i < count_; ++i) order_.record_of(bits[i], at(i));
    }
  }

  // Sorts pairs of the records [first, first + count) by the order and, where that does not decide,
  // their indices, which count from `first`.
  void sort_pairs(std::size_t first, std::size_t count, Pair64* pairs, Pair64* spare) const {
    for (std::size_t i = 0; i < count; ++i) pairs[i] = {order_.leading_bits(at(first + i)), i};
    sort_index_pairs(pairs, count, spare);
    for (std::size_t i = 0, end = 0; i < count; i = end) {
      end = i + 1;
      while (end < count && pairs[end].key == pairs[i].key) ++end;
      if (end - i > 1) sort_equal_bits(first, pairs + i, pairs + end);
    }
  }

  template <typename Output>
  void append_by(const Pair64* pairs, Output& out) const {
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::byte* later = at(pairs[std::min(i + kAhead, count_ - 1)].value);
      __builtin_prefetch(later);
      if (record_bytes_ > 64) __builtin_prefetch(later + 64);
      out.append(at(pairs[i].value));
    }
  }

  // Moves records so that pairs[i].value becomes i, cycle by cycle.
  void permute(std::size_t first, Pair64* pairs, std::size_t count) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t to = i;
      while (pairs[to].value != i) {
        const std::size_t from = pairs[to].value;
        swap_records(at(first + to), at(first + from));
        pairs[to].value = to;
        to = from;
      }
      pairs[to].value = to;
    }
  }

  // Merges pieces of `piece` records each (the last may be shorter) by a heap of cursors. Not by a
  // LoserTree, which allocates and takes three times as much for each piece: the least scratch is
  // what the cursors of all pieces need.
  template <typename Output>
  void merge_pieces(std::size_t piece, std::byte* scratch, Output& out) const {
    auto* cursors = reinterpret_cast<Cursor*>(scratch);
    std::size_t size = 0;
    for (std::size_t first = 0; first < count_; first += piece) {
      cursors[size] = {order_.leading_bits(at(first)), at(first),
                       at(std::min(first + piece, count_)), size};
      ++size;
    }
    for (std::size_t i = size; i > 0; --i) sift_down(cursors, i - 1, size);
    while (size > 0) {
      Cursor& top = cursors[0];
      out.append(top.at);
      top.at += record_bytes_;
      if (top.at == top.end) {
        top = cursors[--size];
      } else {
        top.bits = order_.leading_bits(top.at);
      }
      sift_down(cursors, 0, size);
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

  std::byte* at(std::size_t index) const noexcept { return records_ + index * record_bytes_; }

  void sort_equal_bits(std::size_t first, Pair64* begin, Pair64* end) const {
    if (bits_decide_) {
      const auto by_index = [](const Pair64& a, const Pair64& b) { return a.value < b.value; };
      if (!std::is_sorted(begin, end, by_index)) std::sort(begin, end, by_index);
      return;
    }
    std::sort(begin, end, [this, first](const Pair64& a, const Pair64& b) {
      // One comparison decides: of equal records the one with the smaller index is less.
      return a.value < b.value ? !order_.less(at(first + b.value), at(first + a.value))
                               : order_.less(at(first + a.value), at(first + b.value));
    });
  }

  void swap_records(std::byte* a, std::byte* b) const noexcept {
    constexpr std::size_t kChunk = 256;
    std::byte kept[kChunk];
    for (std::size_t done = 0; done < record_bytes_; done += kChunk) {
      const std::size_t bytes = std::min(kChunk, record_bytes_ - done);
      std::memcpy(kept, a + done, bytes);
      std::memcpy(a + done, b + done, bytes);
      std::memcpy(b + done, kept, bytes);
    }
  }

  bool before(const Cursor& a, const Cursor& b) const noexcept {
    if (a.bits != b.bits) return a.bits < b.bits;
    if (bits_decide_) return a.piece < b.piece;
    return a.piece < b.piece ? !order_.less(b.at, a.at) : order_.less(a.at, b.at);
  }

  void sift_down(Cursor* cursors, std::size_t i, std::size_t size) const noexcept {
    for (std::size_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && before(cursors[child + 1], cursors[child])) ++child;
      if (!before(cursors[child], cursors[i])) return;
      std::swap(cursors[child], cursors[i]);
      i = child;
    }
  }

  const O& order_;
  std::byte* const records_;
  const std::size_t count_;
  const std::size_t record_bytes_;
  const bool bits_decide_;
};

}  // namespace detail

// Appends `count` records to `out` in order; equal ones keep their order. Records that are in order
// or in strictly descending order already are only read. Otherwise pairs of leading bits and index
// are sorted in `scratch`, and the records are appended from where they are (records that are
// nothing but such bits are sorted as numbers, without pairs); where the scratch does not hold a
// pair for each, pieces are sorted in place that fit, and merged to the output.
// `records` hold the same records afterwards, in an unspecified order.
//
// Uses `scratch` and, besides, a fixed amount of stack; allocates nothing. Throws Error(ENOMEM),
// with nothing appended, when the scratch is smaller than least_sort_scratch_bytes(count), and what
// `out` throws.
template <RecordOrder O, RecordOutput Output>
void sort_records(const O& order, std::byte* records, std::size_t count,
                  std::span<std::byte> scratch, Output& out) {
  const detail::RecordSort<O> sort(order, records, count);
  if (sort.ascending() == count) return sort.append_forwards(out);
  if (sort.descending() == count) return sort.append_backwards(out);

  if (scratch.size() < least_sort_scratch_bytes(count)) {
    throw Error(ENOMEM, "sorting " + std::to_string(count) + " records: a scratch of " +
                            format_bytes(scratch.size()) + ", it takes " +
                            format_bytes(least_sort_scratch_bytes(count)) + " at least");
  }
  void* begin = scratch.data();
  std::size_t scratch_bytes = scratch.size();
  begin = std::align(alignof(Pair64), sizeof(Pair64), begin, scratch_bytes);
  auto* const pairs = static_cast<Pair64*>(begin);
  const std::size_t room = scratch_bytes / sizeof(Pair64);

  if (sort.are_bits()) {
    const bool has_spare = count <= scratch_bytes / sizeof(std::uint64_t);
    sort.sort_as_bits(has_spare ? static_cast<std::uint64_t*>(begin) : nullptr);
    return sort.append_forwards(out);
  }
  if (count <= std::min(room, kMostIndexPairs)) {
    sort.sort_pairs(0, count, pairs, 2 * count <= room ? pairs + count : nullptr);
    return sort.append_by(pairs, out);
  }
  // Half of the room is spare if the cursors of so many pieces fit, too.
  const auto pieces_of = [count](std::size_t piece) { return (count + piece - 1) / piece; };
  const bool has_spare = 2 * pieces_of(room / 2) <= room;
  const std::size_t piece = std::min(has_spare ? room / 2 : room, kMostIndexPairs);
  for (std::size_t first = 0; first < count; first += piece) {
    const std::size_t here = std::min(piece, count - first);
    sort.sort_pairs(first, here, pairs, has_spare ? pairs + piece : nullptr);
    sort.permute(first, pairs, here);
  }
  sort.merge_pieces(piece, static_cast<std::byte*>(begin), out);
}

}  // namespace vortex::inline v0

#include "vortex/detail/merge/record_sort.h"

#include <cerrno>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "sort/kernels/index_sort.h"
#include "sort/memory/record_paths.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

void swap_records(std::byte* a, std::byte* b, std::size_t record_bytes) noexcept {
  constexpr std::size_t kChunk = 256;
  std::byte kept[kChunk];
  for (std::size_t done = 0; done < record_bytes; done += kChunk) {
    const std::size_t bytes = std::min(kChunk, record_bytes - done);
    std::memcpy(kept, a + done, bytes);
    std::memcpy(a + done, b + done, bytes);
    std::memcpy(b + done, kept, bytes);
  }
}

// Short records of the usual sizes are copied in a register, without a call.
void copy_record(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes == 16) {
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void append_places(RecordOutput& out, const std::byte* records, std::size_t record_bytes,
                   const Pair64* pairs, std::size_t count) {
  constexpr std::size_t kAhead = 32;
  const auto place = [&](std::size_t i) { return records + pairs[i].value * record_bytes; };
  for (std::size_t done = 0; done < count;) {
    const std::span<std::byte> room = out.room((count - done) * record_bytes);
    for (std::size_t to = 0; to < room.size(); to += record_bytes, ++done) {
      ask_for(place(std::min(done + kAhead, count - 1)), record_bytes);
      copy_record(room.data() + to, place(done), record_bytes);
    }
    out.written(room.size());
  }
}

}  // namespace

std::size_t least_sort_scratch_bytes(std::uint64_t records) noexcept {
  // m pairs sort a piece, and then hold the cursors of all pieces, two pairs each.
  const auto pairs = static_cast<std::uint64_t>(std::sqrt(2.0 * static_cast<double>(records))) + 4;
  return sizeof(Pair64) * std::min(records, pairs) + alignof(std::max_align_t);
}

std::span<Pair64> pairs_of_scratch(std::span<std::byte> scratch, std::size_t records) {
  if (scratch.size() < least_sort_scratch_bytes(records)) {
    throw Error(ENOMEM, "sorting " + std::to_string(records) + " records: a scratch of " +
                            format_bytes(scratch.size()) + ", it takes " +
                            format_bytes(least_sort_scratch_bytes(records)) + " at least");
  }
  void* begin = scratch.data();
  std::size_t bytes = scratch.size();
  begin = std::align(alignof(Pair64), sizeof(Pair64), begin, bytes);
  return {static_cast<Pair64*>(begin), bytes / sizeof(Pair64)};
}

SortPieces pieces_of_sort(std::size_t records, std::span<Pair64> pairs) noexcept {
  const std::size_t room = pairs.size();
  if (records <= std::min(room, kMaxIndexPairs)) {
    return {records, 2 * records <= room ? pairs.data() + records : nullptr};
  }
  // Half of the room is spare if the cursors of all pieces fit, too.
  const auto pieces_of = [records](std::size_t piece) { return detail::units_for(records, piece); };
  const bool has_spare = 2 * pieces_of(room / 2) <= room;
  const std::size_t piece = std::min(has_spare ? room / 2 : room, kMaxIndexPairs);
  return {piece, has_spare ? pairs.data() + piece : nullptr};
}

void sort_pairs_by_key(Pair64* pairs, std::size_t count, Pair64* spare) noexcept {
  sort_index_pairs(pairs, count, spare);
}

void sort_by_place(Pair64* begin, Pair64* end) noexcept {
  const auto by_place = [](const Pair64& a, const Pair64& b) { return a.value < b.value; };
  if (!std::is_sorted(begin, end, by_place)) std::sort(begin, end, by_place);
}

bool sort_words_by_bits(std::byte* bytes_of_words, std::size_t count,
                        std::span<std::byte> scratch) noexcept {
  if (count > kMaxIndexPairs) return false;
  auto* const words = reinterpret_cast<std::uint64_t*>(bytes_of_words);
  if (std::is_sorted(words, words + count, std::greater<>())) {
    std::reverse(words, words + count);
    return true;
  }
  void* spare = scratch.data();
  std::size_t bytes = scratch.size();
  const std::size_t needed = count * sizeof(std::uint64_t);
  sort_bits(words, count,
            static_cast<std::uint64_t*>(std::align(alignof(std::uint64_t), needed, spare, bytes)));
  return true;
}

void permute_records(std::byte* records, std::size_t record_bytes, Pair64* pairs,
                     std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t to = i;
    while (pairs[to].value != i) {
      const std::size_t from = pairs[to].value;
      swap_records(records + to * record_bytes, records + from * record_bytes, record_bytes);
      pairs[to].value = to;
      to = from;
    }
    pairs[to].value = to;
  }
}

std::optional<std::size_t> scratch_to_index_records(std::size_t count) noexcept {
  if (count > kMaxIndexPairs) return std::nullopt;
  return std::max(2 * count * sizeof(Pair64) + alignof(std::max_align_t),
                  least_sort_scratch_bytes(count));
}

void append_by_index(RecordOutput& out, const std::byte* records, std::size_t record_bytes,
                     const RecordIndex& index, std::size_t count) {
  switch (index.order) {
    case RecordIndex::Order::kGiven:
      return append_records(out, records, count, record_bytes);
    case RecordIndex::Order::kReversed:
      return append_reversed(out, records, count, record_bytes);
    case RecordIndex::Order::kPlaces:
      return append_places(out, records, record_bytes, index.places, count);
  }
}

}}}  // namespace vortex::v0::detail

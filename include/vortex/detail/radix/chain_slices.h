// A chain distributed to slices that lie in the caches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Gathers the records of a chain in a workspace, slice by slice, and sorts these from there.
// Allocates in its constructor only.
template <typename Record, typename KeyOf>
class ChainSlices {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  using Dense = DenseSorter<Record, KeyOf>;
  static constexpr unsigned kMaxSlices = Dense::kMaxSlices;
  // The bytes that the constructor allocates.
  static constexpr std::size_t kWorkingBytes = kMaxSlices * sizeof(Record*);

  // All outlive it. `workspace` has room for the chains to come, and more for gather().
  ChainSlices(const SortRules<Record, KeyOf>& rules, ChunkArena<Record>& arena, const Dense& dense,
              Record* workspace)
      : rules_(rules),
        arena_(arena),
        dense_(dense),
        workspace_(workspace),
        cursors_(std::make_unique_for_overwrite<Record*[]>(kMaxSlices)) {}

  // Distributes the chain to slices of the workspace without counting first. If each slice has kept
  // to its room the chain's chunks are given back; otherwise nothing has happened and the result is
  // false: a slice may overflow into others, for which the workspace has room.
  bool gather(const Chain& chain, const ScaledDigit<Bits>& digit, unsigned slices,
              std::size_t room) noexcept {
    const auto slice_of = rules_.on_record(digit);
    Record* const begin = workspace_;
    Record** const cursors = cursors_.get();
    for (unsigned i = 0; i < slices; ++i) cursors[i] = begin + i * room;
    arena_.template for_each_chunk<false>(
        chain, [&](const Record* records, std::size_t here, const Record* next) {
          Dense::append_all(cursors, slice_of, records, here, next);
        });
    const bool fits = Dense::have_fitted(cursors, slices, begin, room);
    if (fits)
      arena_.template for_each_chunk<true>(chain, [](const Record*, std::size_t, const Record*) {});
    return fits;
  }

  // Distributes the chain to slices of the workspace that lie one after the other, and gives its
  // chunks back.
  void gather_counted(const Chain& chain, const ScaledDigit<Bits>& digit,
                      unsigned slices) noexcept {
    const auto slice_of = rules_.on_record(digit);
    std::array<std::uint32_t, kMaxSlices> sizes;
    std::fill_n(sizes.begin(), slices, 0);
    arena_.template for_each_chunk<false>(
        chain, [&](const Record* records, std::size_t here, const Record* next) {
          for (std::size_t i = 0; i < here; ++i) {
            if (i % kLine == 0) __builtin_prefetch(next + i);
            ++sizes[slice_of(records[i])];
          }
        });
    Record* at = workspace_;
    Record** const cursors = cursors_.get();
    for (unsigned i = 0; i < slices; ++i) {
      cursors[i] = at;
      at += sizes[i];
    }
    arena_.template for_each_chunk<true>(
        chain, [&](const Record* records, std::size_t here, const Record*) {
          for (std::size_t i = 0; i < here; ++i) {
            Dense::append(cursors, slice_of(records[i]), records[i]);
          }
        });
  }

  // Sorts the slices, one after the other, to `to`: after gather() with that room, or after
  // gather_counted().
  void sort(unsigned slices, std::size_t room, Record* to) const noexcept {
    sort_slices(slices, to, [&](unsigned i) { return workspace_ + i * room; });
  }
  void sort_counted(unsigned slices, Record* to) const noexcept {
    sort_slices(slices, to, [&](unsigned i) { return i == 0 ? workspace_ : cursors_[i - 1]; });
  }

 private:
  static constexpr std::size_t kLine = ChunkLayout<Record>::kLineRecords;

  // The slices begin at begin_of(slice) and end at their cursors.
  template <typename BeginOf>
  void sort_slices(unsigned slices, Record* to, BeginOf begin_of) const noexcept {
    for (unsigned i = 0; i < slices; ++i) {
      Record* const slice = begin_of(i);
      const auto size = static_cast<std::size_t>(cursors_[i] - slice);
      dense_.sort(slice, size, to, true);
      to += size;
    }
  }

  const SortRules<Record, KeyOf>& rules_;
  ChunkArena<Record>& arena_;
  const Dense& dense_;
  Record* const workspace_;
  const std::unique_ptr<Record*[]> cursors_;  // kMaxSlices
};

}}}  // namespace vortex::v0::detail

// Scattering records to lists of chunks, and such a list to slices that lie in the caches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Writes each record straight to the last chunk of its list. Chunks are taken from those that have
// just been read, so the lists grow in cached memory and nothing is gained by gathering records in
// buffers first, as writing to memory beyond the caches wants it
// (docs/decisions/0019-scatter-levels.md). Does not allocate.
template <typename Record>
class ChainWriter {
 public:
  static constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;
  // Reading ahead of the processor's own prefetching gains a fifth of the time
  // (docs/decisions/0019-scatter-levels.md).
  static constexpr std::size_t kAheadBytes = 2048;

  // Starts a scatter into `buckets` empty chains.
  void start(ChunkArena<Record>& arena, Chain* chains, unsigned buckets) noexcept {
    arena_ = &arena;
    chains_ = chains;
    buckets_ = buckets;
    for (unsigned i = 0; i < buckets; ++i) {
      cursors_[i] = ends_[i] = nullptr;
      chains[i] = Chain{};
    }
  }

  // Appends records[0..count) to their chains, but not those for which leave_out(record) holds.
  // `next` is where reading goes on afterwards.
  template <typename Digit, typename LeaveOut>
  void scatter(const Record* records, std::size_t count, const Record* next, Digit digit,
               LeaveOut leave_out) noexcept {
    constexpr std::size_t kGroup = ChunkLayout<Record>::kLineRecords;
    constexpr std::size_t kAhead = kAheadBytes / sizeof(Record) + 1;
    std::size_t i = 0;
    for (; i + kGroup <= count; i += kGroup) {
      ChunkLayout<Record>::prefetch_line(i + kAhead < count ? records + i + kAhead
                                                            : next + (i + kAhead - count));
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kGroup; ++k) put(records[i + k], digit, leave_out);
    }
    for (std::size_t rest = count % kGroup; rest != 0; --rest)
      put(records[count - rest], digit, leave_out);
  }

  template <typename Digit>
  void scatter(const Record* records, std::size_t count, const Record* next, Digit digit) noexcept {
    scatter(records, count, next, digit, [](const Record&) noexcept { return false; });
  }

  // Counts what the last chunks of the chains hold.
  void finish() noexcept {
    for (unsigned i = 0; i < buckets_; ++i) {
      if (ends_[i] != nullptr) {
        chains_[i].count += kChunk - static_cast<std::size_t>(ends_[i] - cursors_[i]);
      }
    }
  }

 private:
  template <typename Digit, typename LeaveOut>
  [[gnu::always_inline]] void put(const Record& record, Digit& digit,
                                  LeaveOut& leave_out) noexcept {
    const unsigned bucket = digit(record);
    const bool left_out = leave_out(record);
    Record* at = cursors_[bucket];
    if (at == ends_[bucket]) [[unlikely]] {
      if (left_out) return;
      at = grow(bucket);
    }
    // Writing what is left out and staying is a branch less.
    std::memcpy(static_cast<void*>(at), &record, sizeof(Record));
    cursors_[bucket] = at + (left_out ? 0 : 1);
  }

  [[gnu::noinline]] Record* grow(unsigned bucket) noexcept {
    const std::uint32_t node = arena_->take();
    Chain& chain = chains_[bucket];
    if (chain.tail == Chain::kNone) {
      chain.head = node;
    } else {
      arena_->link(chain.tail, node);
      chain.count += kChunk;
    }
    chain.tail = node;
    Record* const begin = arena_->data(node);
    ends_[bucket] = begin + kChunk;
    return begin;
  }

  ChunkArena<Record>* arena_ = nullptr;
  Chain* chains_ = nullptr;
  unsigned buckets_ = 0;
  Record* cursors_[kMaxBuckets];
  Record* ends_[kMaxBuckets];
};

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
  template <typename Digit>
  void gather_counted(const Chain& chain, const Digit& digit, unsigned slices) noexcept {
    const auto slice_of = rules_.on_record(digit);
    std::array<std::uint32_t, kMaxSlices> sizes;
    std::fill_n(sizes.begin(), slices, 0);
    arena_.template for_each_chunk<false>(
        chain, [&](const Record* records, std::size_t here, const Record* next) {
          for (std::size_t i = 0; i < here; ++i) {
            if (i % kLine == 0) ChunkLayout<Record>::prefetch_line(next + i);
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
    for (unsigned i = 0; i < slices; ++i) {
      Record* const slice = workspace_ + i * room;
      const auto size = static_cast<std::size_t>(cursors_[i] - slice);
      dense_.sort(slice, size, to, true);
      to += size;
    }
  }
  void sort_counted(unsigned slices, Record* to) const noexcept {
    Record* slice = workspace_;
    for (unsigned i = 0; i < slices;) {
      const auto end_of = [&](unsigned k) { return static_cast<std::size_t>(cursors_[k] - slice); };
      i = Dense::end_of_few(i, slices, end_of);
      const std::size_t size = end_of(i - 1);
      dense_.sort(slice, size, to, true);
      to += size;
      slice += size;
    }
  }

 private:
  static constexpr std::size_t kLine = ChunkLayout<Record>::kLineRecords;

  const SortRules<Record, KeyOf>& rules_;
  ChunkArena<Record>& arena_;
  const Dense& dense_;
  Record* const workspace_;
  const std::unique_ptr<Record*[]> cursors_;  // kMaxSlices
};

}}}  // namespace vortex::v0::detail

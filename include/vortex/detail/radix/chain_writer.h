// Scattering records to lists of chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vortex/detail/radix/chunk_arena.h"
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
      __builtin_prefetch(i + kAhead < count ? records + i + kAhead : next + (i + kAhead - count));
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

}}}  // namespace vortex::v0::detail

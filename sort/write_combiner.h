// Scattering records to lists through small buffers that stay in cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "sort/chunk_arena.h"
#include "sort/digit.h"

namespace vortex {

// Buffers of 512 bytes, one a bucket; a full one is copied to the bucket's chain at once. Writing
// each key straight to its bucket would touch a cache line and a page of 256 at a time; this
// touches one of the buffers, and the lines of the chunks whole (software write combining,
// section 5.5 of the Vortex paper). What that gains is measured in bench/partition.
template <typename Record>
class WriteCombiner {
 public:
  static constexpr std::size_t kFlush = ChunkLayout<Record>::kFlushRecords;
  static constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;
  // Reading ahead of the processor's own prefetching gains a fifth of the time (docs/decisions.md).
  static constexpr std::size_t kAheadBytes = 2048;

  WriteCombiner()
      : buffers_(static_cast<Record*>(::operator new (kMostBuckets* kFlush * sizeof(Record),
                                                      std::align_val_t{kAlignment}))) {}

  // Starts a scatter into `buckets` empty chains.
  void start(ChunkArena<Record>& arena, Chain* chains, unsigned buckets) noexcept {
    arena_ = &arena;
    chains_ = chains;
    buckets_ = buckets;
    for (unsigned i = 0; i < buckets; ++i) {
      cursors_[i] = buffer(i);
      ends_[i] = buffer(i) + kFlush;
      room_[i] = 0;
      chains[i] = Chain{};
    }
  }

  // Appends records[0..count) to their chains. `next` is where reading goes on afterwards.
  template <typename Digit>
  void scatter(const Record* records, std::size_t count, const Record* next, Digit digit) noexcept {
    constexpr std::size_t kGroup = sizeof(Record) >= 64 ? 1 : 64 / sizeof(Record);
    constexpr std::size_t kAhead = kAheadBytes / sizeof(Record) + 1;
    std::size_t i = 0;
    for (; i + kGroup <= count; i += kGroup) {
      __builtin_prefetch(i + kAhead < count ? records + i + kAhead : next + (i + kAhead - count));
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kGroup; ++k) put(records[i + k], digit);
    }
    for (std::size_t rest = count % kGroup; rest != 0; --rest) put(records[count - rest], digit);
  }

  // Hands the rest of the buffers to the chains.
  void finish() noexcept {
    for (unsigned i = 0; i < buckets_; ++i) {
      const std::size_t rest = static_cast<std::size_t>(cursors_[i] - buffer(i));
      if (rest == 0) continue;
      if (room_[i] == 0) grow(i);
      std::memcpy(static_cast<void*>(targets_[i]), buffer(i), rest * sizeof(Record));
      chains_[i].count += rest;
    }
  }

 private:
  static constexpr std::size_t kAlignment = 4096;
  struct Delete {
    void operator()(Record* buffers) const noexcept {
      ::operator delete (static_cast<void*>(buffers), std::align_val_t{kAlignment});
    }
  };

  Record* buffer(unsigned bucket) const noexcept { return buffers_.get() + bucket * kFlush; }

  template <typename Digit>
  [[gnu::always_inline]] void put(const Record& record, Digit& digit) noexcept {
    const unsigned bucket = digit(record);
    Record* const at = cursors_[bucket];
    std::memcpy(static_cast<void*>(at), &record, sizeof(Record));
    cursors_[bucket] = at + 1;
    if (at + 1 == ends_[bucket]) [[unlikely]]
      flush(bucket);
  }

  [[gnu::always_inline]] void flush(unsigned bucket) noexcept {
    Record* const from = buffer(bucket);
    cursors_[bucket] = from;
    if (room_[bucket] == 0) grow(bucket);
    --room_[bucket];
    copy_flush(targets_[bucket], from);
    targets_[bucket] += kFlush;
    chains_[bucket].count += kFlush;
  }

  // In vector registers: for this size compilers prefer `rep movs`, which starts slowly.
  [[gnu::always_inline]] static void copy_flush(Record* to, const Record* from) noexcept {
    // Through memcpy, since records of some sizes leave buffers and chunks unaligned.
    using Words = std::uint64_t __attribute__((vector_size(16)));
    constexpr std::size_t kBytes = kFlush * sizeof(Record);
    constexpr std::size_t kWhole = kBytes / sizeof(Words) * sizeof(Words);
    auto* target = reinterpret_cast<std::byte*>(to);
    const auto* source = reinterpret_cast<const std::byte*>(from);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kWhole; i += sizeof(Words)) {
      Words words;
      std::memcpy(&words, source + i, sizeof(Words));
      std::memcpy(target + i, &words, sizeof(Words));
    }
    std::memcpy(target + kWhole, source + kWhole, kBytes - kWhole);
  }

  [[gnu::noinline]] void grow(unsigned bucket) noexcept {
    const std::uint32_t node = arena_->take();
    Chain& chain = chains_[bucket];
    if (chain.tail == Chain::kNone) {
      chain.head = node;
    } else {
      arena_->link(chain.tail, node);
    }
    chain.tail = node;
    targets_[bucket] = arena_->data(node);
    room_[bucket] = 8;
  }

  std::unique_ptr<Record[], Delete> buffers_;
  ChunkArena<Record>* arena_ = nullptr;
  Chain* chains_ = nullptr;
  unsigned buckets_ = 0;
  Record* cursors_[kMostBuckets];
  Record* ends_[kMostBuckets];
  Record* targets_[kMostBuckets];
  std::uint32_t room_[kMostBuckets];  // flushes that still fit the last chunk
};

}  // namespace vortex

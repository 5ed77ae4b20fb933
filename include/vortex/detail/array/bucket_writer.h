// Scattering records to bucket streams through write-combining buffers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 { namespace detail {

// Appends records to buckets in one pass, without counting first (Algorithm 9 of the Vortex paper
// and its section 5.5). A buffer of 1 KiB is written past the caches when it is full; that is
// also when the writer knows that a bucket enters a new block, and it opens the block itself: a
// fault would cost more and could not return an error.
//
// The buckets must be empty, except those of restart(). Records whose size does not divide 1 KiB
// straddle lines and blocks; their buffers hold a power of two of them and are copied through the
// caches.
template <typename Record>
class BucketWriter {
 public:
  static constexpr std::size_t kFlush =
      sizeof(Record) >= 1024 ? 1 : std::bit_floor(1024 / sizeof(Record));
  static constexpr std::size_t kFlushBytes = kFlush * sizeof(Record);

  // Allocates. `buckets` must outlive the writer.
  explicit BucketWriter(std::span<const std::unique_ptr<BucketStream>> buckets)
      : buckets_(buckets), buffers_(buckets.size() * kFlushBytes, false), lists_(buckets.size()) {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      lists_[i].cursor = buffer(i);
      lists_[i].end = buffer(i) + kFlush;
      lists_[i].target = begin(i);
      lists_[i].opened = buckets[i]->bytes();
    }
  }

  // Goes on at `ends`, one for each bucket, by stores that fault where a block is missing. The
  // first flush is as short as lets the others begin where lines of the bucket do.
  void restart(Record* const* ends) noexcept {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      const std::size_t behind = reinterpret_cast<std::uintptr_t>(ends[i]) / sizeof(Record);
      lists_[i].cursor = buffer(i);
      lists_[i].end = buffer(i) + (kFlush - behind % kFlush);
      lists_[i].target = ends[i];
      lists_[i].opened = buckets_[i]->bytes() + buckets_[i]->reserved_bytes();
    }
  }

  // Appends records[0..count). Returns how many it took; less than `count` only when a bucket could
  // not get a block, with the reason in error(). The records that it took are in the buckets or the
  // buffers.
  template <typename BucketOf>
  std::size_t scatter(const Record* records, std::size_t count, BucketOf bucket_of) noexcept {
    constexpr std::size_t kAhead = 2048 / sizeof(Record);
    constexpr std::size_t kLine = sizeof(Record) >= 64 ? 1 : 64 / sizeof(Record);
    // Prefetching goes past the end of the part, where the next part usually is, and never faults.
    std::size_t i = 0;
    for (; i + kLine <= count; i += kLine) {
      __builtin_prefetch(records + i + kAhead);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kLine; ++k) {
        if (!put(records[i + k], bucket_of)) return i + k + 1;
      }
    }
    for (; i < count; ++i) {
      if (!put(records[i], bucket_of)) return i + 1;
    }
    return count;
  }

  // Writes what the buffers hold. Returns 0 or an errno value; may be called again.
  int finish() noexcept {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      List& list = lists_[i];
      const auto rest = static_cast<std::size_t>(list.cursor - buffer(i));
      if (rest == 0) continue;
      if (!make_room(i, rest)) return error_;
      std::memcpy(static_cast<void*>(list.target), buffer(i), rest * sizeof(Record));
      list.target += rest;
      list.cursor = buffer(i);
    }
    finish_streaming();
    return 0;
  }

  int error() const noexcept { return error_; }
  // Where the next record of a bucket goes, after finish().
  Record* end(std::size_t bucket) const noexcept { return lists_[bucket].target; }
  // Records written to a bucket, and those that still are in its buffer.
  std::size_t count(std::size_t bucket) const noexcept {
    return static_cast<std::size_t>(lists_[bucket].target - begin(bucket));
  }
  std::span<const Record> buffered(std::size_t bucket) const noexcept {
    return {buffer(bucket), lists_[bucket].cursor};
  }

 private:
  struct List {
    Record* cursor;     // in the buffer
    Record* end;        // of the buffer
    Record* target;     // in the bucket
    std::byte* opened;  // the bucket can be written up to here
  };

  Record* buffer(std::size_t bucket) const noexcept {
    return static_cast<Record*>(buffers_.get()) + bucket * kFlush;
  }
  Record* begin(std::size_t bucket) const noexcept {
    return reinterpret_cast<Record*>(buckets_[bucket]->bytes());
  }

  template <typename BucketOf>
  [[gnu::always_inline]] bool put(const Record& record, BucketOf& bucket_of) noexcept {
    const unsigned bucket = bucket_of(record);
    List& list = lists_[bucket];
    Record* const at = list.cursor;
    std::memcpy(static_cast<void*>(at), &record, sizeof(Record));
    list.cursor = at + 1;
    return at + 1 != list.end || flush(bucket);
  }

  bool make_room(std::size_t bucket, std::size_t records) noexcept {
    List& list = lists_[bucket];
    const auto* const end = reinterpret_cast<const std::byte*>(list.target + records);
    if (end <= list.opened) [[likely]]
      return true;
    BucketStream& stream = *buckets_[bucket];
    const std::size_t block_bytes = stream.pool().block_bytes();
    while (end > list.opened) {
      error_ = BlockRanges::open(stream, static_cast<std::uint64_t>(list.opened - stream.bytes()),
                                 block_bytes);
      if (error_ != 0) return false;
      list.opened += block_bytes;
    }
    return true;
  }

  bool flush(std::size_t bucket) noexcept {
    List& list = lists_[bucket];
    Record* const from = buffer(bucket);
    const auto held = static_cast<std::size_t>(list.end - from);
    if (!make_room(bucket, held)) return false;
    if (kFlushBytes == 1024 && held == kFlush) {
      streaming_copy<1024>(list.target, from);
    } else {
      std::memcpy(static_cast<void*>(list.target), from, held * sizeof(Record));
    }
    list.target += held;
    list.cursor = from;
    list.end = from + kFlush;
    return true;
  }

  std::span<const std::unique_ptr<BucketStream>> buckets_;
  const KeptMemory buffers_;
  std::vector<List> lists_;
  int error_ = 0;
};

}}}  // namespace vortex::v0::detail

// The buckets that runs are partitioned into.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/record_order.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

// What short records on their way to a bucket are gathered in: it is written past the caches when
// it is full, since a store to one of many places in memory costs several times as much.
struct alignas(detail::kStreamedBytes) BucketBuffer {
  std::byte bytes[1024];

  static bool suits(std::size_t record_bytes) noexcept {
    return sizeof(bytes) % record_bytes == 0 && record_bytes <= detail::kStreamedBytes;
  }
  // Copies what it holds to a place where records of this length lie.
  void write(std::byte* to, std::size_t held) const noexcept {
    if (detail::suits_streaming(to, held)) {
      detail::streaming_copy(to, bytes, held);
    } else {
      std::memcpy(to, bytes, held);
    }
  }
};

// A bucket that takes no more records. Null: there is none.
struct ClosedBucket {
  std::unique_ptr<BucketStream> stream;
  std::size_t bytes = 0;

  std::byte* begin() const noexcept { return stream->bytes(); }
};

// The open ends of buckets: records are stored through their pointers, and faults place blocks of
// the pool (sections 5.3 and 5.4 of the Vortex paper). A block is set aside before a store can miss
// it, so no fault finds the pool empty; for all that is buffered it has been.
//
// Stores fail only where the kernel refuses to move a block: in a fault, for the guarded scope that
// they are in. One thread at a time, but for buckets that were closed.
class RunBuckets final : public OpenBuckets {
 public:
  struct Most {
    unsigned open = 1;
    unsigned closed = 1;     // besides
    std::size_t blocks = 0;  // of open ones
  };
  // `buffers` are one for each open bucket, or null: records go to their buckets at once. Throws
  // Error when the system refuses the address space: each bucket may have to hold everything.
  RunBuckets(StreamPool& pool, const Most& most, std::size_t record_bytes, BucketBuffer* buffers);

  // Sets blocks aside until a record fits, and until all that will be buffered does; false: the
  // open buckets have as many as they may, or none is free. Throws Error when the kernel refuses
  // what it takes; so do the others that are not noexcept.
  bool extend(std::size_t bucket) override;

  // Instead of scattering: makes room for `bytes` behind a bucket, in which nothing is
  // buffered then, and returns where they go; null: as extend() false. Then, when they are there,
  // added().
  std::byte* room_for(std::size_t bucket, std::size_t bytes);
  void added(std::size_t bucket, std::size_t bytes) noexcept;

  // What was scattered to a bucket.
  std::size_t bytes(std::size_t bucket) const noexcept {
    return written_[bucket].bytes + static_cast<std::size_t>(end(bucket).cursor - front(bucket));
  }
  // The same in two parts, the second of which is buffered; as they are now, for this thread.
  std::array<std::span<const std::byte>, 2> parts(std::size_t bucket) const noexcept;
  // Gives back what an empty bucket has room in.
  void clear(std::size_t bucket);
  // An empty bucket, one behind the first `used`, comes before another one of these.
  void insert(std::size_t bucket, std::size_t used) noexcept;
  // An empty bucket of the first `used` goes behind them.
  void remove(std::size_t bucket, std::size_t used) noexcept;

  // That a bucket takes for so much behind it.
  std::size_t blocks_for(std::size_t bucket, std::size_t bytes) const noexcept;
  // That it has, set aside or not; that all open ones have; that they may still take.
  std::size_t blocks(std::size_t bucket) const noexcept {
    return (written_[bucket].bytes + written_[bucket].room) / pool_.block_bytes();
  }
  std::size_t blocks() const noexcept { return blocks_; }
  std::size_t blocks_left() const noexcept { return most_.blocks - blocks_; }
  // Whether fewer are closed than may be, and whether any was not yet taken back.
  bool can_close() const noexcept { return spares() != 0; }
  bool any_closed() const noexcept { return spares() < most_.closed; }
  // Takes the bucket away, with everything in it for any thread to see; an empty one is in its
  // place.
  ClosedBucket close(std::size_t bucket);

  // For any thread. The bucket is read in its order from now on, a block's first byte before the
  // others: that gives back what lies more than a block behind.
  static void seal(const ClosedBucket& bucket);
  // The bucket is not needed any more: gives the rest of its memory back.
  void take_back(ClosedBucket bucket);
  // For good: one that could be closed, with nothing in it.
  std::unique_ptr<BucketStream> take_spare() noexcept;

 private:
  // What lies in the bucket itself.
  struct Written {
    std::size_t bytes = 0;
    std::size_t room = 0;  // behind them
  };

  // Where records go next: the buffer, or the bucket.
  std::byte* front(std::size_t bucket) const noexcept {
    return buffers_ != nullptr ? buffers_[bucket].bytes : begin(bucket) + written_[bucket].bytes;
  }
  std::byte* begin(std::size_t bucket) const noexcept { return streams_[bucket]->bytes(); }
  std::size_t spares() const noexcept;
  void move(std::size_t from, std::size_t to) noexcept;
  void flush(std::size_t bucket) noexcept;
  bool set_aside(std::size_t bucket, std::size_t bytes);

  Written forget(std::size_t bucket) noexcept;

  StreamPool& pool_;
  const Most most_;
  const std::size_t record_bytes_;
  BucketBuffer* const buffers_;
  std::vector<std::unique_ptr<BucketStream>> streams_;
  std::vector<Written> written_;
  std::size_t blocks_ = 0;    // of the open ones
  mutable FutexMutex mutex_;  // guards
  std::vector<std::unique_ptr<BucketStream>> spare_;
};

// Puts records one behind the other in memory that has room for them.
class PlaceOutput final : public RecordOutput {
 public:
  explicit PlaceOutput(std::byte* to) noexcept : to_(to) {}

  std::span<std::byte> room(std::size_t most_bytes) override { return {to_, most_bytes}; }
  void written(std::size_t bytes) override { to_ += bytes; }

 private:
  std::byte* to_;
};

// Appends records to a bucket of their own, in which they stay.
class KeptRecords final : public RecordOutput {
 public:
  KeptRecords(std::unique_ptr<BucketStream> stream, std::size_t record_bytes) noexcept
      : stream_(std::move(stream)), record_bytes_(record_bytes) {}

  // Throws Error where the pool is used up, or the kernel refuses what they take.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override { bytes_ += bytes; }
  // No more come: gives back what nothing was put into. Throws Error as RunBuckets.
  void end();

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::size_t blocks() const noexcept { return stream_->held_blocks(); }
  MergeInput records() const noexcept { return {stream_->bytes(), bytes_ / record_bytes_}; }

 private:
  std::unique_ptr<BucketStream> stream_;
  std::size_t record_bytes_;
  std::uint64_t bytes_ = 0;
};

}}  // namespace vortex::v0

// The buckets that a run is partitioned into.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/record_order.h"
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

// The buckets of a run: records are stored through their pointers, and faults place blocks of the
// pool (sections 5.3 and 5.4 of the Vortex paper). A block is set aside before a store can miss it,
// so no fault finds the pool empty; for all that is buffered it has been.
//
// Stores fail only where the kernel refuses to move a block: in a fault, for the guarded scope that
// they are in.
class RunBuckets final : public OpenBuckets {
 public:
  // `buffers` are one for each bucket, or null: records go to their buckets at once. Throws Error
  // when the system refuses the address space: each bucket may have to hold everything.
  RunBuckets(StreamPool& pool, unsigned count, std::size_t record_bytes, BucketBuffer* buffers);

  // Sets blocks aside until a record fits, and until all that will be buffered does. Throws Error
  // when the kernel refuses what it takes; so do the others that are not noexcept.
  bool extend(std::size_t bucket) override;
  // All that was scattered is in the buckets, for any thread to see.
  void flush();

  // Instead of scattering: makes room for `bytes` behind a bucket, in which nothing is
  // buffered then, and returns where they go; null: no memory is left. Then, when they are there,
  // added().
  std::byte* room_for(std::size_t bucket, std::size_t bytes);
  void added(std::size_t bucket, std::size_t bytes) noexcept;

  std::byte* begin(std::size_t bucket) const noexcept { return streams_[bucket]->bytes(); }
  // After a flush.
  std::size_t bytes(std::size_t bucket) const noexcept { return written_[bucket].bytes; }
  // The bucket is read in its order from now on, a block's first byte before the others: that gives
  // back what lies more than a block behind.
  void seal(std::size_t bucket);
  // Empties a bucket and gives its memory back.
  void clear(std::size_t bucket);

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
  void flush(std::size_t bucket) noexcept;
  bool set_aside(std::size_t bucket, std::size_t bytes);

  StreamPool& pool_;
  const std::size_t record_bytes_;
  BucketBuffer* const buffers_;
  std::vector<std::unique_ptr<BucketStream>> streams_;
  std::vector<Written> written_;
};

}}  // namespace vortex::v0

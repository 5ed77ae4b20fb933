// Vortex-S: a bucket that grows where it is written and shrinks where it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "vortex/detail/export.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

struct BucketStreamOptions {
  std::string name = "bucket";
  std::uint64_t reserve_bytes = std::uint64_t{1} << 36;  // the most it spans, all levels together
  // M: how many blocks a reader may come back. Records and vector loads that straddle a block
  // border need 1.
  std::size_t comeback_blocks = 0;
};

// Vortex-S (section 5.3 of the Vortex paper): one buffer, written and read by the same thread, in
// which a depth-first partitioning stacks the data of all its levels. Plain stores and loads
// through bytes() are all it needs.
//
// A write fault draws a block from the pool; the block M + 1 before it, which the writer has
// left, is guarded. A read fault takes the guard away, and a block that has been read is given back
// under the two unmapping rules: a read fault at block y frees the block M + 1 before it only if
//   a) the last read fault was at block y - 1, so that all of it has been read, and
//   b) the guard of y was set before that read fault, so that nothing was appended to y - 1 since.
// The rules speak of the first byte of a block. A reader that starts in the middle of one has data
// of another level before it: such a block is opened without counting as read, and is guarded again
// when the reader goes on elsewhere. When a reader starts below where the last one started, what
// lies above is a tail left open by readers and writers of higher levels, and is guarded again,
// too.
//
// These rules cannot see that the last block of some data has been read. That block stays until it
// is read again as part of other data, or until give_back_range(). Reading bytes that were never
// written is the stream's error.
class VORTEX_EXPORT BucketStream final : public PooledStream {
 public:
  using Options = BucketStreamOptions;

  // Throws Error(ENOMEM) from the reservation.
  explicit BucketStream(StreamPool& pool, Options options = {});
  ~BucketStream() override;

 protected:
  int serve_write(std::uint64_t index) noexcept override;
  int serve_read(std::uint64_t index, bool at_front) noexcept override;

 private:
  static constexpr std::uint64_t kNone = static_cast<std::uint64_t>(-1);

  int leave_entered(std::uint64_t index) noexcept;
  int guard_above(std::uint64_t index) noexcept;

  const std::size_t comeback_blocks_;
  std::uint64_t last_front_ = kNone;  // block of the last read fault, if it was at the front
  std::uint64_t last_front_at_ = 0;   // and when
  std::uint64_t run_begin_ = 0;       // first block of the consecutive front faults up to it
  std::uint64_t reading_from_ = 0;    // block in which the present reader was first seen
  std::uint64_t entered_ = kNone;     // block opened by a read fault in its middle
};

}  // namespace vortex::inline v0

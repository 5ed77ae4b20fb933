// The ranges of keys whose buckets become runs one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sort/runs/run_buckets.h"
#include "vortex/detail/merge/bucket_splitters.h"
#include "vortex/record_order.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

// Replacement selection by ranges of keys (SPAA paper, section 2.1): each range has an open bucket.
// A run takes the buckets in the order of the ranges. Records that come into a range whose bucket
// is still open join the run; where it was closed they begin the bucket of the next run. So random
// input makes runs of about twice the memory.
//
// When a bucket is closed, the next one of its range is still empty: then the range is divided, if
// the bucket was large, or joined with the one before, and no record moves. The last range of a run
// is divided at its greatest record, and what lies above stays in the run: ascending input makes
// one run.
//
// A range whose bucket becomes large while it is open is divided as well: where records come in
// order at its greatest one, so that none moves, and else among those that came last, which moves
// the others. So records that are displaced by less than the memory make one run, too.
//
// Equal records come out in the order in which they were put in: those of a range that was closed
// belong to a later run, or to a range that comes later in the same.
class KeyRanges {
 public:
  struct Options {
    unsigned ranges = 1;  // at the beginning
    unsigned most_ranges = 1;
    unsigned most_closed = 1;          // buckets, that are not taken back
    std::uint64_t most_run_bytes = 0;  // which a bucket may have at least
  };
  // `kept_records` as for BucketSplitters, `buffers` as for RunBuckets, whose errors it throws.
  KeyRanges(const RecordOrder& order, StreamPool& pool, const Options& options,
            std::span<std::byte> kept_records, BucketBuffer* buffers);

  const detail::BucketSplitters& splitters() const noexcept { return splitters_; }
  RunBuckets& buckets() noexcept { return buckets_; }
  const RunBuckets& buckets() const noexcept { return buckets_; }

  // Splits the ranges by a sample of `count` records, and nothing has been put into them. The
  // records stay as they are if `scratch` holds two pairs for each, and a record besides. Throws
  // as RecordOrder::sort().
  void choose(std::byte* records, std::size_t count, std::span<std::byte> scratch);

  struct Closed {
    ClosedBucket bucket;    // null: only the run ends
    bool ends_run = false;  // behind the bucket
  };
  // So much was put into the buckets since the last call: divides ranges that have become large.
  // Throws Error when the kernel refuses to move a block.
  void note(std::size_t bytes);

  // There are records, and buckets can be closed. Where `more` may come, the end of the run is left
  // open to them. Throws Error when the kernel refuses to move a block.
  Closed close_next(bool more);
  // Buckets of a run were closed, and its end was not.
  bool run_is_open() const noexcept { return run_bytes_ != 0; }
  // What is put in from now on belongs to another run.
  void end_run() noexcept;

 private:
  bool run_is_full() const noexcept;
  void begin_run() noexcept;
  bool leave_open(const ClosedBucket& bucket);
  void adapt(const ClosedBucket& bucket);
  void divide(const ClosedBucket& bucket, std::size_t parts);
  void divide_open(std::size_t range);
  void move_up(std::size_t range);
  bool empty_into_one_before(std::size_t range);
  using Border = detail::BucketSplitters::Border;
  bool is_less(const Border& left, const Border& right) const noexcept;
  void join_with_one_before(std::size_t bytes);
  bool make_room();
  bool has_free(std::size_t blocks) const noexcept;
  void insert_behind(std::size_t range);
  void remove(std::size_t range);

  const RecordOrder& order_;
  StreamPool& pool_;
  const unsigned first_ranges_;
  const std::uint64_t most_run_bytes_;
  detail::BucketSplitters splitters_;
  RunBuckets buckets_;
  std::size_t frontier_ = 0;               // the ranges from here on belong to the run
  std::vector<std::size_t> closed_bytes_;  // of each range, the last time
  std::vector<std::size_t> seen_bytes_;    // of each range, when it was to be divided
  std::uint64_t run_bytes_ = 0;            // of its buckets that were closed
  std::size_t fair_bytes_;                 // that a bucket of the run should have
  std::size_t unseen_bytes_ = 0;           // since the last look for large ones
};

}}  // namespace vortex::v0

// The ranges of keys whose buckets become runs one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sort/record/arrival_trend.h"
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
// Where records descend (ArrivalTrend) while a run begins, it takes the buckets from the other end:
// each comes before those that were closed before. Its last range is divided at its least record,
// and what is less joins the run: descending input makes one run, too.
//
// A range whose bucket becomes large while it is open is divided as well: where records come in
// order at its greatest or least one, so that none moves, and else among those that came last,
// which moves the others. So records that are displaced by less than the memory make one run, too.
//
// A record in an open bucket is not less than the border below its range, and less than the one
// above; or equal to that, and put in before the range was divided there, when the one above it
// belonged to the same run. Those that come into a range that was closed belong to a later run, or
// to a range that comes later in the same. So equal records come out in the order in which they
// were put in.
class KeyRanges {
 public:
  // In a pool of fewer, a block that a range takes in vain costs more than the range may gain.
  static constexpr std::size_t kFewBlocks = 12;

  struct Options {
    unsigned ranges = 1;  // at the beginning
    unsigned most_ranges = 1;
    unsigned most_closed = 1;          // buckets, that are not taken back
    std::size_t most_blocks = 0;       // of the pool, that open buckets may have
    std::uint64_t most_run_bytes = 0;  // which a bucket may have at least
    std::size_t batch_bytes = 0;       // that are put in together, without a look between
    bool divides_open = true;          // ranges that become large before they are closed
    bool may_fall = false;             // runs may take buckets from the other end
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

  // The ranges from here on belong to the run that is formed, those before to the next one; where
  // the run falls, it is the other way round.
  std::size_t frontier() const noexcept { return frontier_; }
  bool falls() const noexcept { return falls_; }

  // How many records may be put into the buckets before the next look, which is told of them; the
  // last one can be read, or is null.
  std::size_t records_to_look() const noexcept;
  void added(std::size_t records, const std::byte* last) noexcept;
  // Divides ranges that have become large, if so much was added. False: it has to be called again,
  // before anything is put in, when more of the closed buckets has been given back: what ranges
  // there are does not depend on when that is. Throws Error when the kernel refuses to move a
  // block.
  bool look();

  struct Closed {
    ClosedBucket bucket;    // null: only the run ends
    bool ends_run = false;  // after the bucket
    bool falls = false;     // the bucket comes before those of the run that were closed before
  };
  // There are records, and buckets can be closed. Where `more` may come, the end of the run is left
  // open to them. Throws Error when the kernel refuses to move a block.
  Closed close_next(bool more);
  // Buckets of a run were closed, and its end was not.
  bool run_is_open() const noexcept { return run_bytes_ != 0; }
  // What is put in from now on belongs to another run.
  void end_run() noexcept;

  // What is in open buckets: in the order of the ranges it is one sequence.
  struct Rest {
    std::uint64_t bytes = 0;
    std::size_t blocks = 0;  // of the pool, while its buckets are sorted to other blocks in turn
    std::uint64_t runs = 0;  // of which buckets were closed
    bool joins_run = false;  // all of it belongs to the last of these
  };
  Rest rest() const noexcept;

 private:
  static constexpr std::size_t kNoRange = ~std::size_t{0};

  using Border = detail::BucketSplitters::Border;
  struct End {
    Border border;
    std::size_t bytes = 0;  // from the beginning of the bucket on, among which it is
  };
  struct Range {
    std::size_t closed_bytes = 0;  // the last time
    std::size_t seen_bytes = 0;    // when it was to be divided
    bool has_border = false;       // there may be records that are equal to its upper border
    // Of its open bucket, as far as it was looked at.
    End least = {};
    End greatest = {};
  };
  struct Less {
    const RecordOrder& order;
    bool operator()(const Border& left, const Border& right) const noexcept;
  };
  using Sample = std::array<Border, 64>;
  struct Latest {
    Border median;
    bool are_small = false;  // few of the others are less
    bool are_great = false;  // few of the others are greater
  };
  // For what moves records.
  enum class Room : std::uint8_t { kThere, kNone, kLater };

  std::size_t next_of_run() const noexcept { return falls_ ? frontier_ - 1 : frontier_; }
  // That was closed last, in the run.
  std::size_t closed_last() const noexcept { return falls_ ? frontier_ : frontier_ - 1; }
  bool run_is_over() const noexcept { return frontier_ == (falls_ ? 0 : ranges_.size()); }
  bool run_is_full() const noexcept;
  void begin_run(bool more) noexcept;
  void pass_empty();
  bool leave_open(const ClosedBucket& bucket);
  void adapt(const ClosedBucket& bucket);
  void divide(const ClosedBucket& bucket, std::size_t parts);
  bool is_large(std::size_t range) const noexcept;
  std::span<Border> sample_of(std::span<const std::byte> records, Sample& all) const noexcept;
  std::size_t bytes_to_look() const noexcept;
  Latest latest_of(std::span<Border> sample) const noexcept;
  bool divide_open(std::size_t range);
  void divide_by_moving(std::size_t range, const Border& border);
  bool is_descending(std::span<const Border> sample) const noexcept;
  Border end_of(std::size_t range, bool greatest) noexcept;
  ClosedBucket close(std::size_t range);
  void move_up(std::size_t range);
  void join_with_neighbour(std::size_t bytes);
  std::size_t least_pair(std::size_t least, std::size_t kept) const noexcept;
  bool make_room(std::size_t kept);
  Room make_room_by_moving();
  void join(std::size_t range);
  Room room(std::size_t blocks) const noexcept;
  void append_to_one_before(std::size_t range);
  void insert(std::size_t range);
  void remove(std::size_t range);

  const RecordOrder& order_;
  const Less less_;
  StreamPool& pool_;
  const bool has_few_blocks_;
  const unsigned first_ranges_;
  const std::uint64_t most_run_bytes_;
  const std::size_t batch_bytes_;
  const bool divides_open_;
  const bool may_fall_;
  const std::size_t half_bytes_;  // of the pool
  detail::BucketSplitters splitters_;
  RunBuckets buckets_;
  ArrivalTrend trend_;
  std::vector<Range> ranges_;  // as many as there are open buckets
  std::size_t frontier_ = 0;   // between the ranges of the run and those of the next one
  bool falls_ = false;
  std::uint64_t run_bytes_ = 0;  // of its buckets that were closed
  std::uint64_t runs_ = 0;
  std::size_t fair_bytes_;        // that a bucket of the run should have
  std::size_t unseen_bytes_ = 0;  // since the last look for large ones
};

}}  // namespace vortex::v0

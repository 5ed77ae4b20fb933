// Run formation: records in, sorted runs of twice the memory out, or more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "sort/record/record_output.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/key_ranges.h"
#include "sort/runs/partitioners.h"
#include "sort/runs/run_buckets.h"
#include "vortex/record_order.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

// Which threads may read records at a time.
enum class Readers : std::uint8_t {
  kOne,      // the caller alone
  kSeveral,  // any, in any order, what begins in as many blocks as
             // RunFormationOptions::batch_blocks says, when the caller has read a byte of each
};

// How run formation divides its memory.
struct RunFormationOptions {
  static constexpr unsigned kMaxBuckets = 4096;
  // So many keep a large part of the memory busy with buckets on their way.
  static constexpr unsigned kManyThreads = 8;

  // Into how many buckets a run is split, at most kMaxBuckets; fewer in a small pool, so that
  // what they leave partly filled stays a quarter of it or less.
  unsigned buckets = 64;
  // For sorting a bucket, see sort_records(). 32 bytes for each record of a bucket are the fastest.
  std::size_t scratch_bytes = std::size_t{4} << 20;
  // Whether another thread emits buckets while records are pushed.
  bool emits_beside = false;
  // Threads that sort buckets, as far as the scratch holds several; while another thread pushes,
  // one fewer.
  unsigned threads = 1;
  // Threads that put records to buckets, the one that pushes included; and so many of them while
  // buckets that were closed are emitted, 0: all.
  unsigned partition_threads = 1;
  unsigned partition_beside = 0;
  // Blocks of what is pushed that these take at a time.
  std::size_t batch_blocks = 1;
  // All that is pushed is expected to fit: ranges of keys are not divided for runs.
  bool fits = false;
  // A run may fall: what is emitted comes before what was emitted before of the same run. That
  // takes a FallingRunWriter.
  bool may_fall = false;
  // A longer run is ended; the pool at least.
  std::uint64_t most_run_bytes = std::numeric_limits<std::uint64_t>::max();

  // How many buckets may be open in the end, and how many closed. Three suffice for records that
  // nearly come in order: one for the next run, one that is closed, and one for what is greater.
  unsigned most_open() const noexcept { return buckets + std::max(buckets / 8, 2U); }
  unsigned most_closed() const noexcept { return threads + 2; }
  unsigned partitioners_beside() const noexcept {
    return partition_beside != 0 ? partition_beside : partition_threads;
  }
  // Blocks of a pool that open buckets do not take while another thread emits what was closed.
  std::size_t blocks_on_their_way(std::size_t pool_blocks) const noexcept;
};

// The run formation of an external sort. Whole records are partitioned into buckets that grow out
// of a pool shared with nobody. When memory is needed, the next bucket is closed (KeyRanges),
// sorted and appended to the run, and its memory goes back to the pool, where the others take it:
// block by block where it is read in order, and else when the last record has left.
//
// Another thread may emit buckets while records are pushed. What runs there are does not depend on
// its pace: the next bucket is closed when the open ones have so many blocks, whatever is free.
//
// The buckets are split by a sample of the first records, later by samples of buckets that were too
// large. One that gets more than the scratch can sort is sorted where it is, with memory that takes
// the place of scratch, or in pieces: slower, never wrong.
//
// Memory is the pool and the scratch, one to two KiB for each bucket, and Partitioners::bytes().
// After an exception it can only be destroyed.
class RunFormation {
 public:
  // Allocates the scratch. Throws Error: EINVAL when there are no or too many buckets or a block
  // does not hold a record, ENOMEM when the scratch is too small for the pool or from the
  // reservations of the buckets. The order and the pool must outlive it.
  RunFormation(const RecordOrder& order, StreamPool& pool, RunFormationOptions options = {});
  RunFormation(const RunFormation&) = delete;
  RunFormation& operator=(const RunFormation&) = delete;

  // That may be open at once.
  unsigned buckets() const noexcept { return most_open_; }
  std::size_t scratch_bytes() const noexcept { return scratch_.size(); }
  bool emits_beside() const noexcept { return emits_beside_; }

  // For the thread that pushes, one at a time.

  // Records pushed that are in no closed bucket.
  std::uint64_t records() const noexcept { return records_; }

  // Takes records, one behind the other at any address, until there is no room for more.
  // Returns how many of `count` it took: all, or those that there was memory for. May read
  // `records` and stores to buckets, and so faults: in this thread, for its guarded scope. Throws
  // Error when the kernel refuses what they take, or a fault of another thread fails.
  std::size_t push(const std::byte* records, std::size_t count, Readers readers = Readers::kOne);

  // Whether the last push() has taken less than it was offered because open buckets have as much
  // as they may, so that the next one is to be closed if that can be. If not, what was closed has
  // to be emitted.
  bool wants_room() const noexcept { return is_full_ && ranges_->buckets().can_close(); }
  // Buckets that were closed and not yet emitted.
  std::size_t closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
  // Closes the next bucket. False: there are no records, or as many are closed as may be. Throws
  // Error as push().
  bool close_next() { return close_one(true); }
  // What is in no closed bucket, when nothing is pushed any more.
  KeyRanges::Rest rest() const noexcept { return ranges_->rest(); }
  // Nothing is pushed any more, nor closed: the last run ends.
  void end();
  // Each block that is given back notifies it.
  FutexEvent& room_event() noexcept { return room_; }
  // From any thread: wakes await_closed() for good.
  void give_up() noexcept;

  // For the thread that emits, one at a time.

  // Waits for a closed bucket. False: there will be none.
  bool await_closed();
  // What emit_next() appends next, one at least.
  struct Next {
    std::size_t bytes = 0;  // 0: only the run ends
    bool falls = false;     // they come before what was appended before of the run
  };
  Next next() {
    take_closed();
    const KeyRanges::Closed& closed = emitting_.front().closed;
    return {closed.bucket.bytes, closed.falls};
  }
  // Appends the next closed bucket, one at least, sorted and stable, and gives its memory back to
  // the pool. Buckets that come when `wanted`, which `out` leads to, is full are not even sorted.
  // True: its run ends with it. Throws Error as push(), and what `out` throws.
  bool emit_next(RecordOutput& out, const SortedOutput* wanted = nullptr);

  // Instead, in one thread.

  // All records pushed are in their buckets: emit() takes no more of the pool. Nothing is pushed
  // behind it. Throws Error as push().
  void settle() {
    if (sampling_ && records() != 0) distribute_sample();
  }
  // Appends everything that is in no closed bucket, in order: of runs that were formed before, all
  // buckets have been emitted. The rest as emit_next().
  void emit(RecordOutput& out, const SortedOutput* wanted = nullptr);
  // Where that may go, to stay in the pool. Beside it, emit() takes what rest() says at most.
  KeptRecords make_kept() noexcept {
    return KeptRecords(ranges_->buckets().take_spare(), record_bytes_);
  }

 private:
  struct Closed {
    KeyRanges::Closed closed;
    bool is_handed_over = false;  // to the sorters
  };

  const RunFormationOptions& checked(const RunFormationOptions& options) const;
  unsigned buckets_in(const RunFormationOptions& options) const noexcept;
  std::uint64_t most_records() const noexcept {
    return pool_.block_count() * pool_.block_bytes() / record_bytes_;
  }
  void make_ranges(const RunFormationOptions& options);
  std::span<std::byte> sort_scratch() const noexcept;
  std::size_t sample_capacity() const noexcept;
  void distribute_sample();
  std::size_t put_to_buckets(const std::byte* records, std::size_t count, Readers readers);
  std::size_t within_block(const std::byte* at) const noexcept {
    return reinterpret_cast<std::uintptr_t>(at) % pool_.block_bytes();
  }
  bool put_together(const std::byte* records, std::size_t count);
  bool close_one(bool more);
  void take_closed();
  void hand_over(const SortedOutput* wanted);
  void set_memory_aside(std::size_t most_records);
  bool sort_where_it_is(const ClosedBucket& bucket) noexcept;
  void emit_in_order(const ClosedBucket& bucket, RecordOutput& out);
  void append(const Closed& closed, RecordOutput& out);

  const RecordOrder& order_;
  StreamPool& pool_;
  const std::size_t record_bytes_;
  const std::unique_ptr<std::byte[]> scratch_memory_;
  const std::span<std::byte> scratch_;
  std::size_t kept_bytes_ = 0;       // whole splitters, at the end of the scratch
  std::size_t set_aside_bytes_ = 0;  // in front of them, not touched any more
  unsigned threads_for_large_ = 0;   // that what is set aside suffices for
  unsigned first_buckets_ = 1;
  unsigned most_open_ = 1;
  std::unique_ptr<BucketBuffer[]> buffers_;
  std::optional<KeyRanges> ranges_;
  std::optional<Partitioners> partitioners_;
  const unsigned threads_;
  const std::size_t batch_blocks_;
  const bool emits_beside_;
  std::uint64_t records_ = 0;
  std::size_t records_to_emit_ = 0;  // by the first buckets
  std::size_t sample_capacity_ = 0;
  bool sampling_ = false;  // the first records are kept aside in the scratch
  bool is_full_ = false;   // what was offered last did not fit into the open buckets
  FutexEvent room_;

  FutexMutex mutex_;  // guards what was closed, until the emitting thread takes it
  std::deque<Closed> queue_;
  bool ended_ = false;
  bool given_up_ = false;
  FutexEvent closing_;
  std::atomic<std::size_t> closed_{0};
  // Of the emitting thread. Here, since what fails in a fault of the output leaves emit_next() by a
  // jump.
  std::deque<Closed> emitting_;
  std::optional<BucketSorters> sorters_;  // destroyed first
};

// Run formation with as many buckets as the options say, or, where the system refuses to reserve so
// much address space, half as many, a quarter ... Throws Error as its constructor does.
void make_run_formation(std::optional<RunFormation>& formation, const RecordOrder& order,
                        StreamPool& pool, RunFormationOptions options);

}}  // namespace vortex::v0

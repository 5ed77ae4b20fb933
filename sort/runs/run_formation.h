// Run formation: records in, sorted runs about as large as the memory out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sort/record/record_output.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/partitioners.h"
#include "sort/runs/run_buckets.h"
#include "vortex/detail/merge/bucket_splitters.h"
#include "vortex/record_order.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

// Which threads may read records at a time.
enum class Readers : std::uint8_t {
  kOne,      // the caller alone
  kSeveral,  // any, what lies between two multiples of the pool's block size, in any order, when
             // the caller has read the first and the last byte
};

// How run formation divides its memory.
struct RunFormationOptions {
  static constexpr unsigned kMaxBuckets = 4096;

  // Into how many buckets a run is split, at most kMaxBuckets; fewer in a small pool, so that
  // what they leave partly filled stays a quarter of it or less.
  unsigned buckets = 64;
  // For sorting a bucket, see sort_records(). 32 bytes for each record of a bucket are the fastest.
  std::size_t scratch_bytes = std::size_t{4} << 20;
  // 2: a run may be emitted while the next one is pushed.
  unsigned generations = 1;
  // Threads that sort buckets, as far as the scratch holds several; while another thread pushes,
  // one fewer.
  unsigned threads = 1;
  // Threads that put records to buckets, the one that pushes included.
  unsigned partition_threads = 1;
};

// The run formation of an external sort. Whole records are partitioned into buckets that grow out
// of a pool shared with nobody; a full pool is a run. emit() sorts the buckets in their order and
// gives each one's memory back as it goes: block by block where it reads the records in their
// order, and else when the last one has left.
//
// With two generations of buckets another thread may emit a run while the next one is pushed: the
// memory that each bucket of the old run gives back takes records of the new one.
//
// The buckets are split by a sample of the first records, for later runs by the quantiles of a run
// before. Where the keys drift, as those of sorted records do, one bucket gets most records. One
// that gets more than the scratch can sort is sorted where it is, with memory that takes the place
// of scratch, or in pieces: slower, never wrong.
//
// Memory is the pool and the scratch, one to two KiB for each bucket, and Partitioners::bytes().
// push(), records() and close() are for one thread at a time, and emit_closed() is for one. After
// an exception it can only be destroyed.
class RunFormation {
 public:
  // Allocates the scratch. Throws Error: EINVAL when there are no or too many buckets or a block
  // does not hold a record, ENOMEM when the scratch is too small for the pool or from the
  // reservations of the buckets. The order and the pool must outlive it.
  RunFormation(const RecordOrder& order, StreamPool& pool, RunFormationOptions options = {});
  RunFormation(const RunFormation&) = delete;
  RunFormation& operator=(const RunFormation&) = delete;

  unsigned buckets() const noexcept {
    return static_cast<unsigned>(generations_.front()->buckets.size());
  }
  std::size_t scratch_bytes() const noexcept { return scratch_.size(); }
  std::size_t generations() const noexcept { return generations_.size(); }

  // Records pushed and not yet closed.
  std::uint64_t records() const noexcept { return filling().records; }

  // Takes records, one behind the other at any address, until the pool has no room for more.
  // Returns how many of `count` it took: all, or those that there was memory for. May read
  // `records` and stores to buckets, and so faults: in this thread, for its guarded scope. Throws
  // Error when the kernel refuses what they take, or a fault of another thread fails.
  std::size_t push(const std::byte* records, std::size_t count, Readers readers = Readers::kOne);

  // The records pushed, one at least, are a run, and those pushed from now on belong to the
  // next one. The run closed before must have been emitted, and there must be two generations.
  // Throws Error as push().
  void close();

  // Appends the run that was closed, sorted and stable, to `out` and gives the memory back to the
  // pool bucket by bucket. Buckets that come when `wanted`, which `out` leads to, is full are not
  // even sorted. Throws Error as push(), and what `out` throws.
  void emit_closed(RecordOutput& out, const SortedOutput* wanted = nullptr);

  // Each bucket that is given back notifies it.
  FutexEvent& room_event() noexcept { return room_; }

  // All records pushed are in their buckets: emit() takes no more of the pool. Nothing is pushed
  // behind it. Throws Error as push().
  void settle();

  // emit_closed() of everything pushed, all in this thread; one generation is enough. Nothing that
  // was closed may be left.
  void emit(RecordOutput& out, const SortedOutput* wanted = nullptr);

 private:
  // The buckets of one run, by its own splitters.
  struct Generation {
    Generation(const RecordOrder& order, StreamPool& pool, unsigned buckets,
               std::span<std::byte> kept_records, BucketBuffer* buffers)
        : splitters(order, buckets, kept_records),
          buckets(pool, buckets, order.record_bytes(), buffers) {}

    detail::BucketSplitters splitters;
    RunBuckets buckets;
    std::uint64_t records = 0;
  };

  const RunFormationOptions& checked(const RunFormationOptions& options) const;
  unsigned buckets_in(const RunFormationOptions& options) const noexcept;
  std::uint64_t most_records() const noexcept;
  void make_generations(const RunFormationOptions& options);
  std::span<std::byte> sort_scratch() const noexcept;
  std::size_t sample_capacity() const noexcept;
  void distribute_sample();
  std::size_t put_to_buckets(const std::byte* records, std::size_t count, Readers readers);
  std::size_t records_in_block(const std::byte* first) const noexcept;
  bool put_together(const std::byte* records, std::size_t count);
  void begin_sorting(const RunBuckets& buckets);
  void set_memory_aside(std::size_t most_records, unsigned threads);
  bool sort_where_it_is(std::byte* records, std::size_t count) noexcept;
  void emit_in_order(RunBuckets& buckets, std::size_t bucket, RecordOutput& out);
  void emit_bucket(RunBuckets& buckets, std::size_t bucket, RecordOutput& out);
  void emit_generation(Generation& run, RecordOutput& out, const SortedOutput* wanted);

  Generation& filling() const noexcept { return *generations_[filling_]; }

  const RecordOrder& order_;
  StreamPool& pool_;
  const std::size_t record_bytes_;
  const std::unique_ptr<std::byte[]> scratch_memory_;
  const std::span<std::byte> scratch_;
  std::size_t kept_bytes_ = 0;               // whole splitters, at the end of the scratch
  std::size_t set_aside_bytes_ = 0;          // in front of them, not touched any more
  unsigned threads_for_large_ = 0;           // that what is set aside suffices for
  std::unique_ptr<BucketBuffer[]> buffers_;  // of the generation that is filled
  std::vector<std::unique_ptr<Generation>> generations_;
  std::optional<Partitioners> partitioners_;
  std::size_t filling_ = 0;
  std::size_t emitting_ = 0;
  const unsigned threads_;
  bool is_split_ = false;  // every generation has splitters that were chosen among records
  std::size_t sample_capacity_ = 0;
  bool sampling_ = false;  // the first records are kept aside in the scratch
  FutexEvent room_;
  // Belongs to the run that is emitted. Here, since what fails in a fault of the output leaves
  // emit() by a jump.
  std::optional<BucketSorters> sorters_;  // destroyed first
};

// Run formation with as many buckets as the options say, or, where the system refuses to reserve so
// much address space, one generation of them, half as many, a quarter ... Throws Error as its
// constructor does.
void make_run_formation(std::optional<RunFormation>& formation, const RecordOrder& order,
                        StreamPool& pool, RunFormationOptions options);

}}  // namespace vortex::v0

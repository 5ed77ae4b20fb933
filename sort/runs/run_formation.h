// Run formation: records in, sorted runs about as large as the memory out.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/record/record_order.h"
#include "sort/runs/bucket_splitters.h"
#include "sort/runs/record_sort.h"
#include "sort/runs/run_formation_options.h"
#include "vortex/bucket_stream.h"
#include "vortex/error.h"
#include "vortex/partition.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

// The run formation of an external sort. Whole records are partitioned into buckets that grow out
// of a pool shared with nobody; a full pool is a run. emit() sorts the buckets in their order and
// gives each one's memory back as it goes.
//
// The buckets are split by a sample of the first records, for later runs by the quantiles of the
// run before. A bucket that gets too many records is sorted in pieces: slower, never wrong.
//
// Memory is the pool and the scratch, and a few hundred bytes for each bucket. One thread at a
// time. After an exception it can only be destroyed.
template <RecordOrder O>
class RunFormation {
 public:
  // Allocates the scratch. Throws Error: EINVAL when there are no or too many buckets or a block
  // does not hold a record, ENOMEM when the scratch is too small for the pool or from the
  // reservations of the buckets.
  RunFormation(O order, StreamPool& pool, RunFormationOptions options = {})
      : order_(std::move(order)),
        pool_(pool),
        record_bytes_(order_.record_bytes()),
        scratch_memory_(
            std::make_unique_for_overwrite<std::byte[]>(checked(options).scratch_bytes)),
        scratch_(scratch_memory_.get(), options.scratch_bytes),
        splitters_(order_, buckets_in(options), kept_records(buckets_in(options))),
        buckets_(buckets_in(options)) {
    open_buckets();
    if (buckets_.size() > 1) sample_capacity_ = sample_capacity();
    sampling_ = sample_capacity_ != 0;
  }
  RunFormation(const RunFormation&) = delete;
  RunFormation& operator=(const RunFormation&) = delete;

  unsigned buckets() const noexcept { return static_cast<unsigned>(buckets_.size()); }
  std::size_t scratch_bytes() const noexcept { return scratch_.size(); }

  // Records pushed and not yet emitted.
  std::uint64_t records() const noexcept { return records_; }

  // Takes records, one behind the other at any address, until the pool has no room for more.
  // Returns how many of `count` it took: all, or those of a full run. May read `records` (and so
  // fault); never faults itself, since a bucket's blocks are opened outside faults. Throws Error
  // when the kernel refuses to move a block.
  std::size_t push(const std::byte* records, std::size_t count) {
    std::size_t taken = 0;
    if (sampling_) {
      taken = std::min(count, sample_capacity_ - records_);
      std::memcpy(scratch_.data() + records_ * record_bytes_, records, taken * record_bytes_);
      records_ += taken;
      if (records_ < sample_capacity_) return taken;
      distribute_sample();
    }
    const std::size_t scattered = scatter(records + taken * record_bytes_, count - taken);
    records_ += scattered;
    return taken + scattered;
  }

  // Appends everything pushed, sorted and stable, to `out` and gives the memory back to the pool
  // bucket by bucket. Throws Error as push(), and what `out` throws.
  template <RecordOutput Output>
  void emit(Output& out) {
    if (sampling_ && records_ != 0) distribute_sample();
    if (records_ == 0) return;
    Tap<Output> tap{out, splitters_};
    splitters_.begin_choosing(records_);
    for (Bucket& bucket : buckets_) {
      const auto bytes = static_cast<std::size_t>(bucket.cursor - bucket.stream->bytes());
      sort_records(order_, bucket.stream->bytes(), bytes / record_bytes_, sort_scratch(), tap);
      require(bucket.stream->give_back_range(0, bucket.stream->reserved_bytes()));
      bucket.cursor = bucket.stream->bytes();
      bucket.room = 0;
    }
    splitters_.end_choosing();
    records_ = 0;
  }

 private:
  static constexpr std::size_t kPairAlignment = alignof(std::max_align_t);

  struct Bucket {
    std::unique_ptr<BucketStream> stream;
    std::byte* cursor = nullptr;  // the next record goes here
    std::size_t room = 0;         // bytes open from there on
  };

  // What goes to the output also chooses the next run's splitters.
  template <typename Output>
  struct Tap {
    void append(const std::byte* record) {
      splitters.note(record);
      out.append(record);
    }
    Output& out;
    BucketSplitters<O>& splitters;
  };
  struct Nowhere {
    void append(const std::byte* /*record*/) noexcept {}
  };

  const RunFormationOptions& checked(const RunFormationOptions& options) const {
    if (options.buckets == 0 || options.buckets > kMostPartitions) {
      throw Error(EINVAL, "run formation with " + std::to_string(options.buckets) +
                              " buckets: it takes 1 to " + std::to_string(kMostPartitions));
    }
    if (record_bytes_ > pool_.block_bytes()) {
      throw Error(EINVAL, "records of " + format_bytes(record_bytes_) + " in blocks of " +
                              format_bytes(pool_.block_bytes()) +
                              ": a block holds a record at least");
    }
    const std::size_t least = least_sort_scratch_bytes(most_records());
    if (options.scratch_bytes < least) {
      throw Error(ENOMEM, "run formation in " +
                              format_bytes(pool_.block_count() * pool_.block_bytes()) +
                              " of records of " + format_bytes(record_bytes_) + ": a scratch of " +
                              format_bytes(options.scratch_bytes) + ", it takes " +
                              format_bytes(least) + " at least");
    }
    return options;
  }

  // Each may have to hold everything.
  void open_buckets() {
    const std::uint64_t reserve_bytes = (pool_.block_count() + 1) * pool_.block_bytes();
    for (Bucket& bucket : buckets_) {
      try {
        bucket.stream = std::make_unique<BucketStream>(
            pool_, BucketStreamOptions{.name = "bucket of a run", .reserve_bytes = reserve_bytes});
      } catch (const Error& error) {
        throw Error(error.code().value(),
                    "each of " + std::to_string(buckets_.size()) +
                        " buckets reserves as much address space as there is memory, " +
                        format_bytes(reserve_bytes) + "; less memory or fewer buckets take less");
      }
      bucket.cursor = bucket.stream->bytes();
    }
  }

  std::uint64_t most_records() const noexcept {
    return pool_.block_count() * pool_.block_bytes() / record_bytes_;
  }

  unsigned buckets_in(const RunFormationOptions& options) const noexcept {
    return static_cast<unsigned>(
        std::clamp<std::size_t>(pool_.block_count() / 4, 1, options.buckets));
  }

  // The end of the scratch keeps whole splitters, where they are needed and not too large.
  std::span<std::byte> kept_records(unsigned buckets) noexcept {
    const std::size_t bytes = BucketSplitters<O>::kept_bytes(order_, buckets);
    if (bytes > scratch_.size() / 8 ||
        scratch_.size() - bytes < least_sort_scratch_bytes(most_records())) {
      return {};
    }
    kept_bytes_ = bytes;
    return scratch_.last(bytes);
  }
  std::span<std::byte> sort_scratch() const noexcept {
    return scratch_.first(scratch_.size() - kept_bytes_);
  }

  // How many of the first records are kept aside in the scratch. With those and a partly filled
  // block for each bucket the pool is at most half full.
  std::size_t sample_capacity() const noexcept {
    const std::size_t room = sort_scratch().size();
    if (room < kPairAlignment) return 0;
    return std::min({std::size_t{64} * buckets_.size(),
                     (room - kPairAlignment) / (record_bytes_ + 2 * sizeof(Pair64)),
                     pool_.block_count() / 4 * pool_.block_bytes() / record_bytes_});
  }

  // The first splitters, and the records that were kept aside to their buckets.
  void distribute_sample() {
    sampling_ = false;
    const std::size_t count = records_;
    const std::span<std::byte> rest = sort_scratch().subspan(count * record_bytes_);
    Nowhere nowhere;
    Tap<Nowhere> tap{nowhere, splitters_};
    splitters_.begin_choosing(count);
    // The scratch holds two pairs for each record, so that they stay where they are.
    sort_records(order_, scratch_.data(), count, rest, tap);
    splitters_.end_choosing();
    if (scatter(scratch_.data(), count) != count) require(EAGAIN);
  }

  std::size_t scatter(const std::byte* records, std::size_t count) {
    switch (record_bytes_) {
      case 4:
        return scatter_sized<4>(records, count);
      case 8:
        return scatter_sized<8>(records, count);
      case 12:
        return scatter_sized<12>(records, count);
      case 16:
        return scatter_sized<16>(records, count);
      case 24:
        return scatter_sized<24>(records, count);
      case 32:
        return scatter_sized<32>(records, count);
      case 64:
        return scatter_sized<64>(records, count);
      case 100:
        return scatter_sized<100>(records, count);
      case 128:
        return scatter_sized<128>(records, count);
      default:
        return scatter_sized<0>(records, count);
    }
  }

  // kBytes: the size of a record where the compiler is to know it, or 0.
  template <std::size_t kBytes>
  std::size_t scatter_sized(const std::byte* records, std::size_t count) {
    const std::size_t record_bytes = kBytes != 0 ? kBytes : record_bytes_;
    for (std::size_t i = 0; i < count; ++i) {
      Bucket& bucket = buckets_[splitters_.bucket_of(records)];
      if (bucket.room < record_bytes && !open_block(bucket, record_bytes)) [[unlikely]]
        return i;
      std::memcpy(bucket.cursor, records, record_bytes);
      bucket.cursor += record_bytes;
      bucket.room -= record_bytes;
      records += record_bytes;
    }
    return count;
  }

  // Opens blocks until a record fits. False: the pool has none left.
  [[gnu::noinline]] bool open_block(Bucket& bucket, std::size_t record_bytes) {
    while (bucket.room < record_bytes) {
      const auto opened =
          static_cast<std::uint64_t>(bucket.cursor + bucket.room - bucket.stream->bytes());
      const int error = bucket.stream->open_range(opened, pool_.block_bytes());
      if (error == EAGAIN) return false;
      require(error);
      bucket.room += pool_.block_bytes();
    }
    return true;
  }

  void require(int error) const {
    if (error == 0) return;
    throw Error(error, error == EAGAIN
                           ? "run formation: its pool is used by others, too"
                           : "run formation: the system refuses to move a block of a bucket");
  }

  const O order_;
  StreamPool& pool_;
  const std::size_t record_bytes_;
  const std::unique_ptr<std::byte[]> scratch_memory_;
  const std::span<std::byte> scratch_;
  std::size_t kept_bytes_ = 0;  // at the end of the scratch
  BucketSplitters<O> splitters_;
  std::vector<Bucket> buckets_;
  std::size_t sample_capacity_ = 0;
  bool sampling_ = false;  // the first records are kept aside in the scratch
  std::uint64_t records_ = 0;
};

// Run formation with as many buckets as the options say, or, where the system refuses to reserve so
// much address space, half as many, a quarter ... Throws Error as its constructor does.
template <RecordOrder O>
void make_run_formation(std::optional<RunFormation<O>>& formation, const O& order, StreamPool& pool,
                        RunFormationOptions options) {
  for (;; options.buckets /= 2) {
    try {
      formation.emplace(order, pool, options);
      return;
    } catch (const Error& error) {
      if (error.code().value() != ENOMEM || options.buckets <= 2) throw;
    }
  }
}

}  // namespace vortex::inline v0

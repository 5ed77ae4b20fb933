// The sort behind radix_sort(): a vanishing array through bucket streams.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vortex/detail/array/bucket_writer.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/error.h"
#include "vortex/vanishing_array.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Whether the call does not throw std::bad_alloc. Compiled in the library, since programs without
// exceptions cannot ask.
VORTEX_EXPORT bool memory_suffices(const std::function<void()>& allocate);

// Algorithm 9 of the Vortex paper for one kind of record. The first level reads the array, block by
// block, into the buckets; what has been read flows back to the pool. Then the buckets are sorted
// in order into the array. A bucket's own memory serves the deeper levels as the array of an
// in-place sort does, so the pool gives the result of one bucket beforehand; where it has not that
// much (the bucket is huge, or many blocks are partly filled) the bucket is sorted where it is and
// copied block by block.
//
// Records in the buckets are encoded, records in the array are not.
template <typename Record, typename KeyOf, typename Codec>
class VanishingSort {
 public:
  using Rules = SortRules<Record, KeyOf>;
  using Sorter = ChainSorter<Record, KeyOf>;
  using Bits = typename Rules::Bits;

  // The bytes that the sort of `count` records through about `buckets` buckets takes besides the
  // pool, when no bucket is twice as large as the average and two levels are enough.
  static std::size_t usual_working_bytes(std::size_t count, std::size_t buckets) noexcept {
    const std::size_t bucket = 2 * (count / buckets) + 1;
    std::size_t bytes = Sorter::kWorkingBytes + buckets * BucketWriter<Record>::kFlushBytes;
    if (bucket > Sorter::Dense::kMax) {
      const std::size_t lists = (std::size_t{1} << Sorter::next_bits(bucket)) + 1;
      bytes += lists * kChunkBytes + bucket / kChunk * ChunkArena<Record>::kListBytes;
    }
    return bytes;
  }

  // Acquires everything but memory for the list of the chunks of the largest bucket. The array is
  // open. Throws Error or std::bad_alloc.
  VanishingSort(VanishingArrayBase& array, std::size_t count, const Rules& rules,
                const Codec& codec, const Split<Bits>& split, int bits)
      : array_(array),
        count_(count),
        rules_(rules),
        codec_(codec),
        split_(split),
        spare_(Sorter::spare_chunks_for(count) * kChunkBytes, false),
        arena_(nullptr, 0, static_cast<Record*>(spare_.get()), Sorter::spare_chunks_for(count)),
        output_(arena_, codec_),
        sorter_(rules_, arena_, output_) {
    const StreamPool& pool = array.pool();
    const std::size_t block = pool.block_bytes();
    epsilon_blocks_ = std::size_t{1} << bits;
    most_blocks_ = (count * sizeof(Record) + block - 1) / block + epsilon_blocks_;
    for (unsigned i = 0; i < split.buckets; ++i) {
      buckets_.push_back(std::make_unique<BucketStream>(
          array.pool(), BucketStreamOptions{.reserve_bytes = count * sizeof(Record) +
                                                             BucketWriter<Record>::kFlushBytes}));
      buckets_.back()->count_with(&meter_);
    }
    writer_.emplace(buckets_);
    array_.count_with(&meter_);
  }
  ~VanishingSort() { array_.count_with(nullptr); }
  VanishingSort(const VanishingSort&) = delete;
  VanishingSort& operator=(const VanishingSort&) = delete;

  // Besides the pool: what has memory behind it by now.
  std::size_t working_bytes() const noexcept {
    return arena_.spare_chunks_touched() * kChunkBytes + arena_.list_bytes() +
           Sorter::kWorkingBytes + writer_bytes();
  }

  // The most memory in use beyond the blocks of the array, over time. While level 0 runs, nothing
  // but its buffers counts besides the pool.
  std::size_t epsilon_bytes() const noexcept { return epsilon_bytes_; }
  // The most blocks that the array and the buckets had while it ran.
  std::size_t peak_blocks() const noexcept { return peak_blocks_; }

  void sort() {
    int error = distribute();
    note_peak(writer_bytes());
    if (error == 0) error = collect();
    note_peak(working_bytes());
    if (error == 0) return;
    bring_back();
    throw_error(error, "radix_sort of '" + array_.name() +
                           "': the system refused to move a block; the array holds all its "
                           "elements, not in order");
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
  static constexpr std::size_t kChunkBytes = ChunkLayout<Record>::kChunkBytes;

  std::size_t writer_bytes() const noexcept {
    return buckets_.size() * BucketWriter<Record>::kFlushBytes;
  }
  void note_peak(std::size_t besides) noexcept {
    const std::size_t peak = meter_.peak();
    const std::size_t own = most_blocks_ - epsilon_blocks_;
    epsilon_bytes_ =
        std::max(epsilon_bytes_, (peak > own ? peak - own : 0) * block_bytes() + besides);
    peak_blocks_ = std::max(peak_blocks_, peak);
    meter_.restart();
  }

  std::size_t block_bytes() const noexcept { return array_.pool().block_bytes(); }
  std::size_t block_records() const noexcept {
    return std::max<std::size_t>(block_bytes() / sizeof(Record), 1);
  }
  std::size_t blocks_of(std::size_t bytes) const noexcept {
    return (bytes + block_bytes() - 1) / block_bytes();
  }
  Record* array() const noexcept { return reinterpret_cast<Record*>(array_.bytes()); }
  Record* records(std::size_t bucket) const noexcept {
    return reinterpret_cast<Record*>(buckets_[bucket]->bytes());
  }

  // Level 0: the array flows into the buckets.
  int distribute() noexcept {
    int error = 0;
    with_digit(split_, [&](const auto& digit) { error = distribute_by(digit); });
    return error;
  }

  template <typename Digit>
  int distribute_by(const Digit& digit) noexcept {
    const std::size_t part = block_records();
    const auto bucket_of = rules_.on_record(digit);
    std::size_t given = 0;
    while (read_ < count_) {
      const std::size_t here = std::min(part, count_ - read_);
      Record* const from = array() + read_;
      codec_.encode(from, here);
      const std::size_t taken = writer_->scatter(from, here, bucket_of);
      read_ += taken;
      if (taken != here || writer_->error() != 0) {
        codec_.decode(from + taken, here - taken);
        return writer_->error();
      }
      const std::size_t end = read_ * sizeof(Record);
      // A refusal leaves the block where it is, and is repeated with the next part.
      const std::size_t read = read_ == count_ ? blocks_of(end) * block_bytes() : end;
      if (BlockRanges::give_back(array_, given, read) == 0)
        given = end / block_bytes() * block_bytes();
    }
    return writer_->finish();
  }

  // The buckets are sorted, in order, and flow back.
  int collect() noexcept {
    std::size_t largest = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      largest = std::max(largest, writer_->count(i));
    }
    if (!memory_suffices([&] { arena_.reserve(largest / kChunk); })) return ENOMEM;
    for (; bucket_ < buckets_.size(); ++bucket_) {
      const std::size_t size = writer_->count(bucket_);
      if (size == 0) continue;
      const KeyRange<Bits> range =
          range_of(split_, static_cast<unsigned>(bucket_), KeyRange<Bits>{});
      const bool in_order = range.low == range.high;
      if (!in_order && pool_has(size)) {
        if (const int error =
                BlockRanges::open(array_, written_ * sizeof(Record), size * sizeof(Record))) {
          return error;
        }
        // Nothing of the arena is in its way.
        output_.start(array() + written_, static_cast<std::size_t>(-1));
        sort_bucket(size, range, array() + written_);
        written_ += size;
        give_back(size);
      } else {
        if (!in_order) {
          output_.start(records(bucket_), 0, false);
          sort_bucket(size, range, nullptr);
        }
        if (const int error = copy_bucket([&](std::size_t count) { return open_result(count); }))
          return error;
      }
    }
    return 0;
  }

  // Whether the next `size` records of the result can be opened within the bound, and others leave
  // that many blocks. The working
  // memory counts unless it exceeds the bound by itself, as it does with few buckets of small
  // blocks.
  bool pool_has(std::size_t size) const noexcept {
    const std::size_t opens =
        blocks_of((written_ + size) * sizeof(Record)) - blocks_of(written_ * sizeof(Record));
    const std::size_t lists = (std::size_t{1} << sorter_.next_bits(size)) + 1;
    const std::size_t will_touch =
        size > Sorter::Dense::kMax && lists > arena_.spare_chunks_touched()
            ? lists - arena_.spare_chunks_touched()
            : 0;
    const std::size_t working = blocks_of(working_bytes() + will_touch * kChunkBytes);
    const StreamPool& pool = array_.pool();
    return pool.blocks_in_use() + opens <= pool.block_count() &&
           meter_.held() + opens + (4 * working <= epsilon_blocks_ ? working : 0) <= most_blocks_;
  }

  // Makes the next `count` records of the result accessible.
  int open_result(std::size_t count) noexcept {
    const int error = BlockRanges::open(array_, written_ * sizeof(Record), count * sizeof(Record));
    if (error != EAGAIN) return error;
    give_back_refused();
    return BlockRanges::open(array_, written_ * sizeof(Record), count * sizeof(Record));
  }

  // Blocks that the system refused to take when they had been read.
  void give_back_refused() noexcept {
    BlockRanges::give_back(array_, written_ * sizeof(Record), read_ * sizeof(Record));
    for (std::size_t i = 0; i < bucket_; ++i) {
      if (buckets_[i]->held_blocks() != 0) {
        BlockRanges::give_back(*buckets_[i], 0, buckets_[i]->reserved_bytes());
      }
    }
  }

  // To `target`, or to where it is if that is null.
  void sort_bucket(std::size_t size, const KeyRange<Bits>& range, Record* target) noexcept {
    Record* const bucket = records(bucket_);
    if (size > Sorter::Dense::kMax) {
      arena_.rebase(bucket, size / kChunk);
      sorter_.sort_array(bucket, size, range, NoCodec<Record>{});
      return;
    }
    const typename Sorter::Dense& dense = sorter_.dense();
    if (target == nullptr) {
      dense.sort(bucket, size, sorter_.workspace(), false);
    } else {
      dense.sort(bucket, size, target, true);
      codec_.decode(target, size);
    }
  }

  // What is left of the bucket to the array, block by block: memory stays what it was. open(count)
  // makes the next records of the result accessible, and returns 0 or an error.
  template <typename Open>
  int copy_bucket(const Open& open) {
    const std::size_t size = writer_->count(bucket_);
    while (copied_ < size) {
      const std::size_t here = std::min(block_records(), size - copied_);
      if (const int error = open(here)) return error;
      append_result(records(bucket_) + copied_, here);
      copied_ += here;
      give_back(copied_);
    }
    copied_ = 0;
    return 0;
  }

  // The next records of the result, which is open there.
  void append_result(const Record* records, std::size_t count) noexcept {
    Record* const target = array() + written_;
    Sorter::Dense::copy(records, count, target);
    codec_.decode(target, count);
    written_ += count;
  }

  // After an error: what the buckets and their buffers hold becomes the array again. Before it lies
  // the result, behind it what was not read.
  void bring_back() {
    for (; bucket_ < buckets_.size(); ++bucket_) {
      copy_bucket([&](std::size_t count) { return open_with_patience(count); });
      const auto buffered = writer_->buffered(bucket_);
      open_with_patience(buffered.size());
      append_result(buffered.data(), buffered.size());
    }
  }

  // Returns 0, or throws.
  int open_with_patience(std::size_t count) {
    constexpr int kAttempts = 10000;
    int error = EAGAIN;
    for (int attempt = 0; error != 0 && attempt < kAttempts; ++attempt) {
      if (attempt != 0) sched_yield();
      error = open_result(count);
    }
    if (error == 0) return 0;
    throw_error(error, "radix_sort of '" + array_.name() +
                           "': the system goes on refusing to move blocks; elements from " +
                           std::to_string(written_) + " to " + std::to_string(read_) +
                           " are missing");
  }

  // The first `count` records of the bucket have been read; its last block goes only when they are
  // all.
  void give_back(std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(Record);
    const bool all = count == writer_->count(bucket_);
    BlockRanges::give_back(*buckets_[bucket_], 0,
                           all ? buckets_[bucket_]->reserved_bytes() : bytes);
  }

  VanishingArrayBase& array_;
  const std::size_t count_;
  const Rules rules_;
  const Codec codec_;
  const Split<Bits> split_;
  const KeptMemory spare_;
  ChunkArena<Record> arena_;
  ArrayOutput<Record, Codec> output_;
  Sorter sorter_;
  BlockMeter meter_;  // of the buckets and the array
  std::vector<std::unique_ptr<BucketStream>> buckets_;
  std::optional<BucketWriter<Record>> writer_;
  std::size_t epsilon_blocks_ = 0;  // 2^b
  std::size_t most_blocks_ = 0;     // that the array and the buckets may have
  std::size_t peak_blocks_ = 0;
  std::size_t epsilon_bytes_ = 0;
  std::size_t read_ = 0;     // records of the array that level 0 has taken
  std::size_t bucket_ = 0;   // being collected
  std::size_t copied_ = 0;   // of it, when it is copied block by block
  std::size_t written_ = 0;  // records of the result
};

}}}  // namespace vortex::v0::detail

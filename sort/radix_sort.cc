#include "sort/radix_sort.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sort/bucket_writer.h"
#include "sort/chain_sorter.h"
#include "sort/sort.h"
#include "sort/split_plan.h"
#include "vortex/error.h"

namespace vortex {
namespace {

struct KeyOfWord {
  std::uint64_t operator()(std::uint64_t word) const noexcept { return word; }
};
using Rules = SortRules<std::uint64_t, KeyOfWord>;
using Sorter = ChainSorter<std::uint64_t, KeyOfWord>;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kChunk = ChunkArena<std::uint64_t>::kChunkRecords;
// Below this the whole array fits the caches and moving blocks gains nothing.
constexpr std::size_t kLeastForBuckets = std::size_t{1} << 20;
// A bucket may hold this many times its share before it is sorted where it is.
constexpr std::size_t kUneven = 2;

std::size_t scratch_records(std::uint64_t count, int bits) { return kUneven * (count >> bits); }

// The part of the array that a bucket is sorted to; it has been opened already.
class OpenedOutput final : public SortedOutput<std::uint64_t> {
 public:
  void begin_at(std::uint64_t* at) noexcept { at_ = at; }
  std::uint64_t* room(std::size_t count) noexcept override {
    std::uint64_t* const here = at_;
    at_ += count;
    return here;
  }
  void written(std::uint64_t*, std::size_t) noexcept override {}

 private:
  std::uint64_t* at_ = nullptr;
};

struct FreeAligned {
  void operator()(std::uint64_t* memory) const noexcept {
    ::operator delete (static_cast<void*>(memory), std::align_val_t{4096});
  }
};

class Run {
 public:
  Run(VanishingArray<std::uint64_t>& array, int bits)
      : array_(array),
        count_(array.size()),
        scratch_records_(scratch_records(count_, bits)),
        chunks_(scratch_records_ / kChunk + 1 + Sorter::spare_chunks_for(scratch_records_)),
        scratch_(static_cast<std::uint64_t*>(
            ::operator new (chunks_* kChunk* kWord, std::align_val_t{4096}))),
        arena_(nullptr, 0, scratch_.get(), chunks_),
        rules_{{}, small_sort_for<std::uint64_t>(isa_in_use())},
        sorter_(rules_, arena_, output_),
        range_(),
        split_(even_split(range_, bits)) {
    for (unsigned i = 0; i < split_.buckets; ++i) {
      buckets_.push_back(std::make_unique<BucketStream>(
          array.pool(), BucketStreamOptions{.reserve_bytes = count_ * kWord + 512}));
    }
    writer_.emplace(buckets_);
  }

  std::size_t scratch_bytes() const { return chunks_ * kChunk * kWord; }

  void sort() {
    int error = distribute();
    if (error == 0) error = collect();
    if (error == 0) return;
    bring_back();
    throw Error(error, "radix_sort of '" + array_.name() +
                           "': the system refused to move a block; the array holds all its "
                           "elements, not in order");
  }

 private:
  // Level 0: the array flows into the buckets.
  int distribute() noexcept {
    const std::size_t block_words = array_.pool().block_bytes() / kWord;
    const auto bucket_of = sorter_.on_record(split_.slices);
    while (read_ < count_) {
      const std::size_t here = std::min(block_words, count_ - read_);
      const std::size_t taken = writer_->scatter(array_.data() + read_, here, bucket_of);
      read_ += taken;
      if (taken != here || writer_->error() != 0) return writer_->error();
      // A refusal leaves the block where it is: memory, not elements.
      array_.give_back_range((read_ - here) * kWord,
                             (read_ + block_words - 1) / block_words * block_words * kWord);
    }
    return writer_->finish();
  }

  // The buckets are sorted, in order, and flow back.
  int collect() noexcept {
    for (; bucket_ < buckets_.size(); ++bucket_) {
      const std::size_t size = writer_->count(bucket_);
      if (size > scratch_records_) {
        if (const int error = collect_in_place(size)) return error;
        continue;
      }
      if (const int error = array_.open_range(written_ * kWord, size * kWord)) return error;
      std::array<Chain, kMostBuckets> chains;
      const KeyRange<std::uint64_t> range =
          split_.slices.range_of(static_cast<unsigned>(bucket_), range_);
      if (size <= Sorter::Dense::kMost) {
        std::copy_n(words(bucket_), size, array_.data() + written_);
        give_back(bucket_, size);
        vortex::sort(std::span(array_.data() + written_, size));
      } else {
        const auto split =
            split_by_sample(sorter_.sample(), take_sample(size), range, Sorter::next_bits(size));
        auto& combiner = sorter_.combiner();
        combiner.start(arena_, chains.data(), split.buckets);
        Sorter::with_digit(split, [&](const auto& digit) {
          combiner.scatter(words(bucket_), size, words(bucket_), sorter_.on_record(digit));
        });
        combiner.finish();
        give_back(bucket_, size);
        output_.begin_at(array_.data() + written_);
        sorter_.sort_all(chains.data(), split, range, size);
      }
      written_ += size;
    }
    return 0;
  }

  // A bucket that got far more than its share is sorted within its own stream and copied block by
  // block, so that memory stays what it was.
  int collect_in_place(std::size_t size) noexcept {
    const std::size_t block_words = array_.pool().block_bytes() / kWord;
    if (copied_ == 0) {
      try {
        vortex::sort(std::span(words(bucket_), size));
      } catch (const std::bad_alloc&) {
        return ENOMEM;
      }
    }
    while (copied_ < size) {
      const std::size_t here = std::min(block_words - copied_ % block_words, size - copied_);
      if (const int error = array_.open_range(written_ * kWord, here * kWord)) return error;
      std::copy_n(words(bucket_) + copied_, here, array_.data() + written_);
      copied_ += here;
      written_ += here;
      give_back(bucket_, copied_);
    }
    copied_ = 0;
    return 0;
  }

  // After an error: what the buckets, the buffers and the array hold becomes the array again.
  void bring_back() {
    // Elements already in the result, then those of each bucket, then what was not read.
    for (; bucket_ < buckets_.size(); ++bucket_) {
      append(words(bucket_) + copied_, writer_->count(bucket_) - copied_, bucket_);
      const auto buffered = writer_->buffered(bucket_);
      append(buffered.data(), buffered.size(), buckets_.size());
      copied_ = 0;
    }
  }

  void append(const std::uint64_t* from, std::size_t size, std::size_t bucket) {
    constexpr int kAttempts = 10000;
    const std::size_t block_words = array_.pool().block_bytes() / kWord;
    for (std::size_t done = 0; done < size;) {
      const std::size_t here = std::min(block_words - done % block_words, size - done);
      int error = EAGAIN;
      for (int attempt = 0; error != 0 && attempt < kAttempts; ++attempt) {
        if (attempt != 0) sched_yield();
        error = array_.open_range(written_ * kWord, here * kWord);
      }
      if (error != 0) {
        throw Error(error, "radix_sort of '" + array_.name() +
                               "': the system goes on refusing to move blocks; elements from " +
                               std::to_string(written_) + " to " + std::to_string(read_) +
                               " are missing");
      }
      std::copy_n(from + done, here, array_.data() + written_);
      written_ += here;
      done += here;
      if (bucket < buckets_.size()) give_back(bucket, copied_ + done);
    }
  }

  std::uint64_t* words(std::size_t bucket) const noexcept {
    return reinterpret_cast<std::uint64_t*>(buckets_[bucket]->bytes());
  }

  // The first `size` words of a bucket have been read; the last block only when they are all.
  void give_back(std::size_t bucket, std::size_t size) noexcept {
    const std::size_t block = array_.pool().block_bytes();
    const bool all = size == writer_->count(bucket);
    buckets_[bucket]->give_back_range(
        0, all ? (size * kWord + block - 1) / block * block : size * kWord);
  }

  std::size_t take_sample(std::size_t size) noexcept {
    const std::size_t step = size / Sorter::kSample;
    for (std::size_t i = 0; i < Sorter::kSample; ++i) {
      sorter_.sample()[i] = words(bucket_)[i * step + (i * 0x9e3779b97f4a7c15) % step];
    }
    return Sorter::kSample;
  }

  VanishingArray<std::uint64_t>& array_;
  const std::size_t count_;
  const std::size_t scratch_records_;
  const std::size_t chunks_;
  const std::unique_ptr<std::uint64_t[], FreeAligned> scratch_;
  ChunkArena<std::uint64_t> arena_;
  const Rules rules_;
  OpenedOutput output_;
  Sorter sorter_;
  const KeyRange<std::uint64_t> range_;
  const Split<std::uint64_t> split_;
  std::vector<std::unique_ptr<BucketStream>> buckets_;
  std::optional<BucketWriter<std::uint64_t>> writer_;
  std::size_t read_ = 0;     // elements of the array that level 0 has taken
  std::size_t bucket_ = 0;   // being collected
  std::size_t copied_ = 0;   // of it, when it is copied block by block
  std::size_t written_ = 0;  // elements of the result
};

// Whether equal slices of all 64-bit numbers suit the keys.
bool even_keys(VanishingArray<std::uint64_t>& array, int bits) {
  std::array<std::uint64_t, Sorter::kSample> sample;
  const std::size_t step = array.size() / sample.size();
  for (std::size_t i = 0; i < sample.size(); ++i) {
    sample[i] = array.data()[i * step + (i * 0x9e3779b97f4a7c15) % step];
  }
  return split_by_sample(sample.data(), sample.size(), KeyRange<std::uint64_t>{}, bits).kind ==
         SplitKind::kSlices;
}

}  // namespace

std::size_t radix_sort_extra_blocks(std::uint64_t bytes, std::size_t block_bytes, int split_bits) {
  return (std::size_t{1} << split_bits) +
         static_cast<std::size_t>(kUneven * (bytes >> split_bits) / block_bytes) + 3;
}

RadixSortReport radix_sort(VanishingArray<std::uint64_t>& array, RadixSortOptions options) {
  if (options.first_split_bits < 0 || options.first_split_bits > Sorter::kMostBits) {
    throw Error(EINVAL, "radix_sort: the first level splits 2 to 256 ways");
  }
  const std::size_t bytes = array.size() * kWord;
  if (const int error = array.open_range(0, bytes)) {
    throw Error(error, "radix_sort of '" + array.name() + "': its elements cannot be opened");
  }
  StreamPool& pool = array.pool();
  pool.reset_peak();
  RadixSortReport report;
  int bits = options.first_split_bits;
  if (bits == 0 && array.size() >= kLeastForBuckets) bits = Sorter::next_bits(array.size());
  const std::size_t block = pool.block_bytes();
  const bool room =
      bits != 0 &&
      pool.block_count() >= pool.blocks_in_use() + radix_sort_extra_blocks(bytes, block, bits);
  const auto key_of = [](std::uint64_t word) noexcept { return word; };
  if (array.size() < kLeastForBuckets || !room || !even_keys(array, bits) ||
      presorted(array.data(), array.size(), key_of) != Presorted::kNo) {
    sort(std::span<std::uint64_t>(array.data(), array.size()));
  } else {
    Run run(array, bits);
    report.first_split_bits = bits;
    report.scratch_bytes = run.scratch_bytes();
    run.sort();
  }
  report.peak_blocks = pool.peak_blocks_in_use();
  return report;
}

}  // namespace vortex

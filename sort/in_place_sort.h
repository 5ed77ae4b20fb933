// Radix sort of an array within its own memory, by moving chunks of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "sort/chain_sorter.h"
#include "sort/presorted.h"

namespace vortex {

// Changes records on their way in and back on their way out, for base cases that know only unsigned
// keys in ascending order. This one changes nothing.
template <typename Record>
struct NoCodec {
  void encode(Record*, std::size_t) const noexcept {}
  void decode(Record*, std::size_t) const noexcept {}
};

// Sorts ordinary memory. `rules` speak of encoded records. Up to DenseSorter::kMost records it
// needs as much memory again; beyond that the array is distributed to lists of chunks that reuse
// the part already read (the idea of section 5 of the Vortex paper with copies of 4 KiB instead of
// remapped blocks), and needs some MiB besides. Throws std::bad_alloc before the first record has
// moved, and nothing afterwards.
template <typename Record, typename KeyOf, typename Codec = NoCodec<Record>>
class InPlaceSort {
 public:
  using Rules = SortRules<Record, KeyOf>;
  using Bits = typename Rules::Bits;
  using Sorter = ChainSorter<Record, KeyOf>;

  static void run(Record* array, std::size_t count, const Rules& rules, const Codec& codec = {}) {
    if (count <= kSmallSortMost) {
      codec.encode(array, count);
      rules.sort_few(array, count, array);
      codec.decode(array, count);
    } else if (count <= Sorter::Dense::kMost) {
      sort_dense(array, count, rules, codec);
    } else {
      InPlaceSort(array, count, rules, codec).sort();
    }
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;

  struct Free {
    void operator()(Record* memory) const noexcept {
      ::operator delete (static_cast<void*>(memory), std::align_val_t{4096});
    }
  };
  using Memory = std::unique_ptr<Record[], Free>;

  static Memory allocate(std::size_t count) {
    return Memory(
        static_cast<Record*>(::operator new (count * sizeof(Record), std::align_val_t{4096})));
  }

  static void sort_dense(Record* array, std::size_t count, const Rules& rules, const Codec& codec) {
    const Memory other = allocate(count);
    codec.encode(array, count);
    DenseSorter<Record, KeyOf>(rules).sort(array, count, other.get(), false);
    codec.decode(array, count);
  }

  // The array itself, front to back.
  class ArrayOutput final : public SortedOutput<Record> {
   public:
    ArrayOutput(Record* array, ChunkArena<Record>& arena, const Codec& codec)
        : at_(array), arena_(arena), codec_(codec) {}
    Record* room(std::size_t count) noexcept override {
      Record* const here = at_;
      records_ += count;
      at_ += count;
      arena_.claim(records_);
      return here;
    }
    void written(Record* records, std::size_t count) noexcept override {
      codec_.decode(records, count);
    }

   private:
    Record* at_;
    std::size_t records_ = 0;
    ChunkArena<Record>& arena_;
    const Codec& codec_;
  };

  InPlaceSort(Record* array, std::size_t count, const Rules& rules, const Codec& codec)
      : array_(array),
        count_(count),
        rules_(rules),
        codec_(codec),
        spare_(allocate(Sorter::spare_chunks_for(count) * kChunk)),
        tail_(allocate(kChunk)),
        arena_(array, count / kChunk, spare_.get(), Sorter::spare_chunks_for(count)),
        output_(array, arena_, codec_),
        sorter_(rules_, arena_, output_) {}

  void sort() noexcept {
    const KeyRange<Bits> range;
    const Split<Bits> split =
        split_by_sample(sorter_.sample(), take_sample(), range, Sorter::next_bits(count_));
    std::array<Chain, kMostBuckets> chains;
    auto& combiner = sorter_.combiner();
    combiner.start(arena_, chains.data(), split.buckets);
    Sorter::with_digit(split, [&](const auto& digit) {
      const auto bucket_of = sorter_.on_record(digit);
      const std::size_t whole = count_ / kChunk;
      for (std::size_t chunk = 0; chunk < whole; ++chunk) {
        Record* const records = array_ + chunk * kChunk;
        codec_.encode(records, kChunk);
        combiner.scatter(records, kChunk, records + kChunk, bucket_of);
        arena_.give(static_cast<std::uint32_t>(chunk));
      }
      // What fills no chunk is not part of the arena, and the result may go there at any time.
      const std::size_t rest = count_ % kChunk;
      Sorter::Dense::copy(array_ + whole * kChunk, rest, tail_.get());
      codec_.encode(tail_.get(), rest);
      combiner.scatter(tail_.get(), rest, tail_.get(), bucket_of);
    });
    combiner.finish();
    sorter_.sort_all(chains.data(), split, range, count_);
  }

  std::size_t take_sample() noexcept {
    const std::size_t step = count_ / Sorter::kSample;
    for (std::size_t i = 0; i < Sorter::kSample; ++i) {
      // One from each slice, at a place that periodic data are unlikely to line up with.
      const std::size_t at = i * step + (i * 0x9e3779b97f4a7c15) % step;
      Record record;
      Sorter::Dense::copy(array_ + at, 1, &record);
      codec_.encode(&record, 1);
      sorter_.sample()[i] = rules_.key_of(record);
    }
    return Sorter::kSample;
  }

  Record* const array_;
  const std::size_t count_;
  const Rules rules_;
  const Codec codec_;
  Memory spare_;
  Memory tail_;
  ChunkArena<Record> arena_;
  ArrayOutput output_;
  Sorter sorter_;
};

}  // namespace vortex

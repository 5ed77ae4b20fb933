// Radix sort of an array within its own memory, by moving chunks of it, unless it needs no sorting.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/radix/parallel_sort.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 { namespace detail {

enum class Presorted { kNo, kAscending, kStrictlyDescending };

// Reads only as far as the answer takes: a few records of an array in random order, all of one in
// order (constant arrays are ascending).
template <typename Record, typename KeyOf>
Presorted presorted(const Record* records, std::size_t count, KeyOf key_of) noexcept {
  // In blocks, so that the loop inside has no branches.
  constexpr std::size_t kBlock = 256;
  auto holds = [&](auto in_order) {
    for (std::size_t begin = 1; begin < count; begin += kBlock) {
      const std::size_t end = std::min(begin + kBlock, count);
      unsigned wrong = 0;
      for (std::size_t i = begin; i < end; ++i) {
        wrong |= static_cast<unsigned>(!in_order(key_of(records[i - 1]), key_of(records[i])));
      }
      if (wrong != 0) return false;
    }
    return true;
  };
  if (holds([](auto a, auto b) { return a <= b; })) return Presorted::kAscending;
  if (holds([](auto a, auto b) { return a > b; })) return Presorted::kStrictlyDescending;
  return Presorted::kNo;
}

// Sorts records that need no more than to be turned round, if that. False: they need sorting.
template <typename Record, typename KeyOf>
bool sorted_or_reversed(Record* records, std::size_t count, KeyOf key_of) noexcept {
  const Presorted order = presorted(records, count, key_of);
  if (order == Presorted::kStrictlyDescending) std::reverse(records, records + count);
  return order != Presorted::kNo;
}

// Arrays of this many bytes are sorted with as much memory again.
inline constexpr std::size_t kMaxCachedBytes = std::size_t{512} << 10;

// Sorts ordinary memory. `rules` speak of encoded records. Up to 512 KiB of them it needs as much
// memory again; beyond that the array is distributed to lists of chunks that reuse
// the part already read (the idea of section 5 of the Vortex paper with copies of 4 KiB instead of
// remapped blocks), and needs some MiB besides. Throws std::bad_alloc before the first record has
// moved, and nothing afterwards.
template <typename Record, typename KeyOf, typename Codec = NoCodec<Record>>
class InPlaceSort {
 public:
  using Rules = SortRules<Record, KeyOf>;
  using Bits = typename Rules::Bits;
  using Sorter = ChainSorter<Record, KeyOf>;

  // Both halves fit the second-level cache.
  static constexpr std::size_t kMaxDense = std::max(
      std::min(kMaxCachedBytes / sizeof(Record), Sorter::Dense::kMaxSlices* Sorter::Dense::kLeave),
      Sorter::Dense::kMax);

  // How many of `threads` pay for this array. 0 of them: one for each core that the process may
  // use.
  static unsigned threads_that_pay(const Record* array, std::size_t count, unsigned threads) {
    if (threads == 1 || count < 2 * kMinShare || has_few_values(array, count)) return 1;
    return static_cast<unsigned>(
        std::min<std::size_t>(ThreadTeam::resolve(threads), count / kMinShare));
  }

  // What run() takes with as many threads, besides the array, at most.
  static std::size_t bytes_of_run(std::size_t count, unsigned threads) noexcept {
    if (threads <= 1) return working_bytes(count);
    return ParallelSort<Record, KeyOf, Codec>::working_bytes(count, threads);
  }

  // With as many of `threads` as pay. Returns the bytes that it took besides the array, at most.
  static std::size_t run(Record* array, std::size_t count, const Rules& rules,
                         const Codec& codec = {}, unsigned threads = 1) {
    threads = threads_that_pay(array, count, threads);
    if (threads > 1) {
      using Parallel = ParallelSort<Record, KeyOf, Codec>;
      ThreadTeam team(threads);
      if (team.threads() > 1) {
        Parallel(array, count, rules, codec, team).sort();
        return bytes_of_run(count, team.threads());
      }
    }
    if (count <= kMaxSmallSort) {
      codec.encode(array, count);
      rules.sort_few(array, count, array);
      codec.decode(array, count);
    } else if (count <= kMaxDense) {
      sort_dense(array, count, rules, codec);
    } else {
      InPlaceSort(array, count, rules, codec).sort();
    }
    return bytes_of_run(count, 1);
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
  // Sorts of fewer records keep their working memory for the next.
  static constexpr std::size_t kFew = std::size_t{1} << 20;

  // The fewest records for each of several threads: two sort 2^20 u64 at 0.94 of the speed of one,
  // 2^21 at 1.2, 2^22 at 1.6; 2^20 pairs at 1.7.
  static constexpr std::size_t kMinShare = std::size_t{1} << (sizeof(Record) <= 8 ? 20 : 19);

  // Whether bare keys seem to be of a few values, which one thread counts without moving them: two
  // threads sort 2^23 u64 of two values at 0.67 of its speed.
  static bool has_few_values(const Record* array, std::size_t count) noexcept {
    if constexpr (kBareKeys<KeyOf>) {
      constexpr std::size_t kSample = 64, kFewValues = 24;
      std::array<const Record*, kFewValues> values;
      std::size_t found = 0;
      for (std::size_t i = 0; i < kSample; ++i) {
        const Record* const record = array + count / kSample * i;
        const auto same = [record](const Record* value) {
          return std::memcmp(value, record, sizeof(Record)) == 0;
        };
        if (std::any_of(values.begin(), values.begin() + found, same)) continue;
        if (found == kFewValues) return false;
        values[found++] = record;
      }
      return true;
    } else {
      return false;
    }
  }

  // By one thread.
  static std::size_t working_bytes(std::size_t count) noexcept {
    if (count <= kMaxSmallSort) return 0;
    if (count <= kMaxDense) return dense_bytes(count);
    return Sorter::spare_chunks_for(count) * kChunk * sizeof(Record) + Sorter::kWorkingBytes +
           count / kChunk * ChunkArena<Record>::kListBytes;
  }

  // As many records again and a workspace, in front of them.
  using Workspace = typename Sorter::Dense::Workspace;
  static constexpr std::size_t kOtherOffset = (sizeof(Workspace) + 4095) / 4096 * 4096;
  static constexpr std::size_t dense_bytes(std::size_t count) noexcept {
    return kOtherOffset + count * sizeof(Record);
  }

  static void sort_dense(Record* array, std::size_t count, const Rules& rules, const Codec& codec) {
    const KeptMemory memory(dense_bytes(count), true);
    auto* const workspace = new (memory.get()) Workspace;
    auto* const other =
        reinterpret_cast<Record*>(static_cast<std::byte*>(memory.get()) + kOtherOffset);
    codec.encode(array, count);
    typename Sorter::Dense(rules, *workspace).sort(array, count, other, false);
    codec.decode(array, count);
  }

  InPlaceSort(Record* array, std::size_t count, const Rules& rules, const Codec& codec)
      : array_(array),
        count_(count),
        rules_(rules),
        codec_(codec),
        spare_(Sorter::spare_chunks_for(count) * kChunk * sizeof(Record), count < kFew),
        arena_(array, count / kChunk, static_cast<Record*>(spare_.get()),
               Sorter::spare_chunks_for(count)),
        output_(arena_, codec_),
        sorter_(rules_, arena_, output_, count < kFew) {
    output_.start(array);
  }

  void sort() noexcept { sorter_.sort_array(array_, count_, KeyRange<Bits>{}, codec_); }

  Record* const array_;
  const std::size_t count_;
  const Rules rules_;
  const Codec codec_;
  KeptMemory spare_;
  ChunkArena<Record> arena_;
  ArrayOutput<Record, Codec> output_;
  Sorter sorter_;
};

// InPlaceSort::run(), apart from those who call it: the library compiles some of them once.
template <typename Record, typename KeyOf, typename Codec>
std::size_t sort_in_place(Record* array, std::size_t count, const SortRules<Record, KeyOf>& rules,
                          const Codec& codec, unsigned threads) {
  return InPlaceSort<Record, KeyOf, Codec>::run(array, count, rules, codec, threads);
}

}}}  // namespace vortex::v0::detail

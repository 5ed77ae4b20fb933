// Radix sort of an array within its own memory, by moving chunks of it, unless it needs no sorting.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <new>
#include <utility>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/radix/parallel_sort.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 { namespace detail {

enum class Presorted { kNo, kAscending, kStrictlyDescending };

// Whether records are in an order that is not kNo. Reads only as far as the answer takes: a few
// records of an array in random order, all of one in order (constant arrays are ascending).
template <typename Record, typename KeyOf>
bool are_in_order(Presorted order, const Record* records, std::size_t count,
                  const KeyOf& key_of) noexcept {
  // In blocks, so that the loop inside has no branches; a short one is first. What comes next is
  // asked for: the processor's own prefetching does not keep up.
  constexpr std::size_t kFirst = 16, kBlock = 256,
                        kLine = sizeof(Record) < 64 ? 64 : sizeof(Record);
  constexpr std::size_t kAhead = 4096;
  const auto holds = [&](const auto& in_order) {
    for (std::size_t begin = 1, block = kFirst; begin < count; begin += block, block = kBlock) {
      const std::size_t end = std::min(begin + block, count);
      const auto* const soon = reinterpret_cast<const std::byte*>(records + begin) + kAhead;
      for (std::size_t i = 0; i < block * sizeof(Record); i += kLine) __builtin_prefetch(soon + i);
      unsigned wrong = 0;
      for (std::size_t i = begin; i < end; ++i) {
        wrong |= static_cast<unsigned>(!in_order(key_of(records[i - 1]), key_of(records[i])));
      }
      if (wrong != 0) return false;
    }
    return true;
  };
  return order == Presorted::kAscending ? holds([](auto a, auto b) { return a <= b; })
                                        : holds([](auto a, auto b) { return a > b; });
}

template <typename Record, typename KeyOf>
Presorted presorted(const Record* records, std::size_t count, const KeyOf& key_of) noexcept {
  for (const Presorted order : {Presorted::kAscending, Presorted::kStrictlyDescending}) {
    if (are_in_order(order, records, count, key_of)) return order;
  }
  return Presorted::kNo;
}

// The same of a large array that begins in that order, and it is turned round where it is
// descending, all with as many threads as the order of so many records pays for. Throws
// std::bad_alloc, with nothing moved.
template <typename Record, typename KeyOf>
bool sorted_or_reversed_by_threads(Presorted order, Record* records, std::size_t count,
                                   const KeyOf& key_of, unsigned threads) {
  constexpr std::size_t kPart = std::size_t{1} << 16;
  ThreadTeam team(threads);
  std::atomic<bool> holds{true};
  const auto look = [&](std::size_t part) {
    const std::size_t begin = part * kPart;
    const std::size_t end = std::min(begin + kPart + 1, count);  // with the next part's first
    if (holds.load(std::memory_order_relaxed) &&
        !are_in_order(order, records + begin, end - begin, key_of)) {
      holds.store(false, std::memory_order_relaxed);
    }
  };
  team.run((count + kPart - 1) / kPart, std::cref(look));
  if (!holds) return false;
  if (order == Presorted::kAscending) return true;
  const auto turn = [&](std::size_t part) {
    const std::size_t end = std::min((part + 1) * kPart, count / 2);
    for (std::size_t i = part * kPart; i < end; ++i) std::swap(records[i], records[count - 1 - i]);
  };
  team.run((count / 2 + kPart - 1) / kPart, std::cref(turn));
  return true;
}

// Sorts records that need no more than to be turned round, if that. False: they need sorting.
// Throws as the above does, with several threads.
template <typename Record, typename KeyOf>
bool sorted_or_reversed(Record* records, std::size_t count, const KeyOf& key_of,
                        unsigned threads = 1) {
  // A thread for so many; the order of the first ones tells whether any pays.
  constexpr std::size_t kShare = std::size_t{1} << 20, kFirst = std::size_t{1} << 12;
  const bool alone = threads == 1 || count < 2 * kShare;
  const Presorted order = presorted(records, alone ? count : kFirst, key_of);
  if (order == Presorted::kNo) return false;
  if (!alone) {
    const auto most =
        static_cast<unsigned>(std::min<std::size_t>(ThreadTeam::resolve(threads), count / kShare));
    return sorted_or_reversed_by_threads(order, records, count, key_of, most);
  }
  if (order == Presorted::kStrictlyDescending) std::reverse(records, records + count);
  return true;
}

// Arrays of this many bytes are sorted with as much memory again.
inline constexpr std::size_t kMaxCachedBytes = std::size_t{512} << 10;

// Sorts ordinary memory. `rules` speak of encoded records. Up to 512 KiB of them it needs as much
// memory again; beyond that the array is distributed to lists of chunks that reuse
// the part already read (the idea of section 5 of the Vortex paper with copies of chunks instead of
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

  // How many of `threads` pay for so many records. 0 of them: one for each core that the process
  // may use.
  static unsigned threads_that_pay(std::size_t count, unsigned threads) {
    if (threads == 1 || count < 2 * kMinShare) return 1;
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
    threads = threads_that_pay(count, threads);
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

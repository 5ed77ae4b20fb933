// How a sort by several threads divides work and memory among them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/radix/team_stripes.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename Record, typename Sorter>
struct TeamBounds {
  // A bucket of more records waits for a round of its own. Fewer than most_apart() can be so large,
  // so that what these keep in the store does not grow with the square of the threads.
  static std::size_t most_in_task(std::size_t count, unsigned threads) noexcept {
    return std::max(count / most_apart(threads), 4 * Sorter::Dense::kMax);
  }
  static std::size_t most_apart(unsigned threads) noexcept {
    return std::min<std::size_t>(2 * std::size_t{threads}, kMaxBuckets / 2);
  }
  // What the array is split by: so far that a bucket of about the mean is no pass of its own.
  static int first_bits(unsigned threads) noexcept {
    return static_cast<int>(std::bit_width(std::min(4 * threads, kMaxBuckets) - 1));
  }
  // The most records of a thread's own stripe, or that it sorts alone. Chunks of other stripes have
  // nodes there, and become free as fast as others are filled.
  static std::size_t most_alone(std::size_t count, unsigned threads) noexcept {
    return std::max(count / threads, most_in_task(count, threads));
  }
  // A stripe, or the chunks of a bucket, and what of it lies elsewhere.
  static std::size_t most_in_arena(std::size_t count, unsigned threads) noexcept {
    return most_alone(count, threads) / kChunk + 1;
  }
  static std::size_t outside(unsigned threads) noexcept { return TeamStripes::most(threads) + 2; }
  // Jobs of a round that several threads share.
  static std::size_t most_shared(unsigned threads) noexcept { return std::max(threads / 2, 1U); }
  // The part of a bucket that finds no place in its range: the last chunks of its lists, and a full
  // one, since a range need not begin and end with a chunk. A block for each bucket that waits, and
  // for each that has waited and is being split; then those of a round: the first has one job, with
  // a list for each stripe and bucket, and later ones as many lists of a bucket as threads.
  static std::size_t block_chunks(unsigned threads) noexcept {
    return TeamStripes::most(threads) + 1;
  }
  static std::size_t most_blocks(unsigned threads) noexcept { return 2 * most_apart(threads); }
  static std::size_t store_chunks(unsigned threads) noexcept {
    return most_blocks(threads) * block_chunks(threads) +
           kMaxBuckets * std::max(TeamStripes::most(threads) + 1, threads + most_shared(threads));
  }
  static std::size_t nodes(std::size_t count, unsigned threads) noexcept {
    return most_in_arena(count, threads) + outside(threads) + Sorter::spare_chunks_for(count);
  }
  // Of all buckets of a round and those that wait: each stripe adds the last chunks of its lists to
  // both.
  static std::size_t most_pieces(std::size_t count, unsigned threads) noexcept {
    return count / kChunk + 2 * kMaxBuckets * TeamStripes::most(threads);
  }
  // Besides the array. `worker_bytes`: what each thread takes without its sorter.
  static std::size_t working_bytes(std::size_t count, unsigned threads,
                                   std::size_t worker_bytes) noexcept {
    const std::size_t lists = ChunkArena<Record>::list_bytes(
        most_in_arena(count, threads), outside(threads) + Sorter::spare_chunks_for(count));
    return extra_chunks(count, threads) * ChunkLayout<Record>::kChunkBytes +
           threads * (Sorter::kWorkingBytes + worker_bytes + lists) +
           most_pieces(count, threads) * sizeof(typename ChunkMovers<Record>::PlacedPiece) +
           TeamStripes::most(threads) * kMaxBuckets * sizeof(Chain) +
           ChunkMovers<Record>::working_bytes(count / kChunk, store_chunks(threads));
  }
  static std::size_t extra_chunks(std::size_t count, unsigned threads) noexcept {
    return store_chunks(threads) + threads * Sorter::spare_chunks_for(count);
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
};

}}}  // namespace vortex::v0::detail

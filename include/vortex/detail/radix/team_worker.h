// What one thread of a team does when it sorts an array with the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/radix/team_jobs.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename Record, typename KeyOf, typename Codec>
struct TeamWorker {
  using Rules = SortRules<Record, KeyOf>;
  using Bits = typename Rules::Bits;
  using Sorter = ChainSorter<Record, KeyOf>;
  using Job = TeamJob<Bits, typename Sorter::Spread>;
  using Places = ChunkMovers<Record>;

  // A job of the round that several threads share.
  struct Shared {
    bool closes_up() const noexcept { return job.range.low == job.range.high; }
    Job job;
    std::size_t first_worker;
    KeyRange<Bits> range;  // what the records hold
    Split<Bits> split;
    typename Places::ClosingUp closing;
  };
  // A bucket of the round.
  struct Bucket : Places::Range {
    Job job;
    const Shared* shared = nullptr;
    std::size_t index = 0;
    bool apart = false;  // waits for a round of its own
  };

  // Its own bytes, at most; with chains, samples, and a share of the round's buckets.
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  TeamWorker(const Rules& rules, const Codec& codec, Record* spare, std::size_t spare_chunks)
      : arena(nullptr, 0, spare, spare_chunks),
        output(arena, codec),
        sorter(rules, arena, output),
        chains(std::make_unique<Chain[]>(kMaxBuckets)) {}

  // The chunks of the array that lie within the records of a job.
  static std::size_t first_slot(const Job& job) noexcept {
    return (job.begin + kChunk - 1) / kChunk;
  }
  static std::size_t slots_end(const Job& job) noexcept {
    return std::max(first_slot(job), (job.begin + job.count) / kChunk);
  }

  // Makes its part of the job's pieces a chain. piece_at(index) is a piece.
  template <typename PieceAt>
  void share_pieces(const PieceAt& piece_at) noexcept {
    const Job& job = shared->job;
    if (job.level == 0) return;
    const std::size_t begin = job.pieces * part / job.threads;
    const std::size_t end = job.pieces * (part + 1) / job.threads;
    stripe = Chain{};
    held = KeyRange<Bits>::none();
    if (begin == end) return;
    stripe = arena.rebase(nullptr, 0, end - begin,
                          [&](std::size_t i) { return piece_at(job.first_piece + begin + i); });
    if (job.level > Sorter::kSampledLevels) held = sorter.measure(stripe);
  }

  // Distributes that chain, or its stripe of the array, to its lists.
  void distribute(Record* array, std::size_t count, const Codec& codec) noexcept {
    const Job& job = shared->job;
    const SplitLevel<Bits> level{shared->split};
    const std::span<Chain> lists(chains.get(), shared->split.buckets);
    if (job.level == 0) {
      const std::size_t begin = count / kChunk * part / job.threads;
      const std::size_t end = count / kChunk * (part + 1) / job.threads;
      Record* const records = array + begin * kChunk;
      arena.rebase(records, end - begin);
      const std::size_t records_end = part + 1 == job.threads ? count : end * kChunk;
      sorter.scatter_array(records, records_end - begin * kChunk, level, lists, codec);
    } else if (stripe.count != 0) {
      sorter.scatter(stripe, level, lists);
    } else {
      std::fill(lists.begin(), lists.end(), Chain{});
    }
  }

  // Its part of records of one key, which lie where they belong now.
  void complete(Record* array, const Codec& codec) const noexcept {
    if (shared == nullptr || !shared->closes_up()) return;
    const Job& job = shared->job;
    const std::size_t begin = job.count * part / job.threads;
    const std::size_t end = job.count * (part + 1) / job.threads;
    Record* const records = array + job.begin + begin;
    if constexpr (kBareKeys<KeyOf>) std::fill_n(records, end - begin, job.range.low);
    codec.decode(records, end - begin);
  }

  // Sorts a job alone, within its range of the array, which has so many chunks.
  template <typename PieceAt>
  void sort(const Job& job, Record* array, std::size_t chunks, const PieceAt& piece_at) noexcept {
    const std::size_t slots = first_slot(job);
    const Chain chain =
        arena.rebase(array + std::min(slots, chunks) * kChunk, slots_end(job) - slots, job.pieces,
                     [&](std::size_t piece) { return piece_at(job.first_piece + piece); });
    output.start(array + job.begin, slots * kChunk - job.begin);
    sorter.sort_chain(chain, job.range, job.spread, job.level, job.outer_lists);
  }

  ChunkArena<Record> arena;
  ArrayOutput<Record, Codec> output;
  Sorter sorter;
  Shared* shared = nullptr;  // what it works on in this round, and which part of that
  std::size_t part = 0;
  Chain stripe;
  KeyRange<Bits> held;
  std::unique_ptr<Chain[]> chains;  // one for each bucket

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
};

}}}  // namespace vortex::v0::detail

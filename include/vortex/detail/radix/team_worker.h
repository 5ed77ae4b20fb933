// What one thread of a team does when it sorts an array with the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/detail/radix/chunk_source.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/radix/team_jobs.h"
#include "vortex/detail/radix/team_stripes.h"

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
    std::span<Chain* const> lists;  // for each stripe or part, in order, those of the buckets
    typename Places::ClosingUp closing;
  };
  // A bucket of the round.
  struct Bucket : Places::Range {
    Job job;
    const Shared* shared = nullptr;
    std::size_t index = 0;
    bool apart = false;  // waits for a round of its own
  };

  // Its own bytes, at most; with samples and a share of the round's buckets.
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  TeamWorker(const Rules& rules, const Codec& codec, Record* spare, std::size_t spare_chunks)
      : arena(nullptr, 0, spare, spare_chunks),
        output(arena, codec),
        sorter(rules, arena, output) {}

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

  // Distributes that chain to lists.
  void distribute(Chain* chains) noexcept {
    const std::span<Chain> lists(chains, shared->split.buckets);
    if (stripe.count == 0) return void(std::fill(lists.begin(), lists.end(), Chain{}));
    sorter.scatter(stripe, SplitLevel<Bits>{shared->split}, lists);
  }
  // Distributes its stripe of the array, and then of those of others what they have left, as long
  // as that is worth the lists. `chains` has kMaxBuckets for each stripe.
  void distribute_stripes(Record* array, std::size_t count, TeamStripes& stripes,
                          const Codec& codec, Chain* chains) noexcept {
    const auto [begin, end] = stripes.whole(part);
    arena.rebase(array + begin * kChunk, end - begin);
    stripes.begin(part, arena.first_node() - static_cast<std::uint32_t>(begin));
    const std::size_t lists = shared->split.buckets;
    // Each list of each stripe may end with a chunk that is not full: spare ones make up for that.
    std::size_t left = (arena.spare_chunks() - Sorter::kBesidesLists) / lists;
    for (std::size_t index = part; index != TeamStripes::kNone;) {
      StripeSource source(array, count, stripes, index);
      sorter.scatter_array(source, SplitLevel<Bits>{shared->split},
                           {chains + index * kMaxBuckets, lists}, codec);
      index = --left == 0 ? TeamStripes::kNone : stripes.help(part, std::max(lists, kLeastHelp));
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

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
  // Chunks that are worth taking from another.
  static constexpr std::size_t kLeastHelp = 4 * TeamStripes::kStep;

  class StripeSource final : public ChunkSource<Record> {
   public:
    StripeSource(Record* array, std::size_t count, TeamStripes& stripes, std::size_t index) noexcept
        : array_(array), count_(count), stripes_(stripes), index_(index) {}

    bool next(ChunkRow<Record>& to) noexcept override {
      const auto [begin, end] = stripes_.take(index_);
      to = {array_ + begin * kChunk, end - begin,
            static_cast<std::uint32_t>(begin) + stripes_.shift(index_)};
      return begin != end;
    }
    Piece<Record> rest() noexcept override {
      return {array_ + count_ / kChunk * kChunk, stripes_.is_last(index_) ? count_ % kChunk : 0};
    }

   private:
    Record* const array_;
    const std::size_t count_;
    TeamStripes& stripes_;
    const std::size_t index_;
  };
};

}}}  // namespace vortex::v0::detail

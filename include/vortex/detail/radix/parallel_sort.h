// Radix sort of an array within its own memory, by several threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/radix/chain_sorter.h"
#include "vortex/detail/radix/chunk_movers.h"
#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/radix/team_bounds.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts ordinary memory as InPlaceSort does, to the same bytes, with a team of threads. A pass over
// the array takes four steps, each of which all threads share:
//   - Each thread distributes a stripe of the array to lists of its own, one for each bucket. Their
//     chunks are those of the stripe that it has read.
//   - Each bucket joins its lists: it plans for each chunk a place in the range of the array where
//     the bucket's result will be.
//   - The chunks move there (ChunkMovers).
//   - Threads take buckets, the largest first, and sort each within its range as a sort of one
//     thread does.
// A bucket that is so large that it would keep one thread busy when the others have ended gets a
// pass of its own instead.
//
// The splits, and the order of records within each list, are those of a sort by one thread: so the
// result is the same, also where records with equal keys could come in any order. But more than 16
// threads split the array further, for a bucket each.
//
// Distributing stripes and permuting blocks to their buckets is the plan of IPS4o (Axtmann, Witt,
// Ferizovic, Sanders: In-place Parallel Super Scalar Samplesort, ESA 2017). Here the lists are
// known when chunks move, so no two threads ever want the same place.
template <typename Record, typename KeyOf, typename Codec>
class ParallelSort {
 public:
  using Rules = SortRules<Record, KeyOf>;
  using Bits = typename Rules::Bits;
  using Sorter = ChainSorter<Record, KeyOf>;
  // More records than that can be sorted.
  static constexpr std::size_t kMin = Sorter::Dense::kMax;

  // Takes all memory. Throws std::bad_alloc. `array` of more than kMin records; all outlive it.
  ParallelSort(Record* array, std::size_t count, const Rules& rules, const Codec& codec,
               ThreadTeam& team)
      : array_(array),
        count_(count),
        codec_(codec),
        team_(team),
        threads_(team.threads()),
        most_in_task_(Bounds::most_in_task(count, threads_)),
        chunks_(count / kChunk),
        store_chunks_(Bounds::store_chunks(threads_)),
        spare_chunks_(Sorter::spare_chunks_for(count)),
        extra_(Bounds::extra_chunks(count, threads_) * kChunkBytes, false),
        movers_(array, chunks_, static_cast<Record*>(extra_.get()), store_chunks_) {
    movers_.reserve();
    pieces_.reserve(chunks_ + kMaxPartial * threads_);
    jobs_.reserve(Bounds::most_apart(threads_) + 1);
    workers_.reserve(threads_);
    for (unsigned i = 0; i < threads_; ++i) {
      workers_.push_back(std::make_unique<Worker>(
          rules, codec, movers_.at(movers_.store(store_chunks_ + i * spare_chunks_)),
          spare_chunks_));
      workers_.back()->arena.reserve(Bounds::most_in_arena(count, threads_),
                                     Bounds::outside(threads_));
    }
  }
  ParallelSort(const ParallelSort&) = delete;
  ParallelSort& operator=(const ParallelSort&) = delete;

  // The bytes that a sort takes besides the array, for each thread and together.
  static std::size_t working_bytes(std::size_t count, unsigned threads) noexcept {
    const std::size_t chunks = count / kChunk;
    const std::size_t lists =
        ChunkArena<Record>::list_bytes(Bounds::most_in_arena(count, threads),
                                       Bounds::outside(threads) + Sorter::spare_chunks_for(count));
    return Bounds::extra_chunks(count, threads) * kChunkBytes +
           threads * (Sorter::kWorkingBytes + kWorkerBytes + lists) +
           (chunks + kMaxPartial * threads) * sizeof(PlacedPiece) +
           ChunkMovers<Record>::working_bytes(chunks, Bounds::store_chunks(threads));
  }

  // Returns how many passes the team has made.
  std::size_t sort() noexcept {
    std::size_t passes = 0;
    jobs_.push_back({0, 0, 0, count_, {}, Sorter::Spread::kUnknown, 0, 0, 0});
    while (!jobs_.empty()) {
      const Job job = jobs_.back();
      jobs_.pop_back();
      if (job.range.low == job.range.high) {
        place_equal(job);
      } else {
        pass(job);
      }
      ++passes;
    }
    return passes;
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
  static constexpr std::size_t kChunkBytes = ChunkLayout<Record>::kChunkBytes;
  using Places = ChunkMovers<Record>;
  using PlacedPiece = typename Places::PlacedPiece;
  using Bounds = TeamBounds<Record, Sorter>;

  // For each level that there can be, the last chunks of all lists of a thread.
  static constexpr std::size_t kMaxPartial = std::size_t{Sorter::kMaxLevels} * kMaxBuckets;

  // Records to be sorted, all of one range of keys; level 0: the array.
  struct Job {
    std::size_t first_piece;
    std::size_t pieces;
    std::size_t begin;  // of its records in the array
    std::size_t count;
    KeyRange<Bits> range;
    typename Sorter::Spread spread;
    int level;
    std::size_t outer_lists;
    std::size_t store_end;  // the first place of the store behind its own
  };

  // At most; with chains and samples.
  static constexpr std::size_t kWorkerBytes = std::size_t{32} << 10;
  struct Worker {
    Worker(const Rules& rules, const Codec& codec, Record* spare, std::size_t spare_chunks)
        : arena(nullptr, 0, spare, spare_chunks),
          output(arena, codec),
          sorter(rules, arena, output),
          chains(std::make_unique<Chain[]>(kMaxBuckets)) {}
    ChunkArena<Record> arena;
    ArrayOutput<Record, Codec> output;
    Sorter sorter;
    Chain stripe;  // of a pass over a chain
    KeyRange<Bits> held;
    std::unique_ptr<Chain[]> chains;  // of the level at work, one for each bucket
  };

  // A bucket of a pass.
  struct Bucket : Places::Range {
    std::size_t count = 0;
    std::size_t begin = 0;  // in the array
    std::size_t first_piece = 0;
    std::size_t pieces = 0;
    bool apart = false;   // gets a pass of its own
    bool single = false;  // of one key
  };

  // The pieces of a job, in order.
  struct PieceCursor {
    const Record* data() const noexcept { return sort->movers_.at(piece->place); }
    std::size_t size() const noexcept { return piece->count; }
    void advance() noexcept { ++piece; }
    const ParallelSort* sort;
    const PlacedPiece* piece;
  };

  Piece<Record> piece_at(std::size_t index) const noexcept {
    return {movers_.at(pieces_[index].place), pieces_[index].count};
  }

  void pass(const Job& job) noexcept {
    KeyRange<Bits> range = job.range;
    if (job.level != 0) share_pieces(job);
    if (job.level > Sorter::kSampledLevels) range = measure();
    const Split<Bits> split = workers_[0]->sorter.split(
        job.count, range, job.spread, job.level, job.outer_lists,
        job.level == 0 ? Bounds::first_bits(threads_) : 1,
        [&](const auto& splitter, Bits* to, std::size_t most) noexcept {
          return job.level == 0 ? splitter.take(array_, count_, codec_, to, most)
                                : splitter.take(PieceCursor{this, &pieces_[job.first_piece]},
                                                job.count, to, most);
        });
    const SplitLevel<Bits> level{split};
    run(threads_, [&](std::size_t part) {
      Worker& worker = *workers_[part];
      const std::span<Chain> chains(worker.chains.get(), split.buckets);
      if (job.level != 0) {
        if (worker.stripe.count != 0) {
          worker.sorter.scatter(worker.stripe, level, chains);
        } else {
          std::fill(chains.begin(), chains.end(), Chain{});
        }
        return;
      }
      const std::size_t begin = chunks_ * part / threads_;
      const std::size_t end = chunks_ * (part + 1) / threads_;
      Record* const stripe = array_ + begin * kChunk;
      worker.arena.rebase(stripe, end - begin);
      worker.sorter.scatter_array(stripe,
                                  (part + 1 == threads_ ? count_ : end * kChunk) - begin * kChunk,
                                  level, chains, codec_);
    });
    plan(job, range, split);
    movers_.start(job.begin / kChunk, std::min((job.begin + job.count) / kChunk + 1, chunks_),
                  store_end_);
    run(split.buckets, [&](std::size_t bucket) { join(buckets_[bucket], bucket); });
    run(split.buckets, [&](std::size_t bucket) {
      const Bucket& to = buckets_[bucket];
      movers_.move_along_paths(to.slots, to.slots_end);
      movers_.move_along_paths(movers_.store(to.store),
                               movers_.store(to.store + in_store(to, bucket)));
    });
    const std::size_t cycles = movers_.find_cycles();
    if (cycles != 0) {
      run(threads_, [&](std::size_t part) {
        movers_.move_along_cycles(cycles * part / threads_, cycles * (part + 1) / threads_,
                                  workers_[part]->sorter.workspace());
      });
    }
    sort_buckets(job, range, split);
  }

  // Gives each worker a part of the job's pieces, as a chain.
  void share_pieces(const Job& job) noexcept {
    run(threads_, [&](std::size_t part) {
      Worker& worker = *workers_[part];
      const std::size_t begin = job.pieces * part / threads_;
      const std::size_t end = job.pieces * (part + 1) / threads_;
      worker.stripe = Chain{};
      if (begin == end) return;
      worker.stripe = worker.arena.rebase(nullptr, 0, end - begin, [&](std::size_t i) {
        return piece_at(job.first_piece + begin + i);
      });
    });
  }

  // The keys of the shared pieces.
  KeyRange<Bits> measure() noexcept {
    run(threads_, [&](std::size_t part) {
      workers_[part]->held = workers_[part]->sorter.measure(workers_[part]->stripe);
    });
    auto range = KeyRange<Bits>::none();
    for (const auto& worker : workers_) range.widen(worker->held);
    return range;
  }

  // Where the buckets of the pass go.
  void plan(const Job& job, const KeyRange<Bits>& range, const Split<Bits>& split) noexcept {
    std::size_t at = job.begin, piece = job.first_piece;
    for (unsigned i = 0; i < split.buckets; ++i) {
      Bucket& bucket = buckets_[i];
      bucket = Bucket{};
      for (const auto& worker : workers_) {
        bucket.count += worker->chains[i].count;
        bucket.pieces += (worker->chains[i].count + kChunk - 1) / kChunk;
      }
      bucket.begin = at;
      at += bucket.count;
      bucket.slots = (bucket.begin + kChunk - 1) / kChunk;
      bucket.slots_end = std::max(bucket.slots, at / kChunk);
      bucket.first_piece = piece;
      piece += bucket.pieces;
      const KeyRange<Bits> keys = range_of(split, i, range);
      bucket.single = keys.low == keys.high;
      bucket.apart = bucket.count > most_in_task_;
    }
    pieces_.resize(piece);
    // Jobs that wait keep their places there.
    store_end_ = job.store_end;
    for (const bool apart : {true, false}) {
      for (unsigned i = 0; i < split.buckets; ++i) {
        if (buckets_[i].apart != apart) continue;
        buckets_[i].store = store_end_;
        store_end_ += in_store(buckets_[i], i);
      }
    }
    if (store_end_ > store_chunks_) [[unlikely]]
      broken_bound("vortex: a sort stores more chunks than it has room for: a bug in vortex\n");
  }

  // How many pieces of a bucket have no place in its range.
  std::size_t in_store(const Bucket& bucket, std::size_t index) const noexcept {
    std::size_t full = 0;
    for (const auto& worker : workers_) full += worker->chains[index].count / kChunk;
    const std::size_t slots = bucket.slots_end - bucket.slots;
    return bucket.pieces - std::min(full, slots);
  }

  // Lists the bucket's pieces in order, with the places where they are to be. Chunks that are there
  // already may stay, unless the order of places is to be that of the records.
  void join(const Bucket& bucket, std::size_t index) noexcept {
    movers_.place(bucket, !(bucket.apart && bucket.single), pieces_.data() + bucket.first_piece,
                  [&](auto body) {
                    for (const auto& worker : workers_) {
                      worker->arena.template for_each_chunk<false>(worker->chains[index], body);
                    }
                  });
  }

  // Sorts the buckets, but for those that get a pass of their own, which become jobs.
  void sort_buckets(const Job& job, const KeyRange<Bits>& range,
                    const Split<Bits>& split) noexcept {
    std::array<std::uint16_t, kMaxBuckets> order;
    std::size_t tasks = 0;
    const std::size_t outer_lists = job.outer_lists + split.buckets;
    std::size_t waiting = job.store_end;
    for (unsigned i = 0; i < split.buckets; ++i) {
      const Bucket& bucket = buckets_[i];
      if (bucket.count == 0) continue;
      if (!bucket.apart) {
        order[tasks++] = static_cast<std::uint16_t>(i);
        continue;
      }
      waiting += in_store(bucket, i);
      jobs_.push_back({bucket.first_piece, bucket.pieces, bucket.begin, bucket.count,
                       range_of(split, i, range),
                       Sorter::spread_of(split, i, bucket.count, job.count), job.level + 1,
                       outer_lists, waiting});
    }
    std::stable_sort(order.begin(), order.begin() + tasks,
                     [&](unsigned a, unsigned b) { return buckets_[a].count > buckets_[b].count; });
    std::atomic<std::size_t> next{0};
    run(std::min<std::size_t>(threads_, tasks), [&](std::size_t part) {
      Worker& worker = *workers_[part];
      for (std::size_t task; (task = next.fetch_add(1)) < tasks;) {
        const unsigned i = order[task];
        const Bucket& bucket = buckets_[i];
        const Chain chain = worker.arena.rebase(
            array_ + std::min(bucket.slots, chunks_) * kChunk, bucket.slots_end - bucket.slots,
            bucket.pieces, [&](std::size_t piece) { return piece_at(bucket.first_piece + piece); });
        worker.output.start(array_ + bucket.begin, bucket.slots * kChunk - bucket.begin);
        worker.sorter.sort_chain(chain, range_of(split, i, range),
                                 Sorter::spread_of(split, i, bucket.count, job.count),
                                 job.level + 1, outer_lists);
      }
    });
  }

  // Records of one key, which lie in order but for gaps and for what is in the store.
  void place_equal(const Job& job) noexcept {
    if constexpr (kBareKeys<KeyOf>) {
      in_parts(job, [&](Record* records, std::size_t count) {
        std::fill_n(records, count, job.range.low);
        codec_.decode(records, count);
      });
      return;
    }
    // Nothing lies in the chunks of the workers.
    movers_.close_up(
        {pieces_.data() + job.first_piece, job.pieces}, job.begin, threads_,
        [&](std::size_t parts, const auto& body) { run(parts, body); }, spare_chunks_,
        [&](std::size_t i) {
          return movers_.at(movers_.store(store_chunks_ + i * spare_chunks_));
        });
    in_parts(job, [&](Record* records, std::size_t count) { codec_.decode(records, count); });
  }

  // Without the memory that a function object may need.
  template <typename Body>
  void run(std::size_t parts, const Body& body) noexcept {
    team_.run(parts, std::cref(body));
  }

  template <typename Body>
  void in_parts(const Job& job, Body body) noexcept {
    run(threads_, [&](std::size_t part) {
      const std::size_t begin = job.count * part / threads_;
      const std::size_t end = job.count * (part + 1) / threads_;
      body(array_ + job.begin + begin, end - begin);
    });
  }

  Record* const array_;
  const std::size_t count_;
  const Codec& codec_;
  ThreadTeam& team_;
  const unsigned threads_;
  const std::size_t most_in_task_;  // records
  const std::size_t chunks_;        // of the array
  const std::size_t store_chunks_;
  const std::size_t spare_chunks_;  // of each worker
  const KeptMemory extra_;          // the store, then spare chunks
  ChunkMovers<Record> movers_;
  std::vector<PlacedPiece> pieces_;
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::array<Bucket, kMaxBuckets> buckets_;
  std::size_t store_end_ = 0;
};

}}}  // namespace vortex::v0::detail

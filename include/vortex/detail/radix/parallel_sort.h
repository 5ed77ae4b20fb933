// Radix sort of an array within its own memory, by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
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
#include "vortex/detail/radix/team_jobs.h"
#include "vortex/detail/radix/team_stripes.h"
#include "vortex/detail/radix/team_worker.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts ordinary memory as InPlaceSort does, to the same bytes, with a team of threads, in rounds.
// The first splits the array in four steps, each of which all threads share:
//   - Each thread distributes a stripe of the array to lists of its own, one for each bucket, and
//     then the rear of what others have left. Their chunks are those that it has read.
//   - Each bucket joins its lists: it plans for each chunk a place in the range of the array where
//     the bucket's result will be.
//   - The chunks move there (ChunkMovers).
//   - Threads take buckets, the largest first, and sort each within its range as a sort of one
//     thread does.
// A bucket that is so large that it would keep one thread busy when the others have ended waits for
// the next round. A round takes as many as there are threads for and gives each some of them
// (share_team), which split it in the same steps, or close it up where it is of one key.
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
        movers_(array, chunks_, static_cast<Record*>(extra_.get()), store_chunks_),
        stripes_(threads_) {
    const std::size_t nodes = Bounds::nodes(count, threads_), stripes = TeamStripes::most(threads_);
    nodes_ = std::make_unique_for_overwrite<ChunkNode<Record>[]>(threads_ * nodes);
    chains_ = std::make_unique_for_overwrite<Chain[]>(stripes * kMaxBuckets);
    movers_.reserve();
    pieces_.reserve(Bounds::most_pieces(count, threads_));
    lists_.reserve(stripes);
    const std::size_t apart = Bounds::most_apart(threads_), shared = Bounds::most_shared(threads_);
    jobs_.reserve(apart);
    shared_.reserve(shared);
    buckets_.reserve(kMaxBuckets * shared);
    tasks_.reserve(kMaxBuckets * shared + apart);
    blocks_.resize(Bounds::most_blocks(threads_));
    std::iota(blocks_.begin(), blocks_.end(), std::size_t{0});
    workers_.reserve(threads_);
    for (unsigned i = 0; i < threads_; ++i) {
      workers_.push_back(std::make_unique<Worker>(
          rules, codec, movers_.at(movers_.store(store_chunks_ + i * spare_chunks_)),
          spare_chunks_));
      workers_.back()->arena.reserve_in(nodes_.get(), i * nodes,
                                        Bounds::most_in_arena(count, threads_),
                                        Bounds::outside(threads_));
    }
  }
  ParallelSort(const ParallelSort&) = delete;
  ParallelSort& operator=(const ParallelSort&) = delete;

  // The bytes that a sort takes besides the array, for each thread and together.
  static std::size_t working_bytes(std::size_t count, unsigned threads) noexcept {
    return Bounds::working_bytes(count, threads, Worker::kBytes);
  }

  // Returns how many rounds the team has made.
  std::size_t sort() noexcept {
    std::size_t rounds = 0;
    stripes_.start(chunks_);
    jobs_.push_back({0, 0, 0, count_, {}, Sorter::Spread::kUnknown, 0, 0});
    for (; !jobs_.empty(); ++rounds) {
      share_team(jobs_, Bounds::most_alone(count_, threads_), threads_);
      round();
    }
    return rounds;
  }

 private:
  static constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
  static constexpr std::size_t kChunkBytes = ChunkLayout<Record>::kChunkBytes;
  using Places = ChunkMovers<Record>;
  using PlacedPiece = typename Places::PlacedPiece;
  using Bounds = TeamBounds<Record, Sorter>;
  using Job = TeamJob<Bits, typename Sorter::Spread>;
  using Worker = TeamWorker<Record, KeyOf, Codec>;
  using Shared = typename Worker::Shared;
  using Bucket = typename Worker::Bucket;
  Chain* lists_of(std::size_t index) const noexcept { return &chains_[index * kMaxBuckets]; }

  // The pieces of a job, in order.
  struct PieceCursor {
    const Record* data() const noexcept { return sort->movers_.at(piece->place); }
    std::size_t size() const noexcept { return piece->count; }
    void advance() noexcept { ++piece; }
    const ParallelSort* sort;
    const PlacedPiece* piece;
  };

  auto pieces() const noexcept {
    return [this](std::size_t index) -> Piece<Record> {
      return {movers_.at(pieces_[index].place), pieces_[index].count};
    };
  }
  std::span<const std::unique_ptr<Worker>> workers_of(const Shared& shared) const noexcept {
    return {workers_.data() + shared.first_worker, shared.job.threads};
  }
  // Room for the chunks that a worker takes, while it has no lists.
  Record* spare_of(std::size_t worker) const noexcept {
    return movers_.at(movers_.store(store_chunks_ + worker * spare_chunks_));
  }

  void round() noexcept {
    start_round();
    for_workers([&](Worker& worker, std::size_t i) {
      const Shared& shared = *worker.shared;
      if (!shared.closes_up()) return worker.share_pieces(pieces());
      if (!kBareKeys<KeyOf> && worker.part < shared.closing.segments)
        movers_.keep(shared.closing, worker.part, spare_of(i));
    });
    run(shared_.size(), [&](std::size_t i) {
      if (!shared_[i].closes_up()) split(shared_[i]);
    });
    keep_pieces_that_wait();
    for_workers([&](Worker& worker, std::size_t i) {
      const Shared& shared = *worker.shared;
      if (!shared.closes_up()) return distribute(worker, i);
      if (!kBareKeys<KeyOf> && worker.part < shared.closing.segments)
        movers_.move(shared.closing, worker.part, spare_of(i));
    });
    plan();
    const std::size_t made = buckets_.size();
    run(made + shared_.size(), [&](std::size_t i) {
      if (i < made) return join(buckets_[i]);
      const Shared& shared = shared_[i - made];
      if (!kBareKeys<KeyOf> && shared.closes_up()) movers_.finish(shared.closing);
    });
    run(made + threads_, [&](std::size_t i) {
      if (i >= made) return workers_[i - made]->complete(array_, codec_);
      const Bucket& to = buckets_[i];
      note_moved(movers_.move_along_paths(to.slots, to.slots_end) +
                 movers_.move_along_paths(movers_.store(to.store),
                                          movers_.store(to.store + in_store(to))));
    });
    const std::size_t cycles = made == 0 ? 0 : movers_.find_cycles();
    if (cycles != 0) {
      run(threads_, [&](std::size_t part) {
        note_moved(movers_.move_along_cycles(cycles * part / threads_,
                                             cycles * (part + 1) / threads_,
                                             workers_[part]->sorter.workspace()));
      });
    }
    sort_buckets();
  }

  void distribute(Worker& worker, std::size_t index) noexcept {
    if (worker.shared->job.level != 0) return worker.distribute(lists_of(index));
    worker.distribute_stripes(array_, count_, stripes_, codec_, chains_.get());
  }

  // A codec may count the chunks that each thread moves.
  void note_moved(std::size_t chunks) const noexcept {
    if constexpr (requires { codec_.moved(chunks); }) codec_.moved(chunks);
  }

  // Gives the jobs of the round their workers.
  void start_round() noexcept {
    shared_.clear();
    std::size_t given = 0;
    for (const auto& worker : workers_) worker->shared = nullptr;
    for (const Job& job : jobs_) {
      if (job.alone || job.threads == 0) continue;
      shared_.push_back({job, given, job.range, {}, {}, {}});
      Shared& shared = shared_.back();
      for (std::size_t i = 0; i < job.threads; ++i) {
        workers_[given + i]->shared = &shared;
        workers_[given + i]->part = i;
      }
      given += job.threads;
      if (!kBareKeys<KeyOf> && shared.closes_up()) {
        shared.closing = movers_.close_up({pieces_.data() + job.first_piece, job.pieces}, job.begin,
                                          job.threads, spare_chunks_);
      }
    }
  }

  void split(Shared& shared) noexcept {
    const Job& job = shared.job;
    if (job.level > Sorter::kSampledLevels) {
      shared.range = KeyRange<Bits>::none();
      for (const auto& worker : workers_of(shared)) shared.range.widen(worker->held);
    }
    shared.split = workers_[shared.first_worker]->sorter.split(
        job.count, shared.range, job.spread, job.level, job.outer_lists,
        job.level == 0 ? Bounds::first_bits(threads_) : 1,
        [&](const auto& splitter, Bits* to, std::size_t most) noexcept {
          return job.level == 0 ? splitter.take(array_, count_, codec_, to, most)
                                : splitter.take(PieceCursor{this, &pieces_[job.first_piece]},
                                                job.count, to, most);
        });
  }

  // Removes those that are in chains now.
  void keep_pieces_that_wait() noexcept {
    std::size_t kept = 0;
    auto shared = shared_.begin();
    for (Job& job : jobs_) {
      const bool is_shared = !job.alone && job.threads != 0;
      Shared* const of = is_shared ? &*shared++ : nullptr;
      if (is_shared && !of->closes_up()) continue;
      std::copy_n(&pieces_[job.first_piece], job.pieces, &pieces_[kept]);
      job.first_piece = kept;
      if (is_shared) of->closing.pieces = {&pieces_[kept], job.pieces};
      kept += job.pieces;
    }
    pieces_.resize(kept);
  }

  // Where the buckets of the round go.
  void plan() noexcept {
    buckets_.clear();
    std::size_t piece = pieces_.size(), first = chunks_, last = 0;
    store_end_ = Bounds::most_blocks(threads_) * Bounds::block_chunks(threads_);
    lists_.clear();
    for (Shared& shared : shared_) {
      if (shared.closes_up()) continue;
      list_stripes(shared);
      std::size_t at = shared.job.begin;
      first = std::min(first, at / kChunk);
      last = std::max(last, std::min((at + shared.job.count) / kChunk + 1, chunks_));
      for (unsigned i = 0; i < shared.split.buckets; ++i) {
        buckets_.push_back(bucket_of(shared, i, at, piece));
        at += buckets_.back().job.count;
        piece += buckets_.back().job.pieces;
      }
    }
    pieces_.resize(piece);
    if (store_end_ > store_chunks_) [[unlikely]]
      broken_bound("vortex: a sort stores more chunks than it has room for: a bug in vortex\n");
    if (!buckets_.empty()) movers_.start(first, last, store_end_);
  }
  // Of the array in its order, or of the workers that share a job.
  void list_stripes(Shared& shared) noexcept {
    const std::size_t before = lists_.size();
    const bool all = shared.job.level == 0;
    const auto add = [this](std::size_t i) { lists_.push_back(lists_of(i)); };
    if (all) stripes_.for_each_made(add);
    for (std::size_t i = 0; !all && i < shared.job.threads; ++i) add(shared.first_worker + i);
    shared.lists = std::span<Chain* const>(lists_).subspan(before);
  }
  Bucket bucket_of(const Shared& shared, unsigned index, std::size_t begin,
                   std::size_t piece) noexcept {
    const Job& of = shared.job;
    Bucket bucket;
    bucket.shared = &shared;
    bucket.index = index;
    std::size_t count = 0, pieces = 0;
    for (const Chain* lists : shared.lists) {
      count += lists[index].count;
      pieces += (lists[index].count + kChunk - 1) / kChunk;
    }
    bucket.job = {piece,
                  pieces,
                  begin,
                  count,
                  range_of(shared.split, index, shared.range),
                  Sorter::spread_of(shared.split, index, count, of.count),
                  of.level + 1,
                  of.outer_lists + shared.split.buckets};
    bucket.slots = Worker::first_slot(bucket.job);
    bucket.slots_end = Worker::slots_end(bucket.job);
    bucket.apart = count > most_in_task_;
    if (bucket.apart) {
      if (blocks_.empty()) [[unlikely]]
        broken_bound("vortex: more buckets of a sort wait than it has room for: a bug in vortex\n");
      bucket.job.block = blocks_.back();
      blocks_.pop_back();
      bucket.store = bucket.job.block * Bounds::block_chunks(threads_);
    } else {
      bucket.store = store_end_;
      store_end_ += in_store(bucket);
    }
    return bucket;
  }
  // How many pieces of a bucket have no place in its range.
  std::size_t in_store(const Bucket& bucket) const noexcept {
    std::size_t full = 0;
    for (const Chain* lists : bucket.shared->lists) full += lists[bucket.index].count / kChunk;
    return bucket.job.pieces - std::min(full, bucket.slots_end - bucket.slots);
  }

  // Lists the bucket's pieces in order, with the places where they are to be. Chunks that are there
  // already may stay, unless the order of places is to be that of the records.
  void join(const Bucket& bucket) noexcept {
    const bool single = bucket.job.range.low == bucket.job.range.high;
    movers_.place(
        bucket, !(bucket.apart && single), pieces_.data() + bucket.job.first_piece, [&](auto body) {
          for (const Chain* lists : bucket.shared->lists)
            workers_.front()->arena.template for_each_chunk<false>(lists[bucket.index], body);
        });
  }

  // Sorts the buckets, but for those that wait, and the jobs that one thread sorts alone.
  void sort_buckets() noexcept {
    tasks_.clear();
    for (const Job& job : jobs_) {
      if (job.alone) tasks_.push_back(job);
      if (job.level != 0 && (job.alone || job.threads != 0)) blocks_.push_back(job.block);
    }
    std::erase_if(jobs_, [](const Job& job) { return job.alone || job.threads != 0; });
    for (const Bucket& bucket : buckets_) {
      if (bucket.job.count != 0) (bucket.apart ? jobs_ : tasks_).push_back(bucket.job);
    }
    std::sort(tasks_.begin(), tasks_.end(), [](const Job& a, const Job& b) {
      return a.count != b.count ? a.count > b.count : a.begin < b.begin;
    });
    std::atomic<std::size_t> next{0};
    run(std::min<std::size_t>(threads_, tasks_.size()), [&](std::size_t part) {
      for (std::size_t task; (task = next.fetch_add(1)) < tasks_.size();) {
        workers_[part]->sort(tasks_[task], array_, chunks_, pieces());
      }
    });
  }

  // Without the memory that a function object may need.
  template <typename Body>
  void run(std::size_t parts, const Body& body) noexcept {
    team_.run(parts, std::cref(body));
  }

  // Calls body(worker, its number) for those that share a job.
  template <typename Body>
  void for_workers(const Body& body) noexcept {
    run(threads_, [&](std::size_t i) {
      if (workers_[i]->shared != nullptr) body(*workers_[i], i);
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
  TeamStripes stripes_;
  std::unique_ptr<ChunkNode<Record>[]> nodes_;  // of all workers
  std::unique_ptr<Chain[]> chains_;             // of each stripe, one for each bucket
  std::vector<PlacedPiece> pieces_;
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::size_t> blocks_;  // of the store that are free
  // Of the round.
  std::vector<Shared> shared_;
  std::vector<Chain*> lists_;
  std::vector<Bucket> buckets_;
  std::vector<Job> tasks_;
  std::size_t store_end_ = 0;
};

}}}  // namespace vortex::v0::detail

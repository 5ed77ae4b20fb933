#include "sort/runs/run_formation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kPairAlignment = alignof(std::max_align_t);
// Blocks of a pool in which a range may be divided: another bucket takes one.
constexpr std::size_t kLeastToDivide = 4;

void touch(const std::byte* at) noexcept {
  static_cast<void>(*static_cast<const volatile std::byte*>(at));
}

// The pages that lie within a part of the heap.
void give_pages_back(std::byte* from, std::size_t bytes) noexcept {
  const auto page = static_cast<std::ptrdiff_t>(os::page_bytes());
  const auto address = reinterpret_cast<std::intptr_t>(from);
  const std::ptrdiff_t before = (page - address % page) % page;
  const std::ptrdiff_t whole = (static_cast<std::ptrdiff_t>(bytes) - before) / page * page;
  if (whole > 0) os::discard(from + before, static_cast<std::size_t>(whole));
}

}  // namespace

RunFormation::RunFormation(const RecordOrder& order, StreamPool& pool, RunFormationOptions options)
    : order_(order),
      pool_(pool),
      record_bytes_(order_.record_bytes()),
      scratch_memory_(std::make_unique_for_overwrite<std::byte[]>(checked(options).scratch_bytes)),
      scratch_(scratch_memory_.get(), options.scratch_bytes),
      threads_(std::max(options.threads, 1U)),
      batch_blocks_(std::max<std::size_t>(options.batch_blocks, 1)),
      emits_beside_(options.emits_beside) {
  make_ranges(options);
  if (ranges_->splitters().buckets() > 1) sample_capacity_ = sample_capacity();
  sampling_ = sample_capacity_ != 0;
}

// A bucket while it is sorted and appended, and half of one for the records that come meanwhile;
// of several threads each sorts one. Each is about twice as large as the average.
std::size_t RunFormationOptions::blocks_on_their_way(std::size_t pool_blocks) const noexcept {
  if (!emits_beside) return 0;
  const std::size_t sorted = partitioners_beside() > 1 ? 2 * (threads + 1) : threads + 1;
  const std::size_t most = threads >= kManyThreads ? pool_blocks / 4 : pool_blocks / 8;
  return std::clamp<std::size_t>(detail::units_for(sorted * pool_blocks, buckets), 1,
                                 std::max<std::size_t>(most, 1));
}

const RunFormationOptions& RunFormation::checked(const RunFormationOptions& options) const {
  if (options.buckets == 0 || options.buckets > RunFormationOptions::kMaxBuckets) {
    throw Error(EINVAL, "run formation with " + std::to_string(options.buckets) +
                            " buckets: it takes 1 to " +
                            std::to_string(RunFormationOptions::kMaxBuckets));
  }
  if (record_bytes_ > pool_.block_bytes()) {
    throw Error(EINVAL, "records of " + format_bytes(record_bytes_) + " in blocks of " +
                            format_bytes(pool_.block_bytes()) +
                            ": a block holds a record at least");
  }
  const std::size_t least = detail::least_sort_scratch_bytes(most_records());
  if (options.scratch_bytes < least) {
    throw Error(ENOMEM, "run formation in " +
                            format_bytes(pool_.block_count() * pool_.block_bytes()) +
                            " of records of " + format_bytes(record_bytes_) + ": a scratch of " +
                            format_bytes(options.scratch_bytes) + ", it takes " +
                            format_bytes(least) + " at least");
  }
  return options;
}

unsigned RunFormation::buckets_in(const RunFormationOptions& options) const noexcept {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(pool_.block_count() / 4, 1, options.buckets));
}

// The end of the scratch keeps whole splitters, where they are needed and not too large.
void RunFormation::make_ranges(const RunFormationOptions& options) {
  RunFormationOptions fitting = options;
  fitting.buckets = buckets_in(options);
  first_buckets_ = fitting.buckets;
  const std::size_t blocks = pool_.block_count();
  most_open_ = blocks < kLeastToDivide ? fitting.buckets : fitting.most_open();
  records_to_emit_ = 2 * most_records();
  const std::size_t kept = detail::BucketSplitters::kept_bytes(order_, most_open_);
  if (BucketBuffer::suits(record_bytes_)) {
    buffers_ = std::make_unique_for_overwrite<BucketBuffer[]>(most_open_);
  }
  if (options.partition_threads > 1 && most_open_ > 1) {
    partitioners_.emplace(order_, most_open_, options.partition_threads,
                          options.partitioners_beside());
  }
  const bool fits = kept <= scratch_.size() / 8 &&
                    scratch_.size() - kept >= detail::least_sort_scratch_bytes(most_records());
  kept_bytes_ = fits ? kept : 0;
  KeyRanges::Options ranges{.ranges = fitting.buckets,
                            .most_ranges = most_open_,
                            .most_closed = fitting.most_closed(),
                            .most_run_bytes = options.most_run_bytes,
                            .divides_open = !options.fits,
                            .may_fall = options.may_fall};
  ranges.most_blocks = blocks - std::min(blocks - 1, fitting.blocks_on_their_way(blocks));
  if (partitioners_) ranges.batch_bytes = batch_blocks_ * pool_.block_bytes();
  ranges_.emplace(order_, pool_, ranges, scratch_.last(kept_bytes_), buffers_.get());
}

std::span<std::byte> RunFormation::sort_scratch() const noexcept {
  return scratch_.first(scratch_.size() - kept_bytes_ - set_aside_bytes_);
}

// How many of the first records are kept aside in the scratch, which also holds two pairs for each
// of them and one record more. With those and a partly filled block for each bucket the pool is at
// most half full.
std::size_t RunFormation::sample_capacity() const noexcept {
  const std::size_t room = sort_scratch().size();
  if (room < kPairAlignment + record_bytes_) return 0;
  return std::min({64 * ranges_->splitters().buckets(),
                   (room - kPairAlignment - record_bytes_) / (record_bytes_ + 2 * sizeof(Pair64)),
                   pool_.block_count() / 4 * pool_.block_bytes() / record_bytes_});
}

std::size_t RunFormation::push(const std::byte* records, std::size_t count, Readers readers) {
  std::size_t taken = 0;
  is_full_ = false;
  if (sampling_) {
    taken = std::min(count, sample_capacity_ - records_);
    // One at a time: memcpy(3) of several blocks goes back to those that the stream has left.
    for (std::size_t i = 0; i < taken; ++i) {
      std::memcpy(scratch_.data() + (records_ + i) * record_bytes_, records + i * record_bytes_,
                  record_bytes_);
    }
    records_ += taken;
    if (records_ < sample_capacity_) return taken;
    distribute_sample();
  }
  while (ranges_->look() && taken < count) {
    const std::size_t some = std::min(count - taken, ranges_->records_to_look());
    const std::byte* const from = records + taken * record_bytes_;
    const std::size_t put = put_to_buckets(from, some, readers);
    // What lies in front of a record that was refused may be gone.
    ranges_->added(put, put < some ? nullptr : from + (put - 1) * record_bytes_);
    records_ += put;
    taken += put;
    is_full_ = put < some && ranges_->buckets().blocks_left() == 0;
    if (put < some) break;
  }
  return taken;
}

// Returns how many there was memory for.
std::size_t RunFormation::put_to_buckets(const std::byte* records, std::size_t count,
                                         Readers readers) {
  const auto scatter = [&](const std::byte* from, std::size_t some) {
    return order_.scatter(from, some, ranges_->splitters(), ranges_->buckets());
  };
  std::size_t put = 0;
  if (!partitioners_ || readers == Readers::kOne) {
    put = scatter(records, count);
  } else {
    while (put < count) {
      const std::byte* const first = records + put * record_bytes_;
      const std::size_t bytes = batch_blocks_ * pool_.block_bytes() - within_block(first);
      const std::size_t some = std::min(
          {detail::units_for(bytes, record_bytes_), count - put, Partitioners::kMostRecords});
      const std::size_t taken = put_together(first, some) ? some : scatter(first, some);
      put += taken;
      if (taken < some) break;
    }
  }
  detail::finish_streaming();  // the next records may come from another thread
  return put;
}

// Records of one batch by all partitioners. False: they are too few, or too many for the memory.
bool RunFormation::put_together(const std::byte* records, std::size_t count) {
  const std::size_t bytes = count * record_bytes_;
  const bool beside = closed() != 0;
  if (bytes < partitioners_->least_bytes(beside)) return false;
  // A fault that fails, or that lets go of a block before, does so here.
  for (std::size_t at = 0; at < bytes;) {
    touch(records + at);
    at += pool_.block_bytes() - within_block(records + at);
  }
  touch(records + bytes - 1);
  return partitioners_->put(records, count, ranges_->splitters(), ranges_->buckets(), beside);
}

// The first splitters, and the records that were kept aside to their buckets.
void RunFormation::distribute_sample() {
  sampling_ = false;
  // There are two pairs for each record, so that records stay where they are.
  ranges_->choose(scratch_.data(), records_, sort_scratch().subspan(records_ * record_bytes_));
  std::size_t put = 0;
  guarded([&] {
    put = order_.scatter(scratch_.data(), records_, ranges_->splitters(), ranges_->buckets());
  }).throw_if_failed();
  if (put != records_) {
    throw Error(EAGAIN, "run formation: its pool is used by others, too");
  }
}

bool RunFormation::close_one(bool more) {
  settle();
  if (records_ == 0 || !ranges_->buckets().can_close()) return false;
  is_full_ = false;
  for (bool is_closed = false; !is_closed;) {
    Closed next{.closed = ranges_->close_next(more)};
    const ClosedBucket& bucket = next.closed.bucket;
    is_closed = bucket.stream != nullptr;
    if (is_closed) {
      records_ -= bucket.bytes / record_bytes_;
      ++closed_;
    }
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(next));
    }
    closing_.notify();
  }
  return true;
}

void RunFormation::end() {
  {
    const std::lock_guard lock(mutex_);
    if (ranges_->run_is_open()) queue_.push_back({.closed = {.bucket = {}, .ends_run = true}});
    ranges_->end_run();
    ended_ = true;
  }
  closing_.notify();
}

void RunFormation::give_up() noexcept {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  closing_.notify();
}

bool RunFormation::await_closed() {
  for (;;) {
    std::uint32_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      if (given_up_) return false;
      if (!queue_.empty() || !emitting_.empty()) return true;
      if (ended_) return false;
      ticket = closing_.ticket();
    }
    const Waiting waiting;
    closing_.await(ticket);
  }
}

void RunFormation::take_closed() {
  const std::lock_guard lock(mutex_);
  for (; !queue_.empty(); queue_.pop_front()) emitting_.push_back(std::move(queue_.front()));
}

// In their order, as far as the sorters take them, and the run wants them.
void RunFormation::hand_over(const SortedOutput* wanted) {
  if (!sorters_) {
    sorters_.emplace(order_, records_to_emit_, first_buckets_, threads_, sort_scratch());
  }
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t left = wanted == nullptr ? kAll : wanted->left();
  for (Closed& next : emitting_) {
    const ClosedBucket& bucket = next.closed.bucket;
    const std::size_t count = bucket.bytes / record_bytes_;
    if (bucket.stream != nullptr && !next.is_handed_over) {
      if (left == 0 || !sorters_->hand_over({bucket.begin(), count})) break;
      next.is_handed_over = true;
    }
    left = next.closed.ends_run ? kAll : left - std::min<std::uint64_t>(left, count);
  }
}

// The sort of a bucket that is too large for the scratch allocates: as much of the scratch is given
// to the system before, and for good, since what is freed may stay with the process.
void RunFormation::set_memory_aside(std::size_t records) {
  const auto in_scratch = order_.scratch_to_sort_in_place(records);
  if (!in_scratch || *in_scratch <= sort_scratch().size()) return;
  const std::size_t all = sort_scratch().size() + set_aside_bytes_;
  const std::size_t left = detail::least_sort_scratch_bytes(most_records());
  const auto fits = [&](unsigned threads) {
    const auto bytes = order_.bytes_to_sort_large_bucket(records, threads);
    return bytes && *bytes <= all / 4 * 3 && all - *bytes >= left;
  };
  const unsigned threads = detail::threads_that_fit(threads_, fits);
  if ((threads_for_large_ = fits(threads) ? threads : 0) == 0) return;
  const std::size_t bytes = *order_.bytes_to_sort_large_bucket(records, threads);
  if (bytes <= set_aside_bytes_) return;
  sorters_.reset();  // which have parts of the scratch
  set_aside_bytes_ = bytes;
  give_pages_back(sort_scratch().data() + sort_scratch().size(), bytes);
}

bool RunFormation::sort_where_it_is(const ClosedBucket& bucket) noexcept {
  const std::size_t count = bucket.bytes / record_bytes_;
  const auto in_scratch = order_.scratch_to_sort_in_place(count);
  if (threads_for_large_ == 0 || !in_scratch || *in_scratch <= sort_scratch().size()) return false;
  const WorkSpan span(SpanKind::kSort);
  return order_.sort_large_bucket(bucket.begin(), count, threads_for_large_);
}

// Reading gives the memory back block by block, as the next records take it (section 5.3 of the
// Vortex paper).
void RunFormation::emit_in_order(const ClosedBucket& bucket, RecordOutput& out) {
  const WorkSpan span(SpanKind::kCopy);
  RunBuckets::seal(bucket);
  const std::byte* const records = bucket.begin();
  const std::size_t block = pool_.block_bytes();
  for (std::size_t done = 0; done < bucket.bytes;) {
    const std::size_t some = std::min(block / record_bytes_ * record_bytes_, bucket.bytes - done);
    // A copy might touch the end of a block first, and the block before would stay.
    const std::size_t border = detail::round_up(done, block);
    if (border < done + some) touch(records + border);
    append_records(out, records + done, some / record_bytes_, record_bytes_);
    done += some;
    room_.notify();
  }
}

void RunFormation::append(const Closed& closed, RecordOutput& out) {
  const ClosedBucket& bucket = closed.closed.bucket;
  const std::size_t count = bucket.bytes / record_bytes_;
  if (closed.is_handed_over) {
    const bool is_passed_on = sorters_->copies() || !sorters_->in_order();
    return is_passed_on ? sorters_->pass_on(out) : emit_in_order(bucket, out);
  }
  set_memory_aside(count);
  if (sort_where_it_is(bucket)) return emit_in_order(bucket, out);
  // What sorters allocate takes the place of the scratch, and what their threads keep goes first.
  const bool may_allocate = threads_ > 1 && order_.bytes_to_sort_large_bucket(count, 1);
  if (sorters_ && sorters_->allocates()) sorters_.reset();
  const WorkSpan span(SpanKind::kSort);
  order_.sort_bucket(bucket.begin(), count, sort_scratch(), out);
  if (may_allocate) give_pages_back(sort_scratch().data(), sort_scratch().size());
}

bool RunFormation::emit_next(RecordOutput& out, const SortedOutput* wanted) {
  const bool is_wanted = wanted == nullptr || !wanted->full();
  take_closed();
  hand_over(wanted);
  Closed& next = emitting_.front();
  if (next.closed.bucket.stream != nullptr) {
    if (next.is_handed_over) sorters_->await();
    if (is_wanted) append(next, out);
    if (next.is_handed_over) sorters_->done_with_it();
    ranges_->buckets().take_back(std::move(next.closed.bucket));
    --closed_;
    room_.notify();
  }
  const bool ends_run = next.closed.ends_run;
  emitting_.pop_front();
  return ends_run;
}

void RunFormation::emit(RecordOutput& out, const SortedOutput* wanted) {
  settle();
  records_to_emit_ = records_;
  for (; records_ != 0 || closed() != 0; emit_next(out, wanted)) {
    while (records_ != 0 && close_one(false)) {
    }
  }
  ranges_->end_run();
  sorters_.reset();
}

void make_run_formation(std::optional<RunFormation>& formation, const RecordOrder& order,
                        StreamPool& pool, RunFormationOptions options) {
  for (;;) {
    try {
      formation.emplace(order, pool, options);
      return;
    } catch (const Error& error) {
      if (error.code().value() != ENOMEM) throw;
      if (options.buckets <= 2) throw;
      options.buckets /= 2;
    }
  }
}

}}  // namespace vortex::v0

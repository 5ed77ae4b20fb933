#include "sort/runs/run_formation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "vortex/detail/merge/record_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kPairAlignment = alignof(std::max_align_t);

// Passes records on and chooses the next splitters among them.
class ChoosingOutput final : public RecordOutput {
 public:
  ChoosingOutput(RecordOutput& out, detail::BucketSplitters& splitters, std::size_t record_bytes)
      : out_(out), splitters_(splitters), record_bytes_(record_bytes) {}

  std::span<std::byte> room(std::size_t most_bytes) override {
    room_ = out_.room(most_bytes);
    return room_;
  }
  void written(std::size_t bytes) override {
    splitters_.note(room_.data(), bytes / record_bytes_);
    out_.written(bytes);
  }

 private:
  RecordOutput& out_;
  detail::BucketSplitters& splitters_;
  const std::size_t record_bytes_;
  std::span<std::byte> room_;
};

// The pages that lie within a part of the heap.
void give_pages_back(std::byte* from, std::size_t bytes) noexcept {
  const auto page = static_cast<std::ptrdiff_t>(os::page_bytes());
  const auto address = reinterpret_cast<std::intptr_t>(from);
  const std::ptrdiff_t before = (page - address % page) % page;
  const std::ptrdiff_t whole = (static_cast<std::ptrdiff_t>(bytes) - before) / page * page;
  if (whole > 0) os::discard(from + before, static_cast<std::size_t>(whole));
}

// Forgets everything.
class Nowhere final : public RecordOutput {
 public:
  explicit Nowhere(std::span<std::byte> room_for_a_record) : room_(room_for_a_record) {}

  std::span<std::byte> room(std::size_t /*most_bytes*/) override { return room_; }
  void written(std::size_t /*bytes*/) override {}

 private:
  std::span<std::byte> room_;
};

}  // namespace

RunFormation::RunFormation(const RecordOrder& order, StreamPool& pool, RunFormationOptions options)
    : order_(order),
      pool_(pool),
      record_bytes_(order_.record_bytes()),
      scratch_memory_(std::make_unique_for_overwrite<std::byte[]>(checked(options).scratch_bytes)),
      scratch_(scratch_memory_.get(), options.scratch_bytes),
      threads_(std::max(options.threads, 1U)) {
  make_generations(options);
  if (buckets() > 1) sample_capacity_ = sample_capacity();
  sampling_ = sample_capacity_ != 0;
}

const RunFormationOptions& RunFormation::checked(const RunFormationOptions& options) const {
  if (options.buckets == 0 || options.buckets > RunFormationOptions::kMaxBuckets) {
    throw Error(EINVAL, "run formation with " + std::to_string(options.buckets) +
                            " buckets: it takes 1 to " +
                            std::to_string(RunFormationOptions::kMaxBuckets));
  }
  if (options.generations != 1 && options.generations != 2) {
    throw Error(EINVAL, "run formation with " + std::to_string(options.generations) +
                            " generations of buckets: it takes 1 or 2");
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

std::uint64_t RunFormation::most_records() const noexcept {
  return pool_.block_count() * pool_.block_bytes() / record_bytes_;
}

unsigned RunFormation::buckets_in(const RunFormationOptions& options) const noexcept {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(pool_.block_count() / 4, 1, options.buckets));
}

// The end of the scratch keeps whole splitters, where they are needed and not too large.
void RunFormation::make_generations(const RunFormationOptions& options) {
  const unsigned buckets = buckets_in(options);
  const std::size_t each = detail::BucketSplitters::kept_bytes(order_, buckets);
  const std::size_t all = options.generations * each;
  if (BucketBuffer::suits(record_bytes_)) {
    buffers_ = std::make_unique_for_overwrite<BucketBuffer[]>(buckets);
  }
  if (options.partition_threads > 1 && buckets > 1) {
    partitioners_.emplace(order_, buckets, options.partition_threads);
  }
  const bool fits = all <= scratch_.size() / 8 &&
                    scratch_.size() - all >= detail::least_sort_scratch_bytes(most_records());
  kept_bytes_ = fits ? all : 0;
  for (unsigned i = 0; i < options.generations; ++i) {
    const std::span<std::byte> kept =
        fits ? scratch_.last(all - i * each).first(each) : std::span<std::byte>{};
    generations_.push_back(
        std::make_unique<Generation>(order_, pool_, buckets, kept, buffers_.get()));
  }
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
  return std::min({std::size_t{64} * buckets(),
                   (room - kPairAlignment - record_bytes_) / (record_bytes_ + 2 * sizeof(Pair64)),
                   pool_.block_count() / 4 * pool_.block_bytes() / record_bytes_});
}

std::size_t RunFormation::push(const std::byte* records, std::size_t count, Readers readers) {
  std::size_t taken = 0;
  if (sampling_) {
    std::uint64_t& kept = filling().records;
    taken = std::min(count, sample_capacity_ - kept);
    // One at a time: memcpy(3) of several blocks goes back to those that the stream has left.
    for (std::size_t i = 0; i < taken; ++i) {
      std::memcpy(scratch_.data() + (kept + i) * record_bytes_, records + i * record_bytes_,
                  record_bytes_);
    }
    kept += taken;
    if (kept < sample_capacity_) return taken;
    distribute_sample();
  }
  const std::size_t put = put_to_buckets(records + taken * record_bytes_, count - taken, readers);
  filling().records += put;
  return taken + put;
}

// Returns how many there was memory for.
std::size_t RunFormation::put_to_buckets(const std::byte* records, std::size_t count,
                                         Readers readers) {
  Generation& run = filling();
  const auto scatter = [&](const std::byte* from, std::size_t some) {
    return order_.scatter(from, some, run.splitters, run.buckets);
  };
  std::size_t put = 0;
  if (!partitioners_ || readers == Readers::kOne) {
    put = scatter(records, count);
  } else {
    while (put < count) {
      const std::byte* const first = records + put * record_bytes_;
      const std::size_t some = std::min(records_in_block(first), count - put);
      if (put_together(first, some)) {
        put += some;
        continue;
      }
      const std::size_t scattered = scatter(first, some);
      put += scattered;
      if (scattered < some) break;
    }
  }
  detail::finish_streaming();  // the next records may come from another thread
  return put;
}

// How many begin before the next multiple of the block size.
std::size_t RunFormation::records_in_block(const std::byte* first) const noexcept {
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(first) % pool_.block_bytes();
  return detail::units_for(pool_.block_bytes() - behind, record_bytes_);
}

// Records of one block by all partitioners. False: they are too few, or too many for the memory.
bool RunFormation::put_together(const std::byte* records, std::size_t count) {
  const std::size_t bytes = count * record_bytes_;
  if (bytes < Partitioners::kMinBytes) return false;
  // A fault that fails, or that lets go of the block before, does so here.
  static_cast<void>(*static_cast<const volatile std::byte*>(records));
  static_cast<void>(*static_cast<const volatile std::byte*>(records + bytes - 1));
  return partitioners_->put(records, count, filling().splitters, filling().buckets);
}

// The first splitters, and the records that were kept aside to their buckets.
void RunFormation::distribute_sample() {
  sampling_ = false;
  Generation& run = filling();
  const std::size_t count = run.records;
  const std::span<std::byte> rest = sort_scratch().subspan(count * record_bytes_);
  Nowhere nowhere(rest.last(record_bytes_));
  ChoosingOutput choosing(nowhere, run.splitters, record_bytes_);
  run.splitters.begin_choosing(count);
  // There are two pairs for each record, so that records stay where they are.
  order_.sort(scratch_.data(), count, rest.first(rest.size() - record_bytes_), choosing);
  run.splitters.end_choosing();
  std::size_t put = 0;
  guarded([&] {
    put = order_.scatter(scratch_.data(), count, run.splitters, run.buckets);
  }).throw_if_failed();
  if (put != count) {
    throw Error(EAGAIN, "run formation: its pool is used by others, too");
  }
}

void RunFormation::close() {
  if (sampling_) distribute_sample();
  filling().buckets.flush();
  emitting_ = std::exchange(filling_, filling_ ^ 1);
  // Emitting the first run finds splitters for the third. The second does with those of the first.
  if (!std::exchange(is_split_, true)) {
    filling().splitters.take_over(generations_[emitting_]->splitters);
  }
}

void RunFormation::emit_closed(RecordOutput& out, const SortedOutput* wanted) {
  emit_generation(*generations_[emitting_], out, wanted);
}

void RunFormation::settle() {
  if (sampling_ && records() != 0) distribute_sample();
}

void RunFormation::emit(RecordOutput& out, const SortedOutput* wanted) {
  settle();
  is_split_ = true;
  filling().buckets.flush();
  emit_generation(filling(), out, wanted);
}

void RunFormation::begin_sorting(const RunBuckets& buckets) {
  std::vector<BucketSorters::Bucket> unsorted(buckets.size());
  std::size_t most = 0;
  for (std::size_t i = 0; i < unsorted.size(); ++i) {
    unsorted[i] = {buckets.begin(i), buckets.bytes(i) / record_bytes_};
    most = std::max(most, unsorted[i].count);
  }
  set_memory_aside(most, threads_);
  sorters_.emplace(order_, std::move(unsorted), threads_, sort_scratch());
}

// The sort of a bucket that is too large for the scratch allocates: as much of the scratch is given
// to the system before, and for good, since what is freed may stay with the process.
void RunFormation::set_memory_aside(std::size_t most_records, unsigned threads) {
  const auto in_scratch = order_.scratch_to_sort_in_place(most_records);
  if (!in_scratch || *in_scratch <= sort_scratch().size()) return;
  const std::size_t all = sort_scratch().size() + set_aside_bytes_;
  for (unsigned some = threads; some > 0; --some) {
    const auto bytes = order_.bytes_to_sort_large_bucket(most_records, some);
    if (!bytes || *bytes > all / 4 * 3) continue;
    if (all - *bytes < detail::least_sort_scratch_bytes(most_records)) continue;
    threads_for_large_ = some;
    if (*bytes <= set_aside_bytes_) return;
    set_aside_bytes_ = *bytes;
    give_pages_back(sort_scratch().data() + sort_scratch().size(), *bytes);
    return;
  }
  threads_for_large_ = 0;
}

bool RunFormation::sort_where_it_is(std::byte* records, std::size_t count) noexcept {
  const auto in_scratch = order_.scratch_to_sort_in_place(count);
  if (threads_for_large_ == 0 || !in_scratch || *in_scratch <= sort_scratch().size()) return false;
  const WorkSpan span(SpanKind::kSort);
  return order_.sort_large_bucket(records, count, threads_for_large_);
}

// Reading gives the memory back block by block, as the next run takes it (section 5.3 of the Vortex
// paper).
void RunFormation::emit_in_order(RunBuckets& buckets, std::size_t bucket, RecordOutput& out) {
  buckets.seal(bucket);
  const std::byte* const records = buckets.begin(bucket);
  const std::size_t bytes = buckets.bytes(bucket);
  const std::size_t block = pool_.block_bytes();
  const std::size_t at_once = block / record_bytes_ * record_bytes_;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t some = std::min(at_once, bytes - done);
    // A copy might touch the end of a block first, and the block before would stay.
    const std::size_t border = detail::round_up(done, block);
    if (border < done + some) {
      static_cast<void>(*static_cast<const volatile std::byte*>(records + border));
    }
    append_records(out, records + done, some / record_bytes_, record_bytes_);
    room_.notify();
    done += some;
  }
}

void RunFormation::emit_bucket(RunBuckets& buckets, std::size_t bucket, RecordOutput& out) {
  std::byte* const records = buckets.begin(bucket);
  const std::size_t count = buckets.bytes(bucket) / record_bytes_;
  if (sorters_->next()) {
    sorters_->in_order() ? emit_in_order(buckets, bucket, out) : sorters_->pass_on(out);
  } else if (sort_where_it_is(records, count)) {
    emit_in_order(buckets, bucket, out);
  } else {
    const WorkSpan span(SpanKind::kSort);
    order_.sort_bucket(records, count, sort_scratch(), out);
  }
  sorters_->done_with_it();
}

// The next run gets what is wanted, for the most part: that is what its splitters are chosen among.
void RunFormation::emit_generation(Generation& run, RecordOutput& out, const SortedOutput* wanted) {
  if (run.records == 0) return;
  ChoosingOutput choosing(out, run.splitters, record_bytes_);
  run.splitters.begin_choosing(wanted == nullptr ? run.records : wanted->looked_at(run.records));
  begin_sorting(run.buckets);
  for (std::size_t i = 0; i < run.buckets.size(); ++i) {
    if (wanted != nullptr && wanted->full()) {
      sorters_.reset();  // which waits for buckets that are being sorted
    } else {
      emit_bucket(run.buckets, i, choosing);
    }
    run.buckets.clear(i);
    room_.notify();
  }
  sorters_.reset();
  run.splitters.end_choosing();
  run.records = 0;
}

void make_run_formation(std::optional<RunFormation>& formation, const RecordOrder& order,
                        StreamPool& pool, RunFormationOptions options) {
  for (;;) {
    try {
      formation.emplace(order, pool, options);
      return;
    } catch (const Error& error) {
      if (error.code().value() != ENOMEM) throw;
      if (options.generations == 2) {
        options.generations = 1;
      } else if (options.buckets > 2) {
        options.buckets /= 2;
      } else {
        throw;
      }
    }
  }
}

}}  // namespace vortex::v0

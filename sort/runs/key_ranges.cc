#include "sort/runs/key_ranges.h"

#include <algorithm>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// Chooses splitters among sorted records, which it forgets.
class ChoosingOutput final : public RecordOutput {
 public:
  ChoosingOutput(detail::BucketSplitters& splitters, std::span<std::byte> room_for_a_record)
      : splitters_(splitters), room_(room_for_a_record) {}

  std::span<std::byte> room(std::size_t /*most_bytes*/) override { return room_; }
  void written(std::size_t bytes) override { splitters_.note(room_.data(), bytes / room_.size()); }

 private:
  detail::BucketSplitters& splitters_;
  std::span<std::byte> room_;
};

}  // namespace

KeyRanges::KeyRanges(const RecordOrder& order, StreamPool& pool, const Options& options,
                     std::span<std::byte> kept_records, BucketBuffer* buffers)
    : order_(order),
      less_{order},
      pool_(pool),
      has_few_blocks_(pool.block_count() < kFewBlocks),
      first_ranges_(options.ranges),
      most_run_bytes_(options.most_run_bytes),
      batch_bytes_(options.batch_bytes),
      divides_open_(options.divides_open),
      may_fall_(options.may_fall && !has_few_blocks_),
      half_bytes_(pool.block_count() / 2 * pool.block_bytes()),
      splitters_(order, options.ranges, options.most_ranges, kept_records),
      buckets_(pool,
               {.open = options.most_ranges,
                .closed = options.most_closed,
                .blocks = options.most_blocks},
               order.record_bytes(), buffers),
      trend_(order, half_bytes_ / order.record_bytes() * 2),
      fair_bytes_(
          std::max(std::min(4 * half_bytes_ / options.ranges, half_bytes_), pool.block_bytes())) {
  ranges_.reserve(options.most_ranges);
  ranges_.resize(options.ranges);
}

void KeyRanges::choose(std::byte* records, std::size_t count, std::span<std::byte> scratch) {
  const std::size_t record_bytes = order_.record_bytes();
  ChoosingOutput choosing(splitters_, scratch.last(record_bytes));
  splitters_.begin_choosing(count);
  order_.sort(records, count, scratch.first(scratch.size() - record_bytes), choosing);
  splitters_.end_choosing();
  ranges_.assign(splitters_.buckets(), {});
}

void KeyRanges::end_run() noexcept {
  frontier_ = 0;
  run_bytes_ = 0;
  falls_ = false;
}

bool KeyRanges::run_is_full() const noexcept {
  return run_bytes_ != 0 && run_bytes_ + buckets_.bytes(next_of_run()) > most_run_bytes_;
}

// A bucket may stay where it is until all of its records have been copied.
KeyRanges::Rest KeyRanges::rest() const noexcept {
  Rest rest{.runs = runs_, .joins_run = run_is_open()};
  std::size_t most = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const std::size_t bytes = buckets_.bytes(i);
    rest.bytes += bytes;
    most = std::max(most, buckets_.blocks(i));
    if (bytes != 0 && (i < frontier_) != falls_) rest.joins_run = false;
  }
  rest.blocks = buckets_.blocks() + most;
  return rest;
}

// While a run goes on, a bucket gains as much again as it has on average now. A run that falls may
// end behind any range, so that none may have records that are equal to some of the next one.
void KeyRanges::begin_run(bool more) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) bytes += buckets_.bytes(i);
  fair_bytes_ = std::max(std::min(2 * (bytes / first_ranges_), half_bytes_), pool_.block_bytes());
  falls_ = more && may_fall_ && trend_.falls() && std::ranges::none_of(ranges_, &Range::has_border);
  frontier_ = falls_ ? ranges_.size() : 0;
}

KeyRanges::Closed KeyRanges::close_next(bool more) {
  for (;;) {
    if (!run_is_open()) begin_run(more);
    while (!run_is_over() && buckets_.bytes(next_of_run()) == 0) pass_empty();
    if (!run_is_over() && !run_is_full()) break;
    const bool ended = run_is_open();
    end_run();
    if (ended) return {.bucket = {}, .ends_run = true};
  }
  const std::size_t range = next_of_run();
  ranges_[range].seen_bytes = 0;
  ranges_[range].has_border = false;
  Closed closed{.bucket = close(range), .falls = falls_};
  frontier_ = falls_ ? range : range + 1;
  if (!run_is_open()) ++runs_;
  run_bytes_ += closed.bucket.bytes;
  const bool stays = more && run_is_over() && leave_open(closed.bucket);
  if (stays) {
    frontier_ = range;
  } else {
    adapt(closed.bucket);
  }
  closed.ends_run = run_is_over();
  if (closed.ends_run) end_run();
  return closed;
}

void KeyRanges::pass_empty() {
  const std::size_t range = next_of_run();
  buckets_.clear(range);
  ranges_[range].has_border = false;
  frontier_ = falls_ ? range : range + 1;
  join_with_neighbour(0);
}

// The last range of a run: what is not less than all that it had may still join the run, or, where
// that falls, what is less. Little of that comes where the range had little, too. Returns whether
// nothing else can come into the range.
bool KeyRanges::leave_open(const ClosedBucket& bucket) {
  using Place = detail::BucketSplitters::Place;
  if (bucket.bytes < fair_bytes_ / 2) return false;
  if (has_few_blocks_) {
    Sample all;
    const std::span<Border> sample = sample_of({bucket.begin(), bucket.bytes}, all);
    if (!std::ranges::is_sorted(sample, less_) && !latest_of(sample).are_great) return false;
  }
  const std::size_t count = bucket.bytes / order_.record_bytes();
  const std::byte* const end = falls_ ? order_.least_in_bucket(bucket.begin(), count)
                                      : order_.greatest_in_bucket(bucket.begin(), count);
  const Border border{order_.leading_bits_in_bucket(end), end};
  if (!falls_ && splitters_.is_least(closed_last(), border)) return true;
  if (!splitters_.has_room() && !make_room(kNoRange)) return false;
  const std::size_t range = closed_last();
  if (splitters_.divide(range, border, falls_ ? Place::kBelow : Place::kExact)) {
    insert(falls_ ? range : range + 1);
    if (falls_) ++frontier_;
  }
  return false;
}

void KeyRanges::adapt(const ClosedBucket& bucket) {
  if (buckets_.bytes(closed_last()) != 0) return;  // it was joined with its neighbour
  ranges_[closed_last()].closed_bytes = bucket.bytes;
  if (bucket.bytes > fair_bytes_ / 2 * 3) {
    divide(bucket, (bucket.bytes + fair_bytes_ / 2) / fair_bytes_);
  } else {
    join_with_neighbour(bucket.bytes);
  }
}

// The range that was closed last, whose bucket is empty. It becomes several, by a sample of what
// the closed one has.
void KeyRanges::divide(const ClosedBucket& bucket, std::size_t parts) {
  constexpr std::size_t kSampledForPart = 32;
  const std::size_t record_bytes = order_.record_bytes();
  const std::size_t count = bucket.bytes / record_bytes;
  parts = std::min<std::size_t>(parts, first_ranges_);
  std::vector<Border> sample(std::min(count, parts * kSampledForPart));
  std::uint64_t random = count;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const std::size_t stride = count / sample.size();
    const std::byte* const record =
        bucket.begin() + (i * stride + (random >> 33) % stride) * record_bytes;
    sample[i] = {order_.leading_bits_in_bucket(record), record};
  }
  std::sort(sample.begin(), sample.end(), less_);
  for (std::size_t i = 1; i < parts; ++i) {
    if (!splitters_.has_room() && !make_room(closed_last())) return;
    const std::size_t range = closed_last();
    const Border& border = sample[sample.size() * (falls_ ? parts - i : i) / parts];
    if (!splitters_.divide(range, border, detail::BucketSplitters::Place::kRounded)) continue;
    insert(range + 1);
    if (!falls_) ++frontier_;
    ranges_[range].closed_bytes = ranges_[range + 1].closed_bytes = bucket.bytes / parts;
  }
}

// The range that was closed last, whose bucket is empty, and of which `bytes` were closed, with the
// one that was closed before.
void KeyRanges::join_with_neighbour(std::size_t bytes) {
  const std::size_t range = closed_last();
  if (falls_ ? range + 1 == ranges_.size() : range == 0) return;
  const std::size_t other = falls_ ? range + 1 : range - 1;
  const std::size_t before = std::max(ranges_[other].closed_bytes, buckets_.bytes(other));
  const std::size_t both = before + bytes;
  const bool are_small = both < fair_bytes_ / 4 * 3;
  const bool is_tiny = std::min(before, bytes) < fair_bytes_ / 4 && both < fair_bytes_ / 2 * 3;
  if (!are_small && !is_tiny) return;
  splitters_.join(std::min(range, other));
  remove(range);
  if (!falls_) --frontier_;
  ranges_[closed_last()].closed_bytes = both;
}

}}  // namespace vortex::v0

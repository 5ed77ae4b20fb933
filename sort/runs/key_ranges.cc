#include "sort/runs/key_ranges.h"

#include <algorithm>
#include <utility>

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
      first_ranges_(options.ranges),
      most_run_bytes_(options.most_run_bytes),
      splitters_(order, options.ranges, options.most_ranges, kept_records),
      buckets_(pool, options.most_ranges, options.most_closed, order.record_bytes(), buffers),
      closed_bytes_(options.most_ranges) {}

void KeyRanges::choose(std::byte* records, std::size_t count, std::span<std::byte> scratch) {
  const std::size_t record_bytes = order_.record_bytes();
  ChoosingOutput choosing(splitters_, scratch.last(record_bytes));
  splitters_.begin_choosing(count);
  order_.sort(records, count, scratch.first(scratch.size() - record_bytes), choosing);
  splitters_.end_choosing();
}

void KeyRanges::end_run() noexcept {
  frontier_ = 0;
  run_bytes_ = 0;
}

bool KeyRanges::run_is_full() const noexcept {
  return run_bytes_ != 0 && run_bytes_ + buckets_.bytes(frontier_) > most_run_bytes_;
}

// While a run goes on, a bucket gains as much again as it has on average now.
void KeyRanges::begin_run() noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < splitters_.buckets(); ++i) bytes += buckets_.bytes(i);
  fair_bytes_ = std::max<std::size_t>(2 * (bytes / first_ranges_), 1);
}

KeyRanges::Closed KeyRanges::close_next(bool more) {
  for (; frontier_ == splitters_.buckets() || run_is_full() || buckets_.bytes(frontier_) == 0;) {
    if (frontier_ == splitters_.buckets() || run_is_full()) {
      const bool ended = run_is_open();
      end_run();
      if (ended) return {.bucket = {}, .ends_run = true};
      continue;
    }
    buckets_.clear(frontier_++);
    join_with_one_before(0);
  }
  if (!run_is_open()) begin_run();
  Closed closed{.bucket = buckets_.close(frontier_++), .ends_run = false};
  run_bytes_ += closed.bucket.bytes;
  const bool stays = more && frontier_ == splitters_.buckets() && leave_open(closed.bucket);
  if (stays) {
    --frontier_;
  } else {
    adapt(closed.bucket);
  }
  closed.ends_run = frontier_ == splitters_.buckets();
  if (closed.ends_run) end_run();
  return closed;
}

// The last range of a run: what is not less than all that it had may still join the run. Little of
// that comes where the range had little, too. Returns whether nothing else can come into the range.
bool KeyRanges::leave_open(const ClosedBucket& bucket) {
  if (bucket.bytes < fair_bytes_ / 2) return false;
  const std::size_t count = bucket.bytes / order_.record_bytes();
  const std::byte* const greatest = order_.greatest_in_bucket(bucket.begin(), count);
  const detail::BucketSplitters::Border border{order_.leading_bits_in_bucket(greatest), greatest};
  if (splitters_.is_least(frontier_ - 1, border)) return true;
  if (!make_room()) return false;
  const std::size_t last = frontier_ - 1;
  if (splitters_.divide(last, border, detail::BucketSplitters::Place::kExact)) insert_behind(last);
  return false;
}

void KeyRanges::adapt(const ClosedBucket& bucket) {
  if (buckets_.bytes(frontier_ - 1) != 0) return;  // it was joined with one before
  closed_bytes_[frontier_ - 1] = bucket.bytes;
  if (bucket.bytes > fair_bytes_ / 2 * 3) {
    divide(bucket, (bucket.bytes + fair_bytes_ / 2) / fair_bytes_);
  } else {
    join_with_one_before(bucket.bytes);
  }
}

// The range before the frontier, whose bucket is empty. It becomes several, by a sample of what the
// closed one has.
void KeyRanges::divide(const ClosedBucket& bucket, std::size_t parts) {
  using Border = detail::BucketSplitters::Border;
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
  std::sort(sample.begin(), sample.end(), [&](const Border& a, const Border& b) {
    if (a.bits != b.bits || order_.leading_bits_decide()) return a.bits < b.bits;
    return order_.less(a.record, b.record);
  });
  for (std::size_t i = 1; i < parts && make_room(); ++i) {
    const std::size_t range = frontier_ - 1;
    const Border& border = sample[sample.size() * i / parts];
    if (!splitters_.divide(range, border, detail::BucketSplitters::Place::kRounded)) continue;
    insert_behind(range);
    ++frontier_;
    closed_bytes_[range] = closed_bytes_[range + 1] = bucket.bytes / parts;
  }
}

// The range before the frontier, whose bucket is empty, and of which `bytes` were closed.
void KeyRanges::join_with_one_before(std::size_t bytes) {
  if (frontier_ < 2) return;
  const std::size_t before = closed_bytes_[frontier_ - 2];
  const std::size_t both = before + bytes;
  const bool are_small = both < fair_bytes_ / 4 * 3;
  const bool is_tiny = std::min(before, bytes) < fair_bytes_ / 4 && both < fair_bytes_ / 2 * 3;
  if (!are_small && !is_tiny) return;
  splitters_.join(frontier_ - 2);
  remove(frontier_ - 1);
  --frontier_;
  closed_bytes_[frontier_ - 1] = both;
}

// Where there are as many ranges as may be, one whose bucket is empty goes to a neighbour that
// belongs to the same run.
bool KeyRanges::make_room() {
  if (splitters_.has_room()) return true;
  for (std::size_t range = 0; range + 1 < splitters_.buckets(); ++range) {
    if (range + 1 == frontier_) continue;
    const bool is_empty = buckets_.bytes(range) == 0;
    if (!is_empty && buckets_.bytes(range + 1) != 0) continue;
    splitters_.join(range);
    remove(is_empty ? range : range + 1);
    if (range + 1 < frontier_) --frontier_;
    return true;
  }
  return false;
}

void KeyRanges::insert_behind(std::size_t range) {
  const std::size_t used = splitters_.buckets() - 1;
  buckets_.insert(range + 1, used);
  closed_bytes_.insert(closed_bytes_.begin() + static_cast<std::ptrdiff_t>(range + 1), 0);
  closed_bytes_.pop_back();
}

void KeyRanges::remove(std::size_t range) {
  buckets_.remove(range, splitters_.buckets() + 1);
  closed_bytes_.erase(closed_bytes_.begin() + static_cast<std::ptrdiff_t>(range));
  closed_bytes_.push_back(0);
}

}}  // namespace vortex::v0

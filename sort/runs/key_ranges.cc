#include "sort/runs/key_ranges.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
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

constexpr std::size_t kNoRange = std::numeric_limits<std::size_t>::max();

}  // namespace

KeyRanges::KeyRanges(const RecordOrder& order, StreamPool& pool, const Options& options,
                     std::span<std::byte> kept_records, BucketBuffer* buffers)
    : order_(order),
      less_{order},
      pool_(pool),
      has_few_blocks_(pool.block_count() < kFewBlocks),
      first_ranges_(options.ranges),
      most_run_bytes_(options.most_run_bytes),
      divides_open_(options.divides_open),
      half_bytes_(pool.block_count() / 2 * pool.block_bytes()),
      splitters_(order, options.ranges, options.most_ranges, kept_records),
      buckets_(pool,
               {.open = options.most_ranges,
                .closed = options.most_closed,
                .blocks = options.most_blocks},
               order.record_bytes(), buffers),
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
}

bool KeyRanges::run_is_full() const noexcept {
  return run_bytes_ != 0 && run_bytes_ + buckets_.bytes(frontier_) > most_run_bytes_;
}

// While a run goes on, a bucket gains as much again as it has on average now.
void KeyRanges::begin_run() noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) bytes += buckets_.bytes(i);
  fair_bytes_ = std::max(std::min(2 * (bytes / first_ranges_), half_bytes_), pool_.block_bytes());
}

KeyRanges::Closed KeyRanges::close_next(bool more) {
  for (; frontier_ == ranges_.size() || run_is_full() || buckets_.bytes(frontier_) == 0;) {
    if (frontier_ == ranges_.size() || run_is_full()) {
      const bool ended = run_is_open();
      end_run();
      if (ended) return {.bucket = {}, .ends_run = true};
      continue;
    }
    buckets_.clear(frontier_++);
    join_with_one_before(0);
  }
  if (!run_is_open()) begin_run();
  ranges_[frontier_].seen_bytes = 0;
  Closed closed{.bucket = buckets_.close(frontier_++), .ends_run = false};
  run_bytes_ += closed.bucket.bytes;
  const bool stays = more && frontier_ == ranges_.size() && leave_open(closed.bucket);
  if (stays) {
    --frontier_;
  } else {
    adapt(closed.bucket);
  }
  closed.ends_run = frontier_ == ranges_.size();
  if (closed.ends_run) end_run();
  return closed;
}

// The last range of a run: what is not less than all that it had may still join the run. Little of
// that comes where the range had little, too. Returns whether nothing else can come into the range.
bool KeyRanges::leave_open(const ClosedBucket& bucket) {
  if (bucket.bytes < fair_bytes_ / 2) return false;
  if (has_few_blocks_) {
    Sample all;
    const std::span<Border> sample = sample_of({bucket.begin(), bucket.bytes}, all);
    if (!std::ranges::is_sorted(sample, less_) && !latest_of(sample).are_great) return false;
  }
  const std::size_t count = bucket.bytes / order_.record_bytes();
  const std::byte* const greatest = order_.greatest_in_bucket(bucket.begin(), count);
  const detail::BucketSplitters::Border border{order_.leading_bits_in_bucket(greatest), greatest};
  if (splitters_.is_least(frontier_ - 1, border)) return true;
  if (!splitters_.has_room() && !make_room(kNoRange)) return false;
  const std::size_t last = frontier_ - 1;
  if (splitters_.divide(last, border, detail::BucketSplitters::Place::kExact)) insert_behind(last);
  return false;
}

void KeyRanges::adapt(const ClosedBucket& bucket) {
  if (buckets_.bytes(frontier_ - 1) != 0) return;  // it was joined with one before
  ranges_[frontier_ - 1].closed_bytes = bucket.bytes;
  if (bucket.bytes > fair_bytes_ / 2 * 3) {
    divide(bucket, (bucket.bytes + fair_bytes_ / 2) / fair_bytes_);
  } else {
    join_with_one_before(bucket.bytes);
  }
}

// The range before the frontier, whose bucket is empty. It becomes several, by a sample of what the
// closed one has.
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
    if (!splitters_.has_room() && !make_room(frontier_ - 1)) return;
    const std::size_t range = frontier_ - 1;
    const Border& border = sample[sample.size() * i / parts];
    if (!splitters_.divide(range, border, detail::BucketSplitters::Place::kRounded)) continue;
    insert_behind(range);
    ++frontier_;
    ranges_[range].closed_bytes = ranges_[range + 1].closed_bytes = bucket.bytes / parts;
  }
}

// The range before the frontier, whose bucket is empty, and of which `bytes` were closed.
void KeyRanges::join_with_one_before(std::size_t bytes) {
  if (frontier_ < 2) return;
  const std::size_t before =
      std::max(ranges_[frontier_ - 2].closed_bytes, buckets_.bytes(frontier_ - 2));
  const std::size_t both = before + bytes;
  const bool are_small = both < fair_bytes_ / 4 * 3;
  const bool is_tiny = std::min(before, bytes) < fair_bytes_ / 4 && both < fair_bytes_ / 2 * 3;
  if (!are_small && !is_tiny) return;
  splitters_.join(frontier_ - 2);
  remove(frontier_ - 1);
  --frontier_;
  ranges_[frontier_ - 1].closed_bytes = both;
}

bool KeyRanges::Less::operator()(const Border& left, const Border& right) const noexcept {
  if (left.bits != right.bits || order.leading_bits_decide()) return left.bits < right.bits;
  return order.less(left.record, right.record);
}

std::size_t KeyRanges::bytes_to_look() const noexcept {
  return fair_bytes_ / 4 - std::min(unseen_bytes_, fair_bytes_ / 4);
}

bool KeyRanges::look() {
  if (bytes_to_look() != 0) return true;
  for (std::size_t range = 0; divides_open_ && range < ranges_.size();) {
    if (!is_large(range)) {
      ++range;
    } else if (splitters_.has_room()) {
      if (!divide_open(range)) return false;
    } else {
      const Room made = make_room_by_moving();
      if (made == Room::kLater) return false;
      if (made == Room::kNone) break;
      range = 0;  // which may have been moved
    }
  }
  unseen_bytes_ = 0;
  return true;
}

bool KeyRanges::is_large(std::size_t range) const noexcept {
  const std::size_t seen = ranges_[range].seen_bytes + fair_bytes_ / 2;
  return buckets_.bytes(range) > std::max(std::min(2 * fair_bytes_, half_bytes_), seen);
}

KeyRanges::Border KeyRanges::greatest_in(std::size_t range) const noexcept {
  Border greatest;
  for (const std::span<const std::byte> part : buckets_.parts(range)) {
    if (part.empty()) continue;
    const std::byte* const record =
        order_.greatest_in_bucket(part.data(), part.size() / order_.record_bytes());
    const Border here{order_.leading_bits_in_bucket(record), record};
    if (greatest.record == nullptr || !less_(here, greatest)) greatest = here;
  }
  return greatest;
}

// Some of these records, in the order in which they came.
std::span<KeyRanges::Border> KeyRanges::sample_of(std::span<const std::byte> records,
                                                  Sample& all) const noexcept {
  const std::size_t record_bytes = order_.record_bytes();
  const std::size_t count = records.size() / record_bytes;
  const std::span<Border> sample = std::span(all).first(std::min(count, all.size()));
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const std::byte* const record =
        records.data() + ((i + 1) * (count / sample.size()) - 1) * record_bytes;
    sample[i] = {order_.leading_bits_in_bucket(record), record};
  }
  return sample;
}

// The last quarter of a sample, which is put into another order.
KeyRanges::Latest KeyRanges::latest_of(std::span<Border> sample) const noexcept {
  const std::span<Border> last = sample.last((sample.size() + 3) / 4);
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
  std::nth_element(last.begin(), middle, last.end(), less_);
  const Border median = *middle;
  const auto below = static_cast<std::size_t>(
      std::ranges::count_if(sample, [&](const Border& one) { return less_(one, median); }));
  return {median, below < last.size(), below >= sample.size() / 4 * 3};
}

// Where records were moved, what is left may still be too large. False: not yet.
bool KeyRanges::divide_open(std::size_t range) {
  constexpr std::size_t kLeastSampled = 8, kBlocksBeside = 6;
  const std::size_t bytes = buckets_.bytes(range);
  Sample all;
  const std::span<Border> sample = sample_of(buckets_.parts(range)[0], all);
  bool moves = false;
  Latest latest;
  if (sample.size() >= kLeastSampled && !std::ranges::is_sorted(sample, less_)) {
    latest = latest_of(sample);
    const Room to_move = room(kBlocksBeside);
    moves = to_move != Room::kNone;
    // Where records descend, the range would be divided again and again; and where few are greater,
    // what is above takes a block for nothing.
    if (latest.are_small || (!moves && has_few_blocks_ && !latest.are_great)) {
      ranges_[range].seen_bytes = bytes;
      return true;
    }
    if (to_move == Room::kLater) return false;
  }
  ranges_[range].seen_bytes = bytes;
  using Place = detail::BucketSplitters::Place;
  const Border border = moves ? latest.median : greatest_in(range);
  if (!splitters_.divide(range, border, moves ? Place::kRounded : Place::kExact)) return true;
  insert_behind(range);
  if (range < frontier_) ++frontier_;
  if (!moves) return true;
  move_up(range);
  const bool is_divided = buckets_.bytes(range) != 0 && buckets_.bytes(range + 1) != 0;
  ranges_[range].seen_bytes = ranges_[range + 1].seen_bytes = is_divided ? 0 : bytes;
  return true;
}

// Puts the records of a range that was divided into its two parts, and gives back block by block
// what has been read.
void KeyRanges::move_up(std::size_t range) {
  const std::size_t record_bytes = order_.record_bytes();
  const std::size_t block = pool_.block_bytes();
  ClosedBucket all = buckets_.close(range);
  RunBuckets::seal(all);
  const Border border = splitters_.border(range);
  // So little at a time that hardly any room is made in vain.
  const std::size_t at_once = std::max<std::size_t>(block / 8 / record_bytes, 1) * record_bytes;
  for (std::size_t done = 0; done < all.bytes;) {
    const std::size_t some = std::min(at_once, all.bytes - done);
    std::byte* const low = buckets_.room_for(range, some);
    std::byte* const high = buckets_.room_for(range + 1, some);
    if (low == nullptr || high == nullptr) {
      throw Error(EAGAIN, "run formation: its pool is used by others, too");
    }
    std::size_t less = 0;
    guarded([&] {
      const std::byte* const records = all.begin() + done;
      const std::size_t next = detail::round_up(done, block);
      if (next < done + some) {
        static_cast<void>(*static_cast<const volatile std::byte*>(all.begin() + next));
      }
      less =
          order_.divide_bucket(records, some / record_bytes, border.bits, border.record, low, high);
    }).throw_if_failed();
    buckets_.added(range, less * record_bytes);
    buckets_.added(range + 1, some - less * record_bytes);
    done += some;
  }
  buckets_.take_back(std::move(all));
}

// The first of the two neighbours of one run that have the least together, less than this; where
// one has nothing, nothing would move.
std::size_t KeyRanges::least_pair(std::size_t least, std::size_t kept) const noexcept {
  std::size_t best = kNoRange;
  for (std::size_t range = 0; range + 1 < ranges_.size(); ++range) {
    if (range + 1 == frontier_ || range == kept || range + 1 == kept) continue;
    const std::size_t low = buckets_.bytes(range), high = buckets_.bytes(range + 1);
    const std::size_t moved = low == 0 || high == 0 ? 0 : low + high;
    if (moved >= least) continue;
    least = moved;
    best = range;
  }
  return best;
}

// Where there are as many ranges as may be, two become one. None is `kept`, and no record moves.
bool KeyRanges::make_room(std::size_t kept) {
  const std::size_t pair = least_pair(1, kept);
  if (pair == kNoRange) return false;
  join(pair);
  return true;
}

KeyRanges::Room KeyRanges::make_room_by_moving() {
  const std::size_t pair = least_pair(fair_bytes_ / 2, kNoRange);
  if (pair == kNoRange) return Room::kNone;
  const std::size_t bytes = buckets_.bytes(pair + 1);
  if (buckets_.bytes(pair) != 0 && bytes != 0) {
    const Room to_move = room(detail::units_for(bytes, pool_.block_bytes()) + 1);
    if (to_move != Room::kThere) return to_move;
    append_to_one_before(pair + 1);
  }
  join(pair);
  return Room::kThere;
}

// A range and the one behind it, one of which is empty.
void KeyRanges::join(std::size_t range) {
  splitters_.join(range);
  ranges_[range].seen_bytes = ranges_[range + 1].seen_bytes =
      std::max(ranges_[range].seen_bytes, ranges_[range + 1].seen_bytes);
  remove(buckets_.bytes(range) == 0 ? range : range + 1);
  if (range + 1 < frontier_) --frontier_;
}

// Whether so many blocks are free, and a bucket can be closed for as long as it takes; or will be
// when those that were closed are given back. What open buckets have decides between never and
// later.
KeyRanges::Room KeyRanges::room(std::size_t blocks) const noexcept {
  if (buckets_.blocks_left() < blocks) return Room::kNone;
  const bool any_closed = buckets_.any_closed();
  const std::size_t free = pool_.block_count() - pool_.blocks_in_use();
  if (free >= blocks && buckets_.can_close()) return Room::kThere;
  return any_closed ? Room::kLater : Room::kNone;
}

// Records of the range come behind those of the one before.
void KeyRanges::append_to_one_before(std::size_t range) {
  ClosedBucket bucket = buckets_.close(range);
  // What is buffered of the one before is stored, too: a fault that fails must not leave by a jump.
  std::byte* to = nullptr;
  guarded([&] { to = buckets_.room_for(range - 1, bucket.bytes); }).throw_if_failed();
  if (to == nullptr) throw Error(EAGAIN, "run formation: its pool is used by others, too");
  guarded([&] { std::memcpy(to, bucket.begin(), bucket.bytes); }).throw_if_failed();
  buckets_.added(range - 1, bucket.bytes);
  buckets_.take_back(std::move(bucket));
}

void KeyRanges::insert_behind(std::size_t range) {
  buckets_.insert(range + 1, ranges_.size());
  ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(range + 1), Range{});
}

void KeyRanges::remove(std::size_t range) {
  buckets_.clear(range);
  buckets_.remove(range, ranges_.size());
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(range));
}

}}  // namespace vortex::v0

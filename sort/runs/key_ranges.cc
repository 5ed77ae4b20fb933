#include "sort/runs/key_ranges.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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
      pool_(pool),
      first_ranges_(options.ranges),
      most_run_bytes_(options.most_run_bytes),
      splitters_(order, options.ranges, options.most_ranges, kept_records),
      buckets_(pool, options.most_ranges, options.most_closed, order.record_bytes(), buffers),
      closed_bytes_(options.most_ranges),
      seen_bytes_(options.most_ranges),
      fair_bytes_(2 * (pool.block_count() * pool.block_bytes() / options.ranges)) {}

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
  seen_bytes_[frontier_] = 0;
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
  std::sort(sample.begin(), sample.end(),
            [this](const Border& a, const Border& b) { return is_less(a, b); });
  for (std::size_t i = 1; i < parts && make_room(); ++i) {
    const std::size_t range = frontier_ - 1;
    if (buckets_.bytes(range) != 0) return;  // it was joined with one before
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
  const std::size_t before = std::max(closed_bytes_[frontier_ - 2], buckets_.bytes(frontier_ - 2));
  const std::size_t both = before + bytes;
  const bool are_small = both < fair_bytes_ / 4 * 3;
  const bool is_tiny = std::min(before, bytes) < fair_bytes_ / 4 && both < fair_bytes_ / 2 * 3;
  if (!are_small && !is_tiny) return;
  splitters_.join(frontier_ - 2);
  remove(frontier_ - 1);
  --frontier_;
  closed_bytes_[frontier_ - 1] = both;
}

bool KeyRanges::is_less(const Border& left, const Border& right) const noexcept {
  if (left.bits != right.bits || order_.leading_bits_decide()) return left.bits < right.bits;
  return order_.less(left.record, right.record);
}

bool KeyRanges::has_free(std::size_t blocks) const noexcept {
  return pool_.block_count() - pool_.blocks_in_use() >= blocks;
}

void KeyRanges::note(std::size_t bytes) {
  unseen_bytes_ += bytes;
  if (unseen_bytes_ < fair_bytes_ / 4) return;
  unseen_bytes_ = 0;
  const std::size_t half = pool_.block_count() / 2 * pool_.block_bytes();
  const std::size_t large = std::min(2 * fair_bytes_, half);
  const auto is_large = [&](std::size_t range) {
    return buckets_.bytes(range) > std::max(large, seen_bytes_[range] + fair_bytes_ / 2);
  };
  for (std::size_t range = 0; range < splitters_.buckets();) {
    if (!is_large(range)) {
      ++range;
    } else if (!splitters_.has_room()) {
      if (!make_room()) return;
      range = 0;  // which may have been moved
    } else {
      seen_bytes_[range] = buckets_.bytes(range);
      divide_open(range);
    }
  }
}

// Where records were moved, what is left may still be too large.
void KeyRanges::divide_open(std::size_t range) {
  constexpr std::size_t kSampled = 64, kLast = kSampled / 4;
  const std::size_t record_bytes = order_.record_bytes();
  const auto [written, buffered] = buckets_.parts(range);
  const std::size_t count = written.size() / record_bytes;
  if (count < kSampled) return;
  std::array<Border, kSampled> sample;
  for (std::size_t i = 0; i < kSampled; ++i) {
    const std::byte* const record =
        written.data() + (i + 1) * (count / kSampled) * record_bytes - record_bytes;
    sample[i] = {order_.leading_bits_in_bucket(record), record};
  }
  const auto less = [this](const Border& a, const Border& b) { return is_less(a, b); };
  Border border;
  const bool ascends = std::is_sorted(sample.begin(), sample.end(), less);
  if (ascends) {
    for (const std::span<const std::byte> part : {written, buffered}) {
      if (part.empty()) continue;
      const std::byte* const greatest =
          order_.greatest_in_bucket(part.data(), part.size() / record_bytes);
      const Border here{order_.leading_bits_in_bucket(greatest), greatest};
      if (border.record == nullptr || !less(here, border)) border = here;
    }
  } else {
    std::nth_element(sample.end() - kLast, sample.end() - kLast / 2, sample.end(), less);
    border = sample[kSampled - kLast / 2];
    const auto below = std::count_if(sample.begin(), sample.end(),
                                     [&](const Border& one) { return less(one, border); });
    // Where records descend, the range would be divided again and again.
    constexpr std::size_t kBlocksBeside = 8;
    if (below < static_cast<std::ptrdiff_t>(kLast) || !buckets_.can_close() ||
        !has_free(kBlocksBeside)) {
      return;
    }
  }
  using Place = detail::BucketSplitters::Place;
  if (!splitters_.divide(range, border, ascends ? Place::kExact : Place::kRounded)) return;
  insert_behind(range);
  if (range < frontier_) ++frontier_;
  if (ascends) return;
  move_up(range);
  seen_bytes_[range] = 0;
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

// Where there are as many ranges as may be, the two neighbours of one run that have the least
// become one.
bool KeyRanges::make_room() {
  if (splitters_.has_room()) return true;
  std::size_t best = splitters_.buckets(), least = fair_bytes_ / 2;
  for (std::size_t range = 0; range + 1 < splitters_.buckets(); ++range) {
    if (range + 1 == frontier_) continue;
    const std::size_t low = buckets_.bytes(range), high = buckets_.bytes(range + 1);
    const std::size_t moved = low == 0 || high == 0 ? 0 : low + high;
    if (moved >= least) continue;
    least = moved;
    best = range;
  }
  if (best == splitters_.buckets()) return false;
  std::size_t emptied = best;
  if (buckets_.bytes(best) != 0) {
    emptied = best + 1;
    if (buckets_.bytes(emptied) != 0 && !empty_into_one_before(emptied)) return false;
  }
  splitters_.join(best);
  seen_bytes_[best] = seen_bytes_[best + 1] = std::max(seen_bytes_[best], seen_bytes_[best + 1]);
  remove(emptied);
  if (best + 1 < frontier_) --frontier_;
  return true;
}

// Records of the range come behind those of the one before.
bool KeyRanges::empty_into_one_before(std::size_t range) {
  const std::size_t bytes = buckets_.bytes(range);
  if (!buckets_.can_close() || !has_free(detail::units_for(bytes, pool_.block_bytes()) + 1)) {
    return false;
  }
  ClosedBucket bucket = buckets_.close(range);
  std::byte* const to = buckets_.room_for(range - 1, bytes);
  if (to == nullptr) throw Error(EAGAIN, "run formation: its pool is used by others, too");
  guarded([&] { std::memcpy(to, bucket.begin(), bytes); }).throw_if_failed();
  buckets_.added(range - 1, bytes);
  buckets_.take_back(std::move(bucket));
  return true;
}

void KeyRanges::insert_behind(std::size_t range) {
  const std::size_t used = splitters_.buckets() - 1;
  buckets_.insert(range + 1, used);
  for (std::vector<std::size_t>* const bytes : {&closed_bytes_, &seen_bytes_}) {
    bytes->insert(bytes->begin() + static_cast<std::ptrdiff_t>(range + 1), 0);
    bytes->pop_back();
  }
}

void KeyRanges::remove(std::size_t range) {
  buckets_.remove(range, splitters_.buckets() + 1);
  for (std::vector<std::size_t>* const bytes : {&closed_bytes_, &seen_bytes_}) {
    bytes->erase(bytes->begin() + static_cast<std::ptrdiff_t>(range));
    bytes->push_back(0);
  }
}

}}  // namespace vortex::v0

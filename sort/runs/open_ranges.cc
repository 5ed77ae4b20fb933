// Ranges of keys that are divided and joined while their buckets are open.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sort/runs/key_ranges.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

bool KeyRanges::Less::operator()(const Border& left, const Border& right) const noexcept {
  if (left.bits != right.bits || order.leading_bits_decide()) return left.bits < right.bits;
  return order.less(left.record, right.record);
}

// There are as many ranges as the threads ask for. Were batches cut where a range may have become
// large, whole ones would take memory with the square of the threads.
std::size_t KeyRanges::records_to_look() const noexcept {
  const std::size_t most = detail::units_for(bytes_to_look(), order_.record_bytes());
  const std::size_t records = may_fall_ ? std::min(most, trend_.records_to_next()) : most;
  return std::max(records, detail::units_for(batch_bytes_, order_.record_bytes()));
}

void KeyRanges::added(std::size_t records, const std::byte* last) noexcept {
  unseen_bytes_ += records * order_.record_bytes();
  if (may_fall_) trend_.came(records, last);
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

// The greatest or the least record of an open bucket that has some. Where records of one key come,
// nothing is divided again and again: those that were looked at are not looked at once more, but
// for those that are buffered, which will lie elsewhere.
KeyRanges::Border KeyRanges::end_of(std::size_t range, bool greatest) noexcept {
  const auto go_on = [&](Border& end, std::span<const std::byte> records) {
    if (records.empty()) return;
    const std::size_t count = records.size() / order_.record_bytes();
    const std::byte* const record = greatest ? order_.greatest_in_bucket(records.data(), count)
                                             : order_.least_in_bucket(records.data(), count);
    const Border here{order_.leading_bits_in_bucket(record), record};
    if (end.record == nullptr || (greatest ? !less_(here, end) : less_(here, end))) end = here;
  };
  const auto [written, buffered] = buckets_.parts(range);
  End& known = greatest ? ranges_[range].greatest : ranges_[range].least;
  go_on(known.border, written.subspan(std::exchange(known.bytes, written.size())));
  Border end = known.border;
  go_on(end, buffered);
  return end;
}

ClosedBucket KeyRanges::close(std::size_t range) {
  ranges_[range].least = ranges_[range].greatest = {};
  return buckets_.close(range);
}

bool KeyRanges::is_descending(std::span<const Border> sample) const noexcept {
  return std::is_sorted(sample.rbegin(), sample.rend(), less_);
}

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
  using Place = detail::BucketSplitters::Place;
  constexpr std::size_t kLeastSampled = 8, kBlocksBeside = 6;
  const std::size_t bytes = buckets_.bytes(range);
  const bool falls = may_fall_ && (run_is_open() ? falls_ : trend_.falls());
  Sample all;
  const std::span<Border> sample = sample_of(buckets_.parts(range)[0], all);
  const bool is_sampled = sample.size() >= kLeastSampled;
  const bool ascends = !is_sampled || std::ranges::is_sorted(sample, less_);
  bool below = !ascends && falls && is_descending(sample);
  const std::size_t seen = std::exchange(ranges_[range].seen_bytes, bytes);
  if (ascends && falls_) return true;
  if (!ascends && !below) {
    const Latest latest = latest_of(sample);
    const Room to_move = room(kBlocksBeside);
    // Where records come from the other side, the range would be divided again and again; and where
    // few lie beyond, what these take is a block for nothing.
    if (falls ? latest.are_great : latest.are_small) return true;
    if (to_move == Room::kNone && has_few_blocks_ && !latest.are_great) return true;
    if (to_move == Room::kLater) {
      ranges_[range].seen_bytes = seen;
      return false;
    }
    if (to_move == Room::kThere) {
      divide_by_moving(range, latest.median);
      return true;
    }
    below = falls;
  }
  const Border border = end_of(range, !below);
  if (!splitters_.divide(range, border, below ? Place::kBelow : Place::kExact)) return true;
  ranges_[range].has_border |= !below;
  insert(below ? range : range + 1);
  if (range < frontier_) ++frontier_;
  return true;
}

void KeyRanges::divide_by_moving(std::size_t range, const Border& border) {
  const std::size_t bytes = buckets_.bytes(range);
  if (!splitters_.divide(range, border, detail::BucketSplitters::Place::kRounded)) return;
  insert(range + 1);
  if (range < frontier_) ++frontier_;
  move_up(range);
  const bool is_divided = buckets_.bytes(range) != 0 && buckets_.bytes(range + 1) != 0;
  ranges_[range].seen_bytes = ranges_[range + 1].seen_bytes = is_divided ? 0 : bytes;
  ranges_[range + 1].has_border = std::exchange(ranges_[range].has_border, false);
}

// Puts the records of a range that was divided into its two parts, and gives back block by block
// what has been read.
void KeyRanges::move_up(std::size_t range) {
  const std::size_t record_bytes = order_.record_bytes();
  const std::size_t block = pool_.block_bytes();
  ClosedBucket all = close(range);
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
  ranges_[range].has_border = ranges_[range + 1].has_border;
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
  ClosedBucket bucket = close(range);
  // What is buffered of the one before is stored, too: a fault that fails must not leave by a jump.
  std::byte* to = nullptr;
  guarded([&] { to = buckets_.room_for(range - 1, bucket.bytes); }).throw_if_failed();
  if (to == nullptr) throw Error(EAGAIN, "run formation: its pool is used by others, too");
  guarded([&] { std::memcpy(to, bucket.begin(), bucket.bytes); }).throw_if_failed();
  buckets_.added(range - 1, bucket.bytes);
  buckets_.take_back(std::move(bucket));
}

// A range that was divided: the new one comes here. Both belong to the same run.
void KeyRanges::insert(std::size_t range) {
  buckets_.insert(range, ranges_.size());
  ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(range), Range{});
}

void KeyRanges::remove(std::size_t range) {
  buckets_.clear(range);
  buckets_.remove(range, ranges_.size());
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(range));
}

}}  // namespace vortex::v0

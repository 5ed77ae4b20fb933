#include "sort/runs/bucket_sorters.h"

#include <algorithm>

#include "sort/runs/run_buckets.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// For fewer records it is not worth while to start threads.
constexpr std::size_t kMinRecords = std::size_t{1} << 16;
// One copies what several sort.
constexpr unsigned kThreadsOfCopier = 4;

}  // namespace

BucketSorters::BucketSorters(const RecordOrder& order, std::size_t records, std::size_t buckets,
                             unsigned threads, std::span<std::byte> scratch)
    : order_(order),
      parts_(parts_of(order, records, buckets, threads, scratch.size())),
      copiers_(copiers_of(parts_, threads)),
      scratch_(scratch),
      work_(parts_),
      ring_(detail::TaskRing::Kind::kSort, parts_,
            static_cast<unsigned>(std::min<std::size_t>(threads, parts_)),
            [this](std::size_t part, unsigned) { sort(part); }) {}

BucketSorters::~BucketSorters() {
  if (allocates_) detail::KeptMemory::release();
}

std::optional<std::size_t> BucketSorters::part_bytes(const RecordOrder& order,
                                                     std::size_t count) noexcept {
  const auto in_place = order.scratch_to_sort_in_place(count);
  const auto in_scratch = in_place ? in_place : order.scratch_to_index(count);
  const auto within = bytes_within(order, count);
  return in_scratch && within ? std::min(in_scratch, within) : in_scratch ? in_scratch : within;
}

// As many as there are threads and one for the bucket that the caller passes on; most buckets are
// at most a quarter larger than the average.
std::size_t BucketSorters::parts_of(const RecordOrder& order, std::size_t records,
                                    std::size_t buckets, unsigned threads,
                                    std::size_t scratch_bytes) noexcept {
  if (threads == 1 || records < kMinRecords) return 1;
  const auto bytes = part_bytes(order, records / buckets * 5 / 4);
  if (!bytes) return 1;
  return std::clamp<std::size_t>(scratch_bytes / *bytes, 1, threads + 1);
}

unsigned BucketSorters::copiers_of(std::size_t parts, unsigned threads) noexcept {
  return parts == 1 ? 1 : threads / kThreadsOfCopier + 1;
}

bool BucketSorters::hand_over(const Bucket& bucket) noexcept {
  if (parts_ == 1 || ring_.free_slots() == 0) return false;
  const auto bytes = part_bytes(order_, bucket.count);
  if (!bytes || *bytes > scratch_.size() / parts_) return false;
  const auto within = bytes_within(order_, bucket.count);
  allocates_ |= within && *within <= scratch_.size() / parts_;
  work_[ring_.next_free()].bucket = bucket;
  ring_.submit();
  return true;
}

std::span<std::byte> BucketSorters::scratch_of(std::size_t part) const noexcept {
  const std::size_t bytes = scratch_.size() / parts_;
  return scratch_.subspan(part * bytes, bytes);
}

// Sorting within the bucket is faster than between it and a scratch.
void BucketSorters::sort(std::size_t part) noexcept {
  auto& [bucket, index, is_left] = work_[part];
  const std::span<std::byte> scratch = scratch_of(part);
  const auto within = bytes_within(order_, bucket.count);
  index = {};
  is_left = false;
  if (within && *within <= scratch.size() &&
      order_.sort_large_bucket(bucket.records, bucket.count, 1)) {
    return;
  }
  if (const auto in_place = order_.scratch_to_sort_in_place(bucket.count)) {
    is_left = *in_place > scratch.size();
    if (is_left) return;
    PlaceOutput out(bucket.records);
    order_.sort_bucket(bucket.records, bucket.count, scratch, out);
  } else {
    index = order_.index_bucket(bucket.records, bucket.count, scratch);
  }
}

void BucketSorters::pass_on(RecordOutput& out) {
  const Part& part = work_[sorted_in_];
  const auto& [bucket, index, is_left] = part;
  const std::size_t record_bytes = order_.record_bytes();
  if (is_left) {
    return order_.sort_bucket(bucket.records, bucket.count, scratch_of(sorted_in_), out);
  }
  if (!copies()) {
    const WorkSpan span(SpanKind::kCopy);
    return detail::append_by_index(out, bucket.records, record_bytes, index, bucket.count);
  }
  if (!team_) {
    team_.emplace(copiers_);
    work_for_log(*team_);
  }
  const std::size_t of_piece = std::max<std::size_t>(kPieceBytes / record_bytes, 1);
  for (std::size_t done = 0; done < bucket.count;) {
    const std::span<std::byte> room = out.room((bucket.count - done) * record_bytes);
    const std::size_t some = room.size() / record_bytes;
    const std::size_t pieces = detail::units_for(some, of_piece);
    if (pieces < kLeastPieces) {
      copy(part, done, some, room.data());
    } else {
      team_->run(pieces, [&](std::size_t piece) {
        const WorkSpan span(SpanKind::kCopy);
        const std::size_t first = piece * of_piece;
        const std::size_t here = std::min(of_piece, some - first);
        guarded([&] {
          copy(part, done + first, here, room.data() + first * record_bytes);
        }).throw_if_failed();
      });
    }
    out.written(room.size());
    done += some;
  }
}

// Records of the order, from the one at place `first` on.
void BucketSorters::copy(const Part& part, std::size_t first, std::size_t count,
                         std::byte* to) const {
  RecordIndex index = part.index;
  std::size_t from = 0;
  if (index.places != nullptr) index.places += first;
  if (index.order == RecordIndex::Order::kGiven) from = first;
  if (index.order == RecordIndex::Order::kReversed) from = part.bucket.count - first - count;
  PlaceOutput out(to);
  const std::size_t record_bytes = order_.record_bytes();
  detail::append_by_index(out, part.bucket.records + from * record_bytes, record_bytes, index,
                          count);
}

}}  // namespace vortex::v0

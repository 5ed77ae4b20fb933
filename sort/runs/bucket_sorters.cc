#include "sort/runs/bucket_sorters.h"

#include <algorithm>

#include "vortex/detail/merge/record_sort.h"

namespace vortex { inline namespace v0 {

namespace {

// For fewer records it is not worth while to start threads.
constexpr std::size_t kMinRecords = std::size_t{1} << 16;

// The records of a bucket go back to where they were.
class InPlaceOutput final : public RecordOutput {
 public:
  explicit InPlaceOutput(std::byte* records) noexcept : at_(records) {}

  std::span<std::byte> room(std::size_t most_bytes) override { return {at_, most_bytes}; }
  void written(std::size_t bytes) override { at_ += bytes; }

 private:
  std::byte* at_;
};

}  // namespace

BucketSorters::BucketSorters(const RecordOrder& order, std::size_t records, std::size_t buckets,
                             unsigned threads, std::span<std::byte> scratch)
    : order_(order),
      parts_(parts_of(order, records, buckets, threads, scratch.size())),
      scratch_(scratch),
      work_(parts_),
      ring_(detail::TaskRing::Kind::kSort, parts_, parts_ == 1 ? 1 : threads,
            [this](std::size_t part, unsigned) { sort(part); }) {}

std::optional<std::size_t> BucketSorters::part_bytes(const RecordOrder& order,
                                                     std::size_t count) noexcept {
  const auto in_place = order.scratch_to_sort_in_place(count);
  return in_place ? in_place : order.scratch_to_index(count);
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

bool BucketSorters::hand_over(const Bucket& bucket) noexcept {
  if (parts_ == 1 || ring_.free_slots() == 0) return false;
  const auto bytes = part_bytes(order_, bucket.count);
  if (!bytes || *bytes > scratch_.size() / parts_) return false;
  work_[ring_.next_free()].bucket = bucket;
  ring_.submit();
  return true;
}

void BucketSorters::sort(std::size_t part) noexcept {
  auto& [bucket, index] = work_[part];
  const std::size_t bytes = scratch_.size() / parts_;
  const std::span<std::byte> scratch = scratch_.subspan(part * bytes, bytes);
  if (order_.scratch_to_sort_in_place(bucket.count)) {
    InPlaceOutput in_place(bucket.records);
    order_.sort_bucket(bucket.records, bucket.count, scratch, in_place);
    index = {};
  } else {
    index = order_.index_bucket(bucket.records, bucket.count, scratch);
  }
}

void BucketSorters::pass_on(RecordOutput& out) const {
  const auto& [bucket, index] = work_[sorted_in_];
  detail::append_by_index(out, bucket.records, order_.record_bytes(), index, bucket.count);
}

}}  // namespace vortex::v0

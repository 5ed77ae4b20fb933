// The buckets of a run, sorted by several threads in the order in which they are needed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "vortex/detail/merge/task_ring.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Sorts buckets where they are, or makes an index of their records, with a part of the scratch
// each, while the caller passes on those that are sorted. A bucket that needs more scratch than a
// part is left to the caller, who then has the whole scratch to itself.
class BucketSorters {
 public:
  // As scatter() has left it.
  struct Bucket {
    std::byte* records = nullptr;
    std::size_t count = 0;
  };

  // Starts threads if `threads`, the caller included, are more than one and the scratch suffices
  // for two buckets of the average size at least. Everything outlives it. Throws std::bad_alloc.
  BucketSorters(const RecordOrder& order, std::vector<Bucket> buckets, unsigned threads,
                std::span<std::byte> scratch);

  // Sorts the next bucket, or waits until that is done. False: it is as it was, and none is being
  // sorted; it is for the caller to sort it.
  bool next();
  // Whether the records of that bucket, when next() was true, lie in their order.
  bool in_order() const noexcept {
    return work_[sorted_in_].index.order == RecordIndex::Order::kGiven;
  }
  // Appends the bucket of the last next(), which was true. Throws what `out` throws.
  void pass_on(RecordOutput& out) const;
  // The caller is done with the bucket of the last next() and, if that was false, the scratch.
  void done_with_it() noexcept;

  // The scratch for a part that sorts `records`. None: the order sorts buckets of that size in
  // no other way than one at a time.
  static std::optional<std::size_t> part_bytes(const RecordOrder& order,
                                               std::size_t count) noexcept;

 private:
  struct Part {
    const Bucket* bucket = nullptr;
    RecordIndex index;
  };

  static std::size_t parts_of(const RecordOrder& order, std::span<const Bucket> buckets,
                              unsigned threads, std::size_t scratch_bytes) noexcept;
  bool fits_part(const Bucket& bucket) const noexcept;
  void submit() noexcept;
  void sort(std::size_t part) noexcept;

  const RecordOrder& order_;
  const std::vector<Bucket> buckets_;
  const std::size_t parts_;  // of the scratch; 1: the caller sorts
  const std::span<std::byte> scratch_;
  std::vector<Part> work_;     // of each part
  std::size_t submitted_ = 0;  // buckets
  std::size_t next_ = 0;
  bool is_sorted_ = false;     // the bucket of the last next()
  std::size_t sorted_in_ = 0;  // the part that it is in
  detail::TaskRing ring_;      // destroyed first
};

}}  // namespace vortex::v0

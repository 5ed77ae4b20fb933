// The buckets of runs, sorted by several threads in the order in which they are needed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/merge/task_ring.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Sorts buckets where they are, or makes an index of their records, with a part of the scratch
// each, while the caller passes on those that are sorted. Where a part holds what a sort within the
// bucket allocates, it is not touched, and that takes its place. A bucket that needs more than a
// part is left to the caller, who then has the whole scratch to itself. For one thread at a time.
class BucketSorters {
 public:
  // A piece of a bucket that is passed on, and how large a room is at least that several copy to.
  static constexpr std::size_t kPieceBytes = std::size_t{128} << 10;
  static constexpr std::size_t kLeastPieces = 4;
  static constexpr std::size_t kLeastSharedBytes = kLeastPieces * kPieceBytes;

  // As scatter() has left it.
  struct Bucket {
    std::byte* records = nullptr;
    std::size_t count = 0;
  };

  // Starts threads if `threads`, the caller included, are more than one and the scratch suffices
  // for two of `buckets` buckets that hold `records` in all. Everything outlives it. Throws
  // std::bad_alloc.
  BucketSorters(const RecordOrder& order, std::size_t records, std::size_t buckets,
                unsigned threads, std::span<std::byte> scratch);

  // What the caller's sorts kept is given back.
  ~BucketSorters();

  // Sorts a bucket, which stays where it is until the caller is done with it. False: it does not
  // fit into a part, or every part has a bucket.
  bool hand_over(const Bucket& bucket) noexcept;
  // Whether a bucket was handed over and the caller is not yet done with it. If not, the scratch is
  // the caller's.
  bool has_any() const noexcept { return !ring_.empty(); }
  // Waits until the first of these buckets is sorted.
  void await() noexcept { sorted_in_ = ring_.await(); }
  // Whether its records lie in their order.
  bool in_order() const noexcept {
    return !work_[sorted_in_].is_left &&
           work_[sorted_in_].index.order == RecordIndex::Order::kGiven;
  }
  // Whether several threads pass it on, to an output whose rooms are large. It may be read in any
  // order then.
  bool copies() const noexcept { return copiers_ > 1; }
  // Whether what sorts took was allocated, and not scratch.
  bool allocates() const noexcept { return allocates_; }
  // Appends it. Throws what `out` throws.
  void pass_on(RecordOutput& out);
  // The caller is done with it.
  void done_with_it() noexcept { ring_.release(); }

  // The bytes of a part that sorts `records`, in scratch or instead of that. None: the order sorts
  // buckets of that size in no other way than one at a time.
  static std::optional<std::size_t> part_bytes(const RecordOrder& order,
                                               std::size_t count) noexcept;
  // How many parts the scratch has then, where so many threads sort or fewer; 1: the caller sorts
  // and passes on at once. And how many threads pass a bucket on.
  static std::size_t parts_of(const RecordOrder& order, std::size_t records, std::size_t buckets,
                              unsigned threads, std::size_t scratch_bytes) noexcept;
  static unsigned copiers_of(std::size_t parts, unsigned threads) noexcept;

 private:
  struct Part {
    Bucket bucket;
    RecordIndex index;
    bool is_left = false;  // to the caller: there was no memory
  };

  static std::optional<std::size_t> bytes_within(const RecordOrder& order,
                                                 std::size_t count) noexcept {
    return order.bytes_to_sort_large_bucket(count, 1);
  }
  std::span<std::byte> scratch_of(std::size_t part) const noexcept;
  void copy(const Part& part, std::size_t first, std::size_t count, std::byte* to) const;
  void sort(std::size_t part) noexcept;

  const RecordOrder& order_;
  const std::size_t parts_;  // of the scratch; 1: the caller sorts
  const unsigned copiers_;
  bool allocates_ = false;
  const std::span<std::byte> scratch_;
  std::vector<Part> work_;                  // of each part
  std::size_t sorted_in_ = 0;               // the part of the first bucket
  std::optional<detail::ThreadTeam> team_;  // of copiers, the caller among them
  detail::TaskRing ring_;                   // destroyed first
};

}}  // namespace vortex::v0

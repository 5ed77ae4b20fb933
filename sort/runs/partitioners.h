// Several threads that partition records into the buckets of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sort/runs/run_buckets.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/merge/bucket_splitters.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Each takes a stripe of a batch. They count what goes to each bucket, the caller makes room for
// that, and they put their records there, one stripe behind the other: so buckets are the same for
// any number of threads, byte for byte. Of each stripe and bucket the caller adds up two numbers;
// all else they do side by side.
class Partitioners {
 public:
  // Less is not worth waking a thread for: one puts it to its buckets in some 40 microseconds.
  static constexpr std::size_t kMinBytes = std::size_t{128} << 10;

  // Counts of a stripe have 32 bits.
  static constexpr std::size_t kMostRecords = std::numeric_limits<std::uint32_t>::max();

  // For a team of `threads`, the caller of put() included, of which `beside` work beside sorters.
  Partitioners(const RecordOrder& order, unsigned buckets, unsigned threads,
               unsigned beside) noexcept
      : order_(order), buckets_(buckets), threads_(threads), beside_(beside) {}

  // What they allocate for `buckets`, besides the stacks of the threads.
  static std::size_t bytes(std::size_t record_bytes, unsigned buckets, unsigned threads) noexcept;

  // Fewer the caller puts to their buckets alone, one by one.
  std::size_t least_bytes(bool beside) const noexcept {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    return (beside ? beside_ : threads_) > 1 ? kMinBytes : kNone;
  }

  // Puts `count` records, kMostRecords at most, to their buckets. False: there is no memory for all
  // of them, and none was put. All threads read the records, and must be able to without a fault or
  // in any order. The first call starts the team. Throws Error when the kernel refuses to move a
  // block, in whatever thread, and std::bad_alloc.
  bool put(const std::byte* records, std::size_t count, const detail::BucketSplitters& splitters,
           RunBuckets& buckets, bool beside);

 private:
  // The records of one stripe go here: to a place in each bucket that is theirs.
  class Stripe final : public OpenBuckets {
   public:
    Stripe(unsigned buckets, std::size_t record_bytes);

    std::span<std::uint32_t> counts() noexcept { return counts_; }
    // Notes how many records the stripes before have for each bucket, and adds its own.
    void come_behind(std::span<std::uint32_t> records) noexcept;
    // What was counted for each bucket goes to its room, behind what the stripes before have.
    void begin(std::span<std::byte* const> rooms) noexcept;
    bool extend(std::size_t bucket) noexcept override;
    void finish() noexcept;

   private:
    void open(std::size_t bucket) noexcept;
    void flush(std::size_t bucket) noexcept;

    const std::size_t record_bytes_;
    std::unique_ptr<BucketBuffer[]> buffers_;  // null: they go there at once
    std::vector<std::uint32_t> counts_;        // records for each bucket
    std::vector<std::uint32_t> before_;        // the same of the stripes before
    std::vector<std::byte*> places_;           // where the next buffer of each bucket goes
  };

  using Stripes = std::span<const std::unique_ptr<Stripe>>;

  void start();
  bool make_room(Stripes stripes, RunBuckets& buckets);

  const RecordOrder& order_;
  const unsigned buckets_;
  const unsigned threads_;
  const unsigned beside_;
  std::optional<detail::ThreadTeam> team_;
  std::vector<std::unique_ptr<Stripe>> stripes_;
  std::vector<std::uint32_t> records_;  // of all stripes, for each bucket
  std::vector<std::byte*> rooms_;       // for them
};

}}  // namespace vortex::v0

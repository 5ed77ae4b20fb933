#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vortex/detail/array/bucket_writer.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/radix_sort.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

namespace {

using Key = std::uint64_t;

// So many keys are sorted in registers. The splits of a uniform input lead to fewer.
constexpr std::size_t kLeaf = detail::kMaxSmallSort;
// A vector of keys may straddle two blocks.
constexpr std::size_t kComebackBlocks = 1;
// Below this a level lies in the caches, past which nothing is gained.
constexpr std::size_t kMinToCombine = std::size_t{1} << 17;

// Buckets that begin where blocks do would meet in the same sets of the caches. Nine lines, so that
// the next bucket of a set is far.
constexpr std::size_t kStagger = 576;

// Blocks that the contents of the array fill.
std::size_t own_blocks(const VanishingArray<Key>& array) noexcept {
  return detail::units_for(array.size() * sizeof(Key), array.pool().block_bytes());
}

// The recursion owns nothing: a fault that cannot be served leaves it without destructors.
class BucketSort {
 public:
  BucketSort(VanishingArray<Key>& array, const BucketSortOptions& options)
      : array_(array),
        bits_(options.bits),
        buckets_(std::size_t{1} << bits_),
        planned_bits_(std::bit_width((array.size() - 1) / (kLeaf / 2))),
        // One level of fewer bits, and one for the ends of the last.
        ends_(buckets_ * (64 / static_cast<std::size_t>(bits_) + 3)),
        output_(array.data()) {
    for (std::size_t i = 0; i < buckets_; ++i) {
      // As much as all levels can append to one bucket.
      streams_.push_back(std::make_unique<BucketStream>(
          array.pool(),
          BucketStreamOptions{.reserve_bytes = detail::saturating_product(
                                  array.size() * sizeof(Key), ends_.size() / buckets_),
                              .comeback_blocks = kComebackBlocks}));
      streams_.back()->count_with(&meter_);
      const std::size_t ahead = i * kStagger % (array.pool().block_bytes() / 32);
      ends_[i] = reinterpret_cast<Key*>(streams_.back()->bytes() + ahead);
    }
    if (options.write_combining) writer_.emplace(streams_);
    array_.count_with(&meter_);
  }
  ~BucketSort() { array_.count_with(nullptr); }

  void sort() { sort(array_.data(), array_.size(), 64, 0); }

  BucketSortReport report() const {
    const std::size_t block = array_.pool().block_bytes();
    const std::size_t own = own_blocks(array_);
    BucketSortReport report;
    for (const auto& stream : streams_) report.faults += stream->statistics().faults;
    report.peak_blocks = meter_.peak();
    report.epsilon_bytes = (std::max(meter_.peak(), own) - own) * block +
                           ends_.size() * sizeof(Key*) +
                           (writer_ ? buckets_ * detail::BucketWriter<Key>::kFlushBytes : 0);
    return report;
  }

 private:
  // Algorithm 9. The keys of `buf` agree in all but their lowest `low` bits.
  void sort(const Key* buf, std::size_t size, int low, int level) {
    const int shift = low - std::min(low, bits_of(level));
    const std::size_t used = std::size_t{1} << (low - shift);
    Key** const p = &ends_[static_cast<std::size_t>(level) * buckets_];  // of the level before
    Key** const next = p + buckets_;                                     // of this one
    std::copy_n(p, buckets_, next);
    split(buf, size, shift, used - 1, next);
    if (level == 0) array_.finish_reading();
    for (std::size_t j = 0; j < used; ++j) {
      const auto count = static_cast<std::size_t>(next[j] - p[j]);
      if (count > kLeaf && shift > 0) {
        sort(p[j], count, shift, level + 1);
      } else if (count != 0) {
        put(p[j], count);
      }
      next[j] = p[j];
      truncate(j, p[j]);
    }
  }

  // Section 5.5: as many bits on each level as the buckets have, and on the last as many as lead to
  // leaves. Keys for which that was not enough go on with all.
  int bits_of(int level) const noexcept {
    const int left = planned_bits_ - level * bits_;
    return left > 0 ? std::min(left, bits_) : bits_;
  }

  void split(const Key* buf, std::size_t size, int shift, Key mask, Key** next) {
    const auto bucket_of = [=](Key key) noexcept {
      return static_cast<unsigned>(key >> shift & mask);
    };
    if (writer_ && size >= kMinToCombine) {
      writer_->restart(next);
      writer_->scatter(buf, size, bucket_of);
      writer_->finish();
      for (std::size_t j = 0; j < buckets_; ++j) next[j] = writer_->end(j);
    } else {
      for (std::size_t i = 0; i < size; ++i) *next[bucket_of(buf[i])]++ = buf[i];
    }
  }

  // Writes keys that are a leaf, or all equal, in order. A vector must not be stored to two blocks
  // of the array, which may have left the first.
  void put(const Key* keys, std::size_t count) noexcept {
    const std::size_t block = array_.pool().block_bytes();
    const auto at = static_cast<std::size_t>(output_ - array_.data()) * sizeof(Key);
    Key sorted[kLeaf];
    if (count <= kLeaf) {
      if (at % block + count * sizeof(Key) <= block) {
        small_sort_(keys, count, output_);
        output_ += count;
        return;
      }
      small_sort_(keys, count, sorted);
      keys = sorted;
    }
    // One by one: memcpy() may read the end first, and its block would not count as read.
    const volatile Key* key = keys;
    for (const volatile Key* const end = keys + count; key != end; ++key) *output_++ = *key;
  }

  void truncate(std::size_t bucket, const Key* end) {
    BucketStream& stream = *streams_[bucket];
    const auto bytes =
        static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(end) - stream.bytes());
    if (const int error = stream.truncate(bytes)) {
      throw Error(error, "bucket_sort of '" + array_.name() +
                             "': the system refuses to move a block of a bucket");
    }
  }

  VanishingArray<Key>& array_;
  const int bits_;
  const std::size_t buckets_;
  const int planned_bits_;  // of all levels together, for a uniform input
  const detail::SmallSort<Key> small_sort_ = detail::small_sort_for<Key>(detail::isa_in_use());
  BlockMeter meter_;
  std::vector<std::unique_ptr<BucketStream>> streams_;
  std::vector<Key*> ends_;  // where the buckets begin, and end on each level
  std::optional<detail::BucketWriter<Key>> writer_;
  Key* output_;
};

void require_room(const VanishingArray<Key>& array, int bits) {
  if (bits < 1 || bits > 8) {
    throw Error(EINVAL, "bucket_sort: bits is " + std::to_string(bits) + "; it takes 1 to 8");
  }
  const StreamPool& pool = array.pool();
  const std::size_t own = own_blocks(array);
  const std::size_t needed = pool.blocks_in_use() - array.held_blocks() + own +
                             bucket_sort_extra_blocks(bits) +
                             std::min(own, array.comeback_blocks());
  if (needed <= pool.block_count()) return;
  throw Error(ENOMEM, "bucket_sort of '" + array.name() + "': its pool has " +
                          std::to_string(pool.block_count()) + " blocks; " +
                          std::to_string(needed) + " would do");
}

}  // namespace

BucketSortReport bucket_sort(VanishingArray<Key>& array, const BucketSortOptions& options) {
  require_room(array, options.bits);
  if (array.size() == 0) return {};
  BucketSort sort(array, options);
  const auto require = [&](int error, const char* what) {
    if (error != 0) throw Error(error, "bucket_sort of '" + array.name() + "': " + what);
  };
  const auto open = [&] {
    require(detail::BlockRanges::open(array, 0, array.size() * sizeof(Key)),
            "its elements cannot be opened");
  };
  open();
  const std::uint64_t behind = own_blocks(array) * array.pool().block_bytes();
  require(detail::BlockRanges::give_back(array, behind, array.reserved_bytes()),
          "what lies behind them cannot be given back");
  array.seal();
  const std::uint64_t faults = array.statistics().faults;
  guarded([&] { sort.sort(); }).throw_if_failed();
  BucketSortReport report = sort.report();
  report.faults += array.statistics().faults - faults;
  open();
  return report;
}

}}  // namespace vortex::v0

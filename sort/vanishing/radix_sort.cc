#include "vortex/radix_sort.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <new>
#include <string>

#include "sort/memory/compiled_sorts.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Below this the whole array fits the caches and moving blocks gains nothing.
constexpr std::size_t kMinForBuckets = std::size_t{1} << 20;
// More buckets are slower, and each has a block
// (docs/decisions/0019-scatter-levels.md).
constexpr int kMostFirstBits = 7;
// The block that each bucket leaves partly filled is one to this many of the array, at most. Few
// buckets gain nothing: 2^24 u64 by 2^3, 2^4, 2^5 of them and none, 138, 158, 167 and 143 M/s.
constexpr std::size_t kBlocksOfABucket = 4;
constexpr int kLeastFirstBits = 4;

// How many bits the plan splits by.
int planned_bits(std::uint64_t bytes, std::size_t count, std::size_t block_bytes) noexcept {
  const std::uint64_t buckets = bytes / block_bytes / kBlocksOfABucket;
  const int bits = std::min({first_split(bits_to_split(count)), kMostFirstBits,
                             static_cast<int>(std::bit_width(buckets)) - 1});
  return bits < kLeastFirstBits ? 0 : bits;
}

}  // namespace

bool memory_suffices(const std::function<void()>& allocate) {
  try {
    allocate();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int first_radix_split(VanishingArrayBase& array, std::size_t count, std::size_t record_bytes,
                      int first_split_bits) {
  int bits = first_split_bits;
  if (bits < 0 || bits > 8) {
    throw Error(EINVAL, "radix_sort: first_split_bits is " + std::to_string(bits) +
                            "; the first level splits by 1 to 8 bits, or 0 for as many as suit");
  }
  const std::uint64_t bytes = count * record_bytes;
  const int most = most_split_bits(bytes);
  if (bits > most) {
    throw Error(ENOMEM, "radix_sort of '" + array.name() + "': 2^" + std::to_string(bits) +
                            " buckets with room for " + std::to_string(bytes) +
                            " bytes each do not fit " + std::to_string(kAddressBits) +
                            " bits of address space; first_split_bits may be " +
                            std::to_string(most) + " at most");
  }
  if (const int error = detail::BlockRanges::open(array, 0, bytes)) {
    throw Error(error, "radix_sort of '" + array.name() + "': its elements cannot be opened");
  }
  const StreamPool& pool = array.pool();
  if (bits == 0 && count >= kMinForBuckets) {
    bits = std::min(planned_bits(bytes, count, pool.block_bytes()), most);
  }
  const bool have_blocks =
      pool.block_count() >= pool.blocks_in_use() + radix_sort_extra_blocks(bits);
  return bits != 0 && have_blocks ? bits : 0;
}

RadixSortReport radix_sort_words(VanishingArrayBase& array, std::size_t count,
                                 std::size_t record_bytes, const SortKey& key,
                                 const RadixSortWay& way) {
  SortKey own = key;
  // Buckets and threads split differently: only a stable order of pairs is the same by both.
  if (record_bytes == sizeof(Pair64) && way.first_split_bits == 0) own.stable = true;
  RadixSortReport report;
  if (way.first_split_bits == 0) {
    first_radix_split(array, count, record_bytes, 0);
    report.peak_blocks = array.held_blocks();
    if (const auto taken =
            sort_simple_words(array.bytes(), count, record_bytes, own, way.threads)) {
      report.working_bytes = report.epsilon_bytes = *taken;
      return report;
    }
  }
  if (with_words(record_bytes, own, [&](const auto& rules, const auto& codec) {
        report =
            radix_sort_with(array, count, rules, codec, way, [&](auto* records, unsigned threads) {
              return sort_in_place(records, count, rules, codec, threads);
            });
      })) {
    return report;
  }
  return radix_sort_sized<sizeof(std::uint64_t)>(array, count, own, way);
}

}}}  // namespace vortex::v0::detail

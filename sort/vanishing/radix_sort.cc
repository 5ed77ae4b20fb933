#include "vortex/radix_sort.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <string>

#include "vortex/detail/array/cpu.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Below this the whole array fits the caches and moving blocks gains nothing.
constexpr std::size_t kMinForBuckets = std::size_t{1} << 20;
// More buckets are slower, and each has a block
// (docs/decisions/0044-first-level-buckets.md).
constexpr int kMostFirstBits = 7;

template <typename Bits>
RadixSortReport sort_words(VanishingArrayBase& array, std::size_t count,
                           const detail::WordCodec<Bits>& codec, const RadixSortOptions& options) {
  const detail::SortRules<Bits, detail::KeyOfWord> rules{
      {}, detail::small_sort_for<Bits>(detail::isa_in_use())};
  return radix_sort_with(array, count, rules, codec, options);
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

RadixSortPlan::RadixSortPlan(VanishingArrayBase& array, std::size_t count, std::size_t record_bytes,
                             const RadixSortOptions& options) {
  if (options.first_split_bits < 0 || options.first_split_bits > 8) {
    throw Error(EINVAL, "radix_sort: first_split_bits is " +
                            std::to_string(options.first_split_bits) +
                            "; the first level splits by 1 to 8 bits, or 0 for as many as suit");
  }
  if (!options.split_speeds.empty()) steps = detail::SplitSteps(options.split_speeds);
  const std::uint64_t bytes = count * record_bytes;
  const int most = detail::most_split_bits(bytes);
  if (options.first_split_bits > most) {
    throw Error(ENOMEM, "radix_sort of '" + array.name() + "': 2^" +
                            std::to_string(options.first_split_bits) + " buckets with room for " +
                            std::to_string(bytes) + " bytes each do not fit " +
                            std::to_string(detail::kAddressBits) +
                            " bits of address space; first_split_bits may be " +
                            std::to_string(most) + " at most");
  }
  if (const int error = array.open_range(0, bytes)) {
    throw Error(error, "radix_sort of '" + array.name() + "': its elements cannot be opened");
  }
  StreamPool& pool = array.pool();
  bits = options.first_split_bits;
  if (bits == 0 && count >= kMinForBuckets) {
    bits = std::min(steps.next(detail::bits_to_split(count)), most);
    if (options.split_speeds.empty()) bits = std::min(bits, kMostFirstBits);
  }
  if (bits != 0 && pool.block_count() < pool.blocks_in_use() + radix_sort_extra_blocks(bits)) {
    bits = 0;
  }
}

RadixSortReport radix_sort_keys_32(VanishingArrayBase& array, std::size_t count, KeyCode code,
                                   const RadixSortOptions& options) {
  return sort_words(array, count, detail::WordCodec<std::uint32_t>(code), options);
}

RadixSortReport radix_sort_keys_64(VanishingArrayBase& array, std::size_t count, KeyCode code,
                                   const RadixSortOptions& options) {
  return sort_words(array, count, detail::WordCodec<std::uint64_t>(code), options);
}

RadixSortReport radix_sort_half_pairs(VanishingArrayBase& array, std::size_t count, KeyCode code,
                                      const RadixSortOptions& options) {
  return sort_words(array, count, detail::WordCodec<std::uint64_t>(code, {0, 4}), options);
}

RadixSortReport radix_sort_pairs_64(VanishingArrayBase& array, std::size_t count, KeyCode code,
                                    const RadixSortOptions& options) {
  const detail::Isa isa = detail::isa_in_use();
  // Buckets and threads split differently: only a stable order is the same by both.
  const bool stable = options.stable || options.first_split_bits == 0;
  const detail::SmallSort<Pair64> small =
      stable ? detail::stable_small_sort_of_pairs(isa) : detail::small_sort_for<Pair64>(isa);
  return radix_sort_with(array, count, detail::SortRules<Pair64, detail::KeyOfPair>{{}, small},
                         detail::PairCodec(code), options);
}

}}}  // namespace vortex::v0::detail

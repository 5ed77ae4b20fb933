// In-place radix sort of a vanishing array (section 5 of the Vortex paper): by calls that move
// blocks, and by faults alone; and one pass of it: the array partitioned into bucket streams
// (section 6.6).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "vortex/detail/array/bucket_writer.h"
#include "vortex/detail/array/vanishing_sort.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/error.h"
#include "vortex/sort.h"
#include "vortex/vanishing_array.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct RadixSortReport {
  int first_split_bits = 0;       // 0: nothing to sort, or sorted without buckets
  std::size_t peak_blocks = 0;    // of the array and the buckets together, while it ran
  std::size_t working_bytes = 0;  // besides the pool
  // The most of both together at any time, beyond the blocks of the array.
  std::size_t epsilon_bytes = 0;
};

// How many blocks beyond those of the array the pool must have: one for each bucket's partly filled
// block, and some for records that straddle blocks and for blocks that the system refuses to take.
// For 0 to 8 bits.
constexpr std::size_t radix_sort_extra_blocks(int split_bits) {
  return (std::size_t{1} << std::clamp(split_bits, 0, 8)) + 4;
}

namespace detail {

// How an array is sorted: by how many threads, and into how many buckets, as radix_sort() says.
struct RadixSortWay {
  unsigned threads = 0;
  int first_split_bits = 0;
};

// Checks the bits that were asked for and opens the array. Returns the bits that the first level
// splits by; 0: without buckets.
VORTEX_EXPORT int first_radix_split(VanishingArrayBase& array, std::size_t count,
                                    std::size_t record_bytes, int first_split_bits);

// `in_place(records, threads)` sorts without buckets, and returns the bytes that it takes.
template <typename Record, typename KeyOf, typename Codec, typename InPlace>
RadixSortReport radix_sort_with(VanishingArrayBase& array, std::size_t count,
                                const SortRules<Record, KeyOf>& rules, const Codec& codec,
                                const RadixSortWay& way, const InPlace& in_place) {
  using Sorting = VanishingSort<Record, KeyOf, Codec>;
  using Bits = typename Sorting::Bits;
  const int bits = first_radix_split(array, count, sizeof(Record), way.first_split_bits);
  auto* const records = reinterpret_cast<Record*>(array.bytes());
  const EncodedKey encoded_key(rules.key_of, codec);
  RadixSortReport report;
  report.peak_blocks = array.held_blocks();
  if (sorted_or_reversed(records, count, encoded_key, way.threads)) return report;
  constexpr std::size_t kSample = Sorting::Sorter::kSample;
  Split<Bits> split;
  const bool by_team = way.first_split_bits == 0 &&
                       InPlaceSort<Record, KeyOf>::threads_that_pay(count, way.threads) > 1;
  bool buckets = !by_team && bits != 0 && count >= kSample;
  if (buckets) {
    std::array<Bits, kSample> sample;
    take_sample(
        count, kSample, [&](std::size_t at) noexcept { return encoded_key(records[at]); },
        sample.data());
    // The first level makes buckets fewer until what they leave partly filled and the working
    // memory together are 2^b blocks.
    const std::size_t most = std::size_t{1} << bits;
    const std::size_t block = array.pool().block_bytes();
    const std::size_t working = Sorting::usual_working_bytes(count, most);
    const std::size_t besides = 1 + (working + block - 1) / block;
    split = split_by_sample(sample.data(), kSample, KeyRange<Bits>{},
                            static_cast<unsigned>(4 * besides <= most ? most - besides : most));
    buckets = split.kind != SplitKind::kThreeWay;
  }
  if (!buckets) {
    report.working_bytes = in_place(records, by_team ? way.threads : 1);
    report.epsilon_bytes = report.working_bytes;
    return report;
  }
  Sorting sorting(array, count, rules, codec, split, bits);
  sorting.sort();
  report.first_split_bits = bits;
  report.peak_blocks = sorting.peak_blocks();
  report.working_bytes = sorting.working_bytes();
  report.epsilon_bytes = sorting.epsilon_bytes();
  return report;
}

// Records of `bytes`, by any key, stably.
template <std::size_t bytes>
RadixSortReport radix_sort_sized(VanishingArrayBase& array, std::size_t count, const SortKey& key,
                                 const RadixSortWay& way) {
  static_assert(
      bytes <= 1024,
      "the base case takes 256 records' room on the stack: sort the keys of larger records "
      "with their places");
  using Record = SizedRecord<bytes>;
  using KeyOf = KeyOfSized<bytes>;
  const SortRules<Record, KeyOf> rules{KeyOf(key)};
  const NoCodec<Record> codec;
  return radix_sort_with(array, count, rules, codec, way, [&](Record* records, unsigned threads) {
    if constexpr (has_compiled_sort<Record>(0)) {
      return sort_size_in_place(records, count, bytes, key, threads);
    } else {
      return sort_in_place(records, count, rules, codec, threads);
    }
  });
}

// Numbers of 4 and 8 bytes and pairs of them, compiled once: not stably where the key asks for no
// more.
VORTEX_EXPORT RadixSortReport radix_sort_words(VanishingArrayBase& array, std::size_t count,
                                               std::size_t record_bytes, const SortKey& key,
                                               const RadixSortWay& way);

}  // namespace detail

// Sorts the first size() records of the array by `key(record)`, an integer or floating-point
// number, which must not throw, must give the same for the same record, and is called by all
// threads at once; always stable.
//
// With one thread the first level reads the array while its memory flows away into 2^b bucket
// streams of the same pool; each bucket is then sorted and the result flows back into the array.
// Keys of which a sample finds one to be a quarter are sorted by moving chunks within the array
// (sort.h) instead, and so are arrays of fewer than 64 blocks and those whose pool has no blocks to
// spare; numbers of few values are counted, few runs merged, as sort() does. Several threads move
// chunks, too: they begin and end within the call, where sort() of ordinary memory would take them
// (from 2^20 records on, 2^21 of at most 8 bytes), and take the memory that it does. With buckets
// every block that moves would interrupt all of them.
//
// Memory with buckets: n and epsilon, and epsilon is at most 2^b blocks: those that the pool gives
// beyond the array's, the buffers, and the working memory of the deeper levels together. By the
// plan, that is at most a quarter of the array. The first
// level makes some buckets fewer for that. A bucket is sorted straight to its place only while that
// fits, otherwise where it is, and then copied. The bound does not hold where 2^b blocks are less
// than four times the working memory (1 to 2 MiB for most records: then that comes on top); keys
// for which two levels below the first are not enough can add up to 6 MiB, and a bucket more than
// twice as large as the average 32 bytes for each 4 KiB of it.
//
// Throws Error(EINVAL) for the options, Error(ENOMEM) when 2^b buckets that reserve room for all of
// the array exceed the address space, with nothing moved, or std::bad_alloc. When the system
// refuses to move a block the array holds its elements in some order: everything is brought back,
// repeating refused moves for a while. Only if the system goes on refusing does the error say that
// elements are missing. Thread-safe for different arrays, of one pool, too.
//
// `first_split_bits`, for measurements: 1 to 8 for 2^b buckets on the first level, however few
// records there are, which one thread fills. 0: within the array where several threads pay, else by
// the plan, which sees to the address space and to that quarter.
template <typename T, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, T> RadixSortReport radix_sort(VanishingArray<T>& array,
                                                                        KeyFunction key,
                                                                        SortOptions options = {},
                                                                        int first_split_bits = 0) {
  return detail::with_sort_key<T>(
      std::move(key), options.order, [&](auto, const detail::SortKey& sort_key) {
        return detail::radix_sort_sized<sizeof(T)>(array, array.size(), sort_key,
                                                   {options.threads, first_split_bits});
      });
}

// Sorts integers, floating-point numbers (in the total order of RadixKey) and KeyValue pairs, these
// by their keys. Keys of 4 and 8 bytes and pairs of 4+4 and 8+8 are sorted by code of their own.
// Pairs of 4+4 with equal keys come in the order of their values, unless `options.stable` is set;
// pairs of 8+8 keep their order, unless `first_split_bits` is given and `options.stable` is not
// set. As the other radix_sort() otherwise.
template <typename T>
requires detail::NumberOrPair<T> RadixSortReport radix_sort(VanishingArray<T>& array,
                                                            SortOptions options = {},
                                                            int first_split_bits = 0) {
  const detail::SortKey key = detail::own_key<T>(options.order, options.stable);
  const detail::RadixSortWay way{options.threads, first_split_bits};
  constexpr std::size_t kKeyBytes = detail::own_key_bytes<T>();
  if constexpr (kKeyBytes >= 4 && (kKeyBytes == sizeof(T) || 2 * kKeyBytes == sizeof(T))) {
    return detail::radix_sort_words(array, array.size(), sizeof(T), key, way);
  } else {
    return detail::radix_sort_sized<sizeof(T)>(array, array.size(), key, way);
  }
}

// The drop-in for the library's own buffer: radix_sort() with the options that every sort has.
template <typename T, typename KeyFunction>
requires detail::NumberKeyOf<KeyFunction, T>
void sort(VanishingArray<T>& array, KeyFunction key, SortOptions options = {}) {
  radix_sort(array, std::move(key), options);
}
template <typename T>
requires detail::NumberOrPair<T>
void sort(VanishingArray<T>& array, SortOptions options = {}) { radix_sort(array, options); }

struct BucketSortOptions {
  int bits = 7;  // 1 to 8: each level of the recursion has 2^bits buckets
  // Gather 1 KiB for a bucket and store it past the caches (section 5.5), where that pays.
  bool write_combining = true;
};

struct BucketSortReport {
  std::uint64_t faults = 0;       // of the array and the buckets
  std::size_t peak_blocks = 0;    // of both together, while it ran
  std::size_t epsilon_bytes = 0;  // memory beyond the blocks of the array, buffers included
};

// How many blocks beyond those of the array the pool must have: a partly filled one for each
// bucket (section 5.4), and for each level of the recursion those that its reader has not left.
// Only keys that agree in many digits have so many levels of more than a block: others take 2^bits
// and a few. For 1 to 8 bits.
constexpr std::size_t bucket_sort_extra_blocks(int bits) {
  const int split_bits = std::clamp(bits, 1, 8);
  return (std::size_t{1} << split_bits) + 4 * (64 / static_cast<std::size_t>(split_bits) + 3);
}

// Vortex-S as the paper draws it: sorts the first size() keys by Algorithm 9 (section 5.2), a
// depth-first bucket sort whose levels share 2^bits bucket streams. A key goes to its bucket by a
// store and is read back by a load; faults take blocks from the pool and give back what has been
// read. A bucket that has been sorted is truncated, since no load tells that it was the last. The
// result flows back into the array, whose elements are accessible afterwards, as those of load().
// What lies behind them, after a resize() to less, is given back. Not stable, which does not show;
// one thread. radix_sort() is faster, since its deeper levels stay in the caches. Where faults do
// not tell stores from loads, on other processors than x86-64 and aarch64, long sequences of keys
// that agree in many digits may take more blocks than said here.
//
// Throws Error, with nothing moved: EINVAL for the options, ENOMEM when the pool lacks
// bucket_sort_extra_blocks() and as many as the array's reader may come back, or the address space
// is refused; or std::bad_alloc. When the system
// refuses to move a block it throws what the fault meets, as an Error, and keys are lost: the array
// can then only be destroyed. Thread-safe for different arrays; one pool must have the extra blocks
// for each of them.
VORTEX_EXPORT BucketSortReport bucket_sort(VanishingArray<std::uint64_t>& array,
                                           const BucketSortOptions& options = {});

inline constexpr std::size_t kMaxPartitions = 4096;

// Moves the size() records of `input` to `buckets`: record r to the end of buckets[bucket_of(r)].
// Each record is read once and nothing is counted beforehand; the memory of what has been read
// becomes the memory of the buckets. `buckets` are empty, 2 to 4096, on the pool of the input,
// which needs a block for each bucket besides those of the input, and where records straddle blocks
// as many more as hold one record. Within a bucket the order of the input is kept.
//
// Returns how many records each bucket got; the input is empty afterwards. bucket_of must not
// throw. Throws Error: EINVAL for what is said above, EAGAIN when the pool is used up, or the
// kernel's refusal to move a block; the records that had been read are then in the buckets, or lost
// if no block could be had for them.
template <typename Record, typename BucketOf>
std::vector<std::uint64_t> partition(VanishingArray<Record>& input,
                                     std::span<const std::unique_ptr<BucketStream>> buckets,
                                     BucketOf bucket_of) {
  if (buckets.size() < 2 || buckets.size() > kMaxPartitions) {
    throw_error(EINVAL, "partition: " + std::to_string(buckets.size()) +
                            " buckets; it makes 2 to " + std::to_string(kMaxPartitions));
  }
  for (const auto& bucket : buckets) {
    if (&bucket->pool() != &input.pool() || bucket->held_blocks() != 0) {
      throw_error(EINVAL, "partition of '" + input.name() + "': bucket '" + bucket->name() +
                              "' is not empty, or not on the pool of the input");
    }
  }
  auto require = [&](int error) {
    if (error != 0) {
      throw_error(error, "partition of '" + input.name() +
                             "': a bucket cannot get a block (the pool needs one for each bucket "
                             "besides those of the input)");
    }
  };
  const std::size_t count = input.size();
  const std::size_t block_bytes = input.pool().block_bytes();
  require(detail::BlockRanges::open(input, 0, count * sizeof(Record)));
  std::vector<std::uint64_t> counts(buckets.size(), 0);
  const std::size_t part = std::max<std::size_t>(block_bytes / sizeof(Record), 1);
  auto give_back_up_to = [&](std::size_t records) {
    const std::uint64_t end = records == count ? input.reserved_bytes() : records * sizeof(Record);
    require(detail::BlockRanges::give_back(input, 0, end));
  };
  detail::BucketWriter<Record> writer(buckets);
  for (std::size_t at = 0; at < count; at += part) {
    const std::size_t here = std::min(part, count - at);
    if (writer.scatter(input.data() + at, here, bucket_of) != here) require(writer.error());
    require(writer.error());
    give_back_up_to(at + here);
  }
  require(writer.finish());
  for (std::size_t i = 0; i < buckets.size(); ++i) counts[i] = writer.count(i);
  input.clear();
  input.resize(0);
  return counts;
}

}}  // namespace vortex::v0

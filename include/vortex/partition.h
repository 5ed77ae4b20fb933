// Partitioning a vanishing array into bucket streams in one pass (Vortex paper, section 6.6).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "vortex/detail/array/bucket_writer.h"
#include "vortex/error.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

inline constexpr std::size_t kMaxPartitions = 4096;

// Moves the size() records of `input` to `buckets`: record r to the end of buckets[bucket_of(r)].
// Each record is read once and nothing is counted beforehand; the memory of what has been read
// becomes the memory of the buckets. `buckets` are empty, 2 to 4096, on the pool of the input,
// which needs a block for each bucket besides those of the input. Within a bucket the order of the
// input is kept.
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
  require(input.open_range(0, count * sizeof(Record)));
  std::vector<std::uint64_t> counts(buckets.size(), 0);
  const std::size_t part = std::max<std::size_t>(block_bytes / sizeof(Record), 1);
  auto give_back_up_to = [&](std::size_t records) {
    const std::uint64_t end = records == count ? input.reserved_bytes() : records * sizeof(Record);
    require(input.give_back_range(0, end));
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

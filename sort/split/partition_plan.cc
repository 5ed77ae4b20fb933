#include "sort/split/partition_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>

#include "sort/plan/least_memory.h"
#include "sort/split/splitters.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"

namespace vortex { inline namespace v0 {

namespace {

// Names, a stream, its requests and the open file.
constexpr std::uint64_t kBytesOfPart = std::uint64_t{24} << 10;
constexpr std::uint64_t kBesideParts = std::uint64_t{64} << 10;
constexpr std::size_t kMostReadAhead = 16;
constexpr std::size_t kMostWriteBehind = 2;
// Of requests that cost what moving their bytes does, and of those that an arm has to go for.
constexpr std::size_t kMostBlockBytes = std::size_t{2} << 20;
constexpr std::size_t kMostFarBlockBytes = std::size_t{16} << 20;

std::uint64_t bytes_beside_pool(const PartitionRequest& request) {
  const std::uint64_t of_part =
      kBytesOfPart + Splitters::kBytesOfSplitter + std::uint64_t{request.record_bytes};
  return detail::saturating_sum(program_bytes(request.memory_bytes) + kBesideParts,
                                request.parts * of_part);
}

std::size_t least_read_ahead(const PartitionRequest& request) {
  return std::clamp<std::size_t>(2 * request.disks, 2, kMostReadAhead);
}

std::uint64_t blocks_of(const PartitionRequest& request, std::size_t block_bytes,
                        std::size_t write_behind, std::size_t read_ahead) {
  const std::size_t comeback = detail::units_for(request.record_bytes, block_bytes);
  return request.parts * (1 + write_behind) + comeback + 1 + read_ahead;
}

// The largest block of which the least number fits; 0: none.
std::size_t largest_block(const PartitionRequest& request, std::uint64_t pool_bytes) {
  const bool far = request.request_cost_bytes > kExpensiveRequest;
  std::size_t most = far ? kMostFarBlockBytes : kMostBlockBytes;
  if (request.input_bytes) {  // what a part has no use for
    const std::uint64_t of_part = *request.input_bytes / request.parts / 2;
    most = std::min<std::size_t>(
        most, std::bit_ceil(std::max<std::uint64_t>(std::min<std::uint64_t>(of_part, most), 1)));
  }
  std::size_t block = std::max(most, kMinBlockBytes);
  if (request.block_bytes != 0) block = request.block_bytes;
  for (;; block /= 2) {
    const std::uint64_t blocks = blocks_of(request, block, 1, least_read_ahead(request));
    if (detail::saturating_product(blocks, std::uint64_t{block}) <= pool_bytes) return block;
    if (request.block_bytes != 0 || block == kMinBlockBytes) return 0;
  }
}

std::optional<PartitionPlan> plan_within(const PartitionRequest& request) {
  const std::uint64_t beside = bytes_beside_pool(request);
  if (beside > request.memory_bytes) return std::nullopt;
  const std::uint64_t pool_bytes = request.memory_bytes - beside;
  PartitionPlan plan;
  plan.block_bytes = largest_block(request, pool_bytes);
  if (plan.block_bytes == 0) return std::nullopt;
  plan.comeback_blocks = detail::units_for(request.record_bytes, plan.block_bytes);
  plan.read_ahead = least_read_ahead(request);
  const std::uint64_t fit = pool_bytes / plan.block_bytes;
  const auto blocks = [&](std::size_t behind, std::size_t ahead) {
    return blocks_of(request, plan.block_bytes, behind, ahead);
  };
  while (plan.write_behind < kMostWriteBehind &&
         blocks(plan.write_behind + 1, plan.read_ahead) <= fit) {
    ++plan.write_behind;
  }
  const std::uint64_t left = fit - blocks(plan.write_behind, plan.read_ahead);
  plan.read_ahead = std::min<std::size_t>(plan.read_ahead + left, kMostReadAhead);
  plan.pool_blocks = blocks(plan.write_behind, plan.read_ahead);
  plan.memory_bytes = beside + plan.pool_blocks * plan.block_bytes;
  return plan;
}

}  // namespace

PartitionPlan plan_partition(const PartitionRequest& request) {
  if (const auto plan = plan_within(request)) return *plan;
  const std::uint64_t least = least_memory(request.memory_bytes, [&](std::uint64_t bytes) {
    PartitionRequest more = request;
    more.memory_bytes = bytes;
    return plan_within(more).has_value();
  });
  throw Error(ENOMEM, format_bytes(request.memory_bytes) + " of memory are too little for " +
                          std::to_string(request.parts) + " parts" +
                          (least == 0 ? std::string() : ": the least is " + format_bytes(least)));
}

}}  // namespace vortex::v0

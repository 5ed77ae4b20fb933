#include "sort/merge/merge_passes.h"

#include <algorithm>
#include <bit>

#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

std::size_t default_prefetch_blocks(std::size_t read_buffers, unsigned disks) noexcept {
  const std::size_t two_a_disk = 2 * std::size_t{disks};
  if (read_buffers <= two_a_disk) return std::max<std::size_t>(read_buffers, 1);
  return two_a_disk + (read_buffers - two_a_disk) * 3 / 10;
}

std::size_t default_write_blocks(std::size_t buffers, unsigned disks) noexcept {
  if (buffers < 2) return buffers;
  return std::min(std::max(buffers / 4, 2 * std::size_t{disks}), buffers - 1);
}

std::uint64_t default_merge_block_bytes(std::uint64_t memory_bytes, std::uint64_t runs,
                                        unsigned disks) noexcept {
  const std::uint64_t blocks = runs + 4 * std::uint64_t{disks};
  return std::bit_floor(memory_bytes / blocks) / 2;
}

unsigned merge_passes(std::uint64_t runs, std::uint64_t merge_order) noexcept {
  unsigned passes = 0;
  for (; runs > 1; ++passes) runs = detail::units_for(runs, merge_order);
  return passes;
}

std::uint64_t smallest_merge_order(std::uint64_t runs, std::uint64_t largest_order) noexcept {
  const unsigned passes = merge_passes(runs, largest_order);
  std::uint64_t low = 2, high = std::max<std::uint64_t>(largest_order, 2);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (merge_passes(runs, middle) <= passes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

MergePass next_merge_pass(std::uint64_t runs, std::uint64_t most,
                          std::uint64_t largest_order) noexcept {
  std::uint64_t left = most;
  while (runs / largest_order >= left && runs > left * largest_order) left *= largest_order;
  const std::uint64_t fewer = runs - left;
  const std::uint64_t groups = (fewer + largest_order - 2) / (largest_order - 1);
  return {.merged = fewer + groups, .groups = groups};
}

MergeCost cost_of_passes(std::uint64_t runs, std::uint64_t most,
                         std::uint64_t largest_order) noexcept {
  MergeCost cost;
  const std::uint64_t all = runs;
  for (; runs > most; ++cost.passes) {
    const MergePass pass = next_merge_pass(runs, most, largest_order);
    cost.merged += cost.passes == 0 ? pass.merged : all;
    runs -= pass.merged - pass.groups;
  }
  return cost;
}

}}  // namespace vortex::v0

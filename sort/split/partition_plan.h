// What a partition does with its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

struct PartitionRequest {
  std::size_t parts = 0;  // from 1 to kMostParts
  std::size_t record_bytes = 0;
  std::size_t disks = 1;  // of the parts
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint64_t> input_bytes = {};
  std::size_t block_bytes = 0;  // 0: what suits the memory
  std::uint64_t request_cost_bytes = 0;
};

// With R parts on D disks a pool has 2 R blocks, one of each part being filled and one on its way
// to the disk, and 2 D or more that are read ahead of the program (Barve and Vitter, section 6.1,
// without the input). What is left makes the blocks larger, then has more of them on their way.
struct PartitionPlan {
  std::size_t block_bytes = 0;
  std::size_t pool_blocks = 0;
  std::size_t write_behind = 1;     // blocks of each part on their way
  std::size_t read_ahead = 0;       // blocks
  std::size_t comeback_blocks = 1;  // of the input: a record may lie in so many, and another
  std::uint64_t memory_bytes = 0;   // for everything
};

// Throws Error(ENOMEM), with the least memory that would do.
PartitionPlan plan_partition(const PartitionRequest& request);

}}  // namespace vortex::v0

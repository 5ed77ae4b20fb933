// Splitters that divide inputs into parts of about equal lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sort/job/sort_files.h"
#include "sort/split/splitters.h"
#include "vortex/disk.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

struct SampledSplitters {
  std::vector<std::byte> records = {};
  std::vector<DividedKey> divided = {};  // empty unless wanted
  std::uint64_t sampled = 0;             // records that were read
  std::uint64_t bytes = 0;               // that the disk read
};

struct SampleRequest {
  const std::vector<std::unique_ptr<SortInput>>& inputs;
  const RecordOrder& order;
  std::size_t parts;
  bool divide_equal_keys;
  std::uint64_t memory_bytes;
  const SortResources& resources;
  Disk* disk;
};

// Reads records of the inputs, which have lengths, at random places: one in each of several
// stretches of equal lengths for each part, a few neighbours at each place; all of inputs that have
// no more. Takes a half of the memory at most. Blocks; allocates. Throws Error: ECANCELED, and what
// the disk reports.
SampledSplitters sample_splitters(const SampleRequest& request);

}}  // namespace vortex::v0

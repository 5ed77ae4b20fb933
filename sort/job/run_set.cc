#include "sort/job/run_set.h"

#include <utility>

#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

RunSet::RunSet(BlockPool& pool, SortWatch& watch, RunStoreOptions for_store, const Packing& packing)
    : pool_(&pool), watch_(watch), for_store_(std::move(for_store)), how_packed_(packing) {
  for_store_.sparse = packing.compression == RunCompression::kAlways;
}

RunSet::~RunSet() = default;

void RunSet::use(BlockPool& pool) noexcept {
  pool_ = &pool;
  if (store_) store_->use(pool);
}

void RunSet::open() {
  if (store_) return;
  packing_.emplace(how_packed_.compression, how_packed_.block_bytes, how_packed_.record_bytes);
  store_.emplace(*pool_, for_store_);
}

std::vector<RunStoreDiskStatistics> RunSet::disks() const {
  return store_ ? store_->statistics() : std::vector<RunStoreDiskStatistics>{};
}

void RunSet::count_merge_of_inputs(unsigned merges) noexcept {
  counts_.merges += merges;
  counts_.passes = 1;
}

void RunSet::count_last_merge() noexcept {
  ++counts_.merges;
  ++counts_.passes;
}

std::uint64_t RunSet::bytes_of(std::size_t first, std::size_t count) const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < first + count; ++i) bytes += bytes_of_run(i);
  return bytes;
}

// Where the `count` neighbours with the fewest bytes begin.
std::size_t RunSet::lightest(std::size_t count) const noexcept {
  std::uint64_t bytes = bytes_of(0, count);
  std::uint64_t least = bytes;
  std::size_t best = 0;
  for (std::size_t i = 1; i + count <= size(); ++i) {
    bytes += bytes_of_run(i + count - 1) - bytes_of_run(i - 1);
    if (bytes > least) continue;
    least = bytes;
    best = i;
  }
  return best;
}

void RunSet::reduce(std::uint64_t most, std::uint64_t largest) {
  while (size() > most) {
    merge_neighbours(next_merge_pass(size(), most, largest));
    ++counts_.passes;
  }
}

// Merges the neighbours with the fewest bytes. The others stay as they are.
void RunSet::merge_neighbours(const MergePass& pass) {
  std::size_t first = lightest(pass.merged);
  std::uint64_t left = pass.merged;
  watch_.begin(SortPhase::kMerging, bytes_of(first, left));
  for (std::uint64_t groups = pass.groups; groups > 0; --groups) {
    watch_.expect_going();
    const std::size_t count = detail::units_for(left, groups);
    merge_to_one(first, count);
    ++counts_.merges;
    ++first;
    left -= count;
  }
}

}}  // namespace vortex::v0

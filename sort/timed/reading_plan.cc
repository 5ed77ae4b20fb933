#include "sort/timed/reading_plan.h"

namespace vortex { inline namespace v0 {

ReadingPlan::ReadingPlan(PrefetchKind kind, const std::vector<NeededBlock>& order,
                         std::uint32_t readers, std::size_t buffers, unsigned disks,
                         const std::vector<unsigned>& block_times)
    : parts_(readers), entries_(order.size()) {
  for (const NeededBlock& block : order) {
    Part& part = parts_[block.run];
    if (part.blocks++ == 0) part.first = block.index;
  }
  std::size_t begin = 0;
  for (Part& part : parts_) {
    part.begin = begin;
    begin += part.blocks;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    find(order[i].run, order[i].index)->position = static_cast<Position>(i);
  }
  // Neither are they first blocks of runs, for some are there already, nor does a disk whose reads
  // have ended wait long for the next call of a reader.
  constexpr unsigned kReadsOfDisk = 8;
  const PrefetchOptions options{.disks = disks, .buffers = buffers, .held_blocks = 1};
  policy_ = make_prefetch_policy(kind, std::make_unique<KnownOrder>(order), options, 0, block_times,
                                 kReadsOfDisk);
}

ReadingPlan::Entry* ReadingPlan::find(std::uint32_t reader, std::uint64_t index) noexcept {
  if (reader >= parts_.size()) return nullptr;
  const Part& part = parts_[reader];
  if (index < part.first || index - part.first >= part.blocks) return nullptr;
  return &entries_[part.begin + (index - part.first)];
}

}}  // namespace vortex::v0

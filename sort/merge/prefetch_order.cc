#include "sort/merge/prefetch_order.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <deque>
#include <functional>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

struct WriteQueue {
  std::deque<Position> waiting;  // the first one is being written while `busy` is not 0
  unsigned block_time = 1;
  unsigned busy = 0;  // steps until that write ends
};

}  // namespace

PrefetchOrder optimal_prefetch_order(std::span<const std::uint32_t> disk_of, unsigned disks,
                                     std::size_t buffers, std::span<const unsigned> block_times) {
  if (disks == 0 || buffers == 0) {
    throw Error(EINVAL, "a prefetch order needs at least one disk and one buffer, not " +
                            std::to_string(disks) + " and " + std::to_string(buffers));
  }
  if (!block_times.empty() &&
      (block_times.size() != disks || std::ranges::count(block_times, 0U))) {
    throw Error(EINVAL,
                "a prefetch order needs a block time above 0 for each disk, or none at all");
  }
  std::vector<WriteQueue> queues(disks);
  for (std::size_t disk = 0; disk < block_times.size(); ++disk) {
    queues[disk].block_time = block_times[disk];
  }

  PrefetchOrder result;
  result.order.reserve(disk_of.size());
  result.step.reserve(disk_of.size());
  std::vector<Position> written;  // by one step
  std::size_t buffered = 0;
  auto entering = static_cast<Position>(disk_of.size());
  while (result.order.size() < disk_of.size()) {
    for (; buffered < buffers && entering > 0; ++buffered) {
      --entering;
      assert(disk_of[entering] < disks);
      queues[disk_of[entering]].waiting.push_back(entering);
    }
    written.clear();
    for (WriteQueue& queue : queues) {
      if (queue.waiting.empty()) continue;
      if (queue.busy == 0) queue.busy = queue.block_time;
      if (--queue.busy != 0) continue;
      written.push_back(queue.waiting.front());
      queue.waiting.pop_front();
    }
    buffered -= written.size();
    // Blocks of one step are fetched in the order in which they are needed.
    std::sort(written.begin(), written.end(), std::greater<>());
    for (const Position position : written) {
      result.order.push_back(position);
      result.step.push_back(result.steps);
    }
    ++result.steps;
  }
  std::reverse(result.order.begin(), result.order.end());
  std::reverse(result.step.begin(), result.step.end());
  for (std::uint32_t& step : result.step) step = result.steps - 1 - step;
  return result;
}

}}  // namespace vortex::v0

// The blocks that readers need next, and the policy that reads them ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sort/merge/order_of_need.h"
#include "sort/merge/prefetch_policy.h"

namespace vortex { inline namespace v0 {

// A part of the order of need, from where the readers stand on: what the memory holds a few times.
// A new plan follows before its end is reached. Blocks that readers hold are no longer part of it:
// for the policy a block that is taken is given back at once.
class ReadingPlan {
 public:
  static constexpr std::uint32_t kNoBuffer = ~std::uint32_t{0};

  struct Entry {
    Position position = kNoPosition;
    std::uint32_t buffer = kNoBuffer;
    bool granted = false;  // by the policy
  };

  // `order`: of blocks that follow each other in each reader, `readers` numbers at most. `buffers`
  // are those beside the blocks that readers hold: one a reader and one a disk at least.
  ReadingPlan(PrefetchKind kind, const std::vector<NeededBlock>& order, std::uint32_t readers,
              std::size_t buffers, unsigned disks, const std::vector<unsigned>& block_times);

  PrefetchPolicy& policy() noexcept { return *policy_; }

  // Null for what the plan does not know.
  Entry* find(std::uint32_t reader, std::uint64_t index) noexcept;
  // The number of the first block of the reader that it does not know, from which on it is ready.
  std::uint64_t end(std::uint32_t reader) const noexcept {
    return reader < parts_.size() ? parts_[reader].first + parts_[reader].blocks : 0;
  }

 private:
  struct Part {
    std::uint64_t first = 0;  // of the blocks
    std::size_t blocks = 0;
    std::size_t begin = 0;  // in entries_
  };

  std::vector<Part> parts_;  // of each reader
  std::vector<Entry> entries_;
  std::unique_ptr<PrefetchPolicy> policy_;
};

}}  // namespace vortex::v0

// One user's share of a pool: a guaranteed minimum and a maximum.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "vortex/block_pool.h"

namespace vortex::inline v0 {

// Draws blocks from a pool. Admission happens here, outside faults: the constructor sets `minimum`
// blocks aside or throws, so that no thread ever waits inside a fault for memory that only it could
// free. Above the minimum, try_take() succeeds while the pool has blocks that nobody else is
// guaranteed.
//
// try_take() and give_back() may be called inside a fault and from any thread. Quotas of one pool
// may pass blocks to each other: one gives back, the other takes.
class BlockQuota {
 public:
  static constexpr std::size_t kNoMaximum = static_cast<std::size_t>(-1);

  // Throws Error(ENOMEM) when `minimum` blocks cannot be guaranteed, naming the pool, what others
  // hold and the pool size that would do. `user` names this quota in messages.
  BlockQuota(BlockPool& pool, std::size_t minimum, std::size_t maximum, std::string user);
  // Every block must have been given back; otherwise the process ends with a line that says so.
  ~BlockQuota();
  BlockQuota(const BlockQuota&) = delete;
  BlockQuota& operator=(const BlockQuota&) = delete;

  // See BlockGrant.
  BlockGrant try_take() noexcept;
  // The block must be resting (withdraw it first), or lost (BlockPool::give_up).
  void give_back(Block block) noexcept;

  BlockPool& pool() const noexcept { return pool_; }
  // Blocks taken and not given back, and those that are lost.
  std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  std::size_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::size_t minimum() const noexcept { return minimum_; }
  std::size_t maximum() const noexcept { return maximum_; }
  const std::string& user() const noexcept { return user_; }

 private:
  friend class BlockPool;

  BlockPool& pool_;
  std::size_t minimum_;
  std::size_t maximum_;
  std::string user_;
  // Changed under the pool's lock.
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> lost_{0};
};

}  // namespace vortex::inline v0

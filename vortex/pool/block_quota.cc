#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/pool/block_pool_state.h"

namespace vortex { inline namespace v0 {

BlockQuota::BlockQuota(BlockPool& pool, std::size_t minimum, std::size_t maximum, std::string user)
    : pool_(pool), user_(std::move(user)), minimum_(minimum), maximum_(maximum) {
  if (maximum < minimum) {
    throw Error(EINVAL, user_ + ": a maximum of " + std::to_string(maximum) +
                            " blocks is below the minimum of " + std::to_string(minimum));
  }
  BlockPool::State& s = *pool_.state_;
  std::size_t taken = 0;
  {
    std::lock_guard lock(s.mutex);
    // Blocks that others hold above their minimum cannot be promised to anybody.
    taken = s.in_use + s.unclaimed;
    if (minimum <= pool_.block_count() - taken) {
      ++s.quotas;
      s.guaranteed += minimum;
      s.unclaimed += minimum;
      return;
    }
  }
  throw Error(ENOMEM, user_ + " needs at least " + std::to_string(minimum) + " blocks of " +
                          format_bytes(pool_.block_bytes()) + "; pool '" + pool_.name() + "' has " +
                          std::to_string(pool_.block_count()) +
                          ", of which others hold or are guaranteed " + std::to_string(taken) +
                          ": make the pool at least " +
                          format_bytes(detail::saturating_product(
                              detail::saturating_sum(taken, minimum), pool_.block_bytes())));
}

BlockQuota::~BlockQuota() {
  if (pool_.inherited()) return;  // a forked child has the counts of another process's memory
  if (held() != lost()) {
    LineBuffer<256> line;
    line.text("vortex: ").text(user_).text(" ends while it still holds ").number(held() - lost());
    line.text(" blocks of pool '").text(pool_.name()).text("'");
    fatal(line.view());
  }
  BlockPool::State& s = *pool_.state_;
  std::lock_guard lock(s.mutex);
  --s.quotas;
  s.guaranteed -= minimum();
  s.unclaimed -= minimum() - std::min(minimum(), lost());
}

void BlockQuota::lower_to(std::size_t blocks) noexcept {
  BlockPool::State& s = *pool_.state_;
  std::lock_guard lock(s.mutex);
  const std::size_t before = minimum();
  const std::size_t least = std::min(before, std::max(blocks, held()));
  s.guaranteed -= before - least;
  s.unclaimed -= std::max(before, held()) - std::max(least, held());
  minimum_.store(least, std::memory_order_relaxed);
  maximum_.store(std::min(maximum(), std::max(blocks, held())), std::memory_order_relaxed);
}

void BlockQuota::set_held(std::size_t blocks) noexcept {
  held_.store(blocks, std::memory_order_relaxed);
}

BlockGrant BlockQuota::try_take() noexcept {
  BlockPool::State& s = *pool_.state_;
  for (bool admitted = false;;) {
    BlockPool::State::ColdBlocks cold;
    {
      std::lock_guard lock(s.mutex);
      if (!admitted) {
        const bool guaranteed = held() < minimum();
        if (held() >= maximum() || (!guaranteed && pool_.block_count() - s.in_use <= s.unclaimed)) {
          return {Block{}, EAGAIN};
        }
        if (guaranteed) --s.unclaimed;
        set_held(held() + 1);
        s.peak_in_use = std::max(s.peak_in_use, ++s.in_use);
        admitted = true;
      }
      if (!s.warm_blocks.empty()) return {Block{s.pop_warm()}, 0};
      cold = s.take_cold();
    }
    if (cold.count == 0) {
      // The last free block is in the hands of a thread that populates it, for microseconds.
      sched_yield();
      continue;
    }
    const int error = s.populate(cold);
    std::lock_guard lock(s.mutex);
    if (error == 0) {
      s.populated += cold.count;
      while (cold.count > 1) s.push_warm(cold.first + --cold.count);
      return {Block{cold.first}, 0};
    }
    s.give_back_cold(cold);
    set_held(held() - 1);
    --s.in_use;
    if (held() < minimum()) ++s.unclaimed;
    return {Block{}, error};
  }
}

void BlockQuota::give_back(Block block) noexcept {
  BlockPool::State& s = *pool_.state_;
  if (pool_.lost(block)) {
    // Held for ever, so that nobody is promised it.
    std::lock_guard lock(s.mutex);
    lost_.store(lost() + 1, std::memory_order_relaxed);
    ++s.lost;
    return;
  }
  if (!pool_.resting(block)) {
    LineBuffer<256> line;
    line.text("vortex: ").text(user_).text(" gives back block ").number(block.index);
    line.text(" of pool '").text(pool_.name()).text("' while it is placed");
    fatal(line.view());
  }
  std::lock_guard lock(s.mutex);
  s.push_warm(block.index);
  --s.in_use;
  set_held(held() - 1);
  if (held() < minimum()) ++s.unclaimed;
}

std::size_t BlockPool::retire(std::size_t blocks) noexcept {
  State& s = *state_;
  std::size_t retired = 0;
  while (retired < blocks) {
    std::uint32_t warm = Block::kNone;
    bool none = false;
    {
      std::lock_guard lock(s.mutex);
      const std::size_t free = block_count_ - s.in_use - s.unclaimed;
      const std::size_t most = std::min(free, blocks - retired);
      if (most == 0) break;
      // Blocks that hold no memory cost nothing, neither now nor later.
      const State::ColdBlocks cold = s.take_cold();
      std::size_t taken = cold.count;
      if (taken > most) {
        s.give_back_cold(cold);
        taken = 0;
      }
      if (taken == 0 && !s.warm_blocks.empty()) {
        warm = s.pop_warm();
        --s.populated;
        taken = 1;
      }
      s.in_use += taken;
      s.retired += taken;
      retired += taken;
      none = taken == 0;
    }
    if (warm != Block::kNone) s.memory->discard(home(Block{warm}), block_bytes_);
    if (!none) continue;
    // Others of their huge page stay, which come with memory for all of it; or all that are free
    // are in the hands of a thread that populates them, for microseconds.
    int error = 0;
    if (!s.warm_some(&error)) sched_yield();
    if (error != 0) break;
  }
  return retired;
}

}}  // namespace vortex::v0

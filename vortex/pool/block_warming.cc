#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>

#include "vortex/error.h"
#include "vortex/pool/block_pool_state.h"

namespace vortex { inline namespace v0 {

std::size_t BlockPool::State::plan_huge_pages() noexcept {
  if (pool.block_bytes() % kHugePageBytes == 0) return pool.pool_bytes();
  if (kHugePageBytes % pool.block_bytes() != 0) return 0;
  blocks_in_huge_page = static_cast<std::uint32_t>(kHugePageBytes / pool.block_bytes());
  whole_huge_pages = static_cast<std::uint32_t>(pool.pool_bytes() / kHugePageBytes);
  return whole_huge_pages * kHugePageBytes;
}

void BlockPool::wait_until_warm() {
  State& s = *state_;
  const auto refusal = [this](int error) {
    return Error(error, "pool '" + name_ + "': the system cannot supply " +
                            format_bytes(pool_bytes()) + " of memory; use a smaller pool");
  };
  // Made now: the pool may come to hold the last memory that the system grants.
  const Error no_memory = refusal(ENOMEM);
  int error = 0;
  while (s.warm_some(&error)) {
  }
  // The kernel may have refused the blocks that the thread had in hand. Then they lie with the cold
  // blocks again.
  s.end_warming();
  while (error == 0 && s.warm_some(&error)) {
  }
  if (error == 0) return;
  if (error == ENOMEM) throw no_memory;
  throw refusal(error);
}

BlockPool::State::ColdBlocks BlockPool::State::take_cold() noexcept {
  if (cold_blocks.empty()) return {};
  // The blocks of a huge page lie together, lowest on top.
  const std::uint32_t first = cold_blocks.back();
  const bool whole = first / blocks_in_huge_page < whole_huge_pages;
  const std::uint32_t count = whole ? blocks_in_huge_page : 1;
  cold_blocks.resize(cold_blocks.size() - count);
  return {first, count};
}

void BlockPool::State::give_back_cold(ColdBlocks blocks) noexcept {
  while (blocks.count > 0) cold_blocks.push_back(blocks.first + --blocks.count);
}

int BlockPool::State::populate(ColdBlocks blocks) noexcept {
  return memory->populate(home(blocks.first), blocks.count * pool.block_bytes());
}

void BlockPool::State::push_warm(std::uint32_t index) noexcept {
  warm_blocks.push_back(index);
  if (pool.aliases()) std::push_heap(warm_blocks.begin(), warm_blocks.end(), std::greater<>());
}

std::uint32_t BlockPool::State::pop_warm() noexcept {
  if (pool.aliases()) std::pop_heap(warm_blocks.begin(), warm_blocks.end(), std::greater<>());
  const std::uint32_t index = warm_blocks.back();
  warm_blocks.pop_back();
  return index;
}

bool BlockPool::State::warm_some(int* error) noexcept {
  ColdBlocks blocks;
  {
    std::lock_guard lock(mutex);
    blocks = take_cold();
  }
  if (blocks.count == 0) return false;
  *error = populate(blocks);
  std::lock_guard lock(mutex);
  if (*error != 0) {
    give_back_cold(blocks);
    return false;
  }
  populated += blocks.count;
  while (blocks.count > 0) push_warm(blocks.first + --blocks.count);
  return true;
}

void BlockPool::State::start_warming() {
  // Without a thread the takers populate, as on demand. On an error they try again and report it.
  warmer.start([this] {
    int error = 0;
    while (!stop_warming.load(std::memory_order_relaxed) && warm_some(&error)) {
    }
  });
}

void BlockPool::State::end_warming() noexcept {
  std::lock_guard lock(warmer_mutex);
  stop_warming.store(true, std::memory_order_relaxed);
  warmer.join();
}
}}  // namespace vortex::v0

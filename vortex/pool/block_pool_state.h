// What a pool knows of its blocks.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/os/map_budget.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

struct BlockPool::State {
  explicit State(BlockPool& whose) : pool(whose) {}

  std::byte* home(std::uint32_t index) const noexcept { return pool.home(Block{index}); }
  std::string description() const;

  // The block is at `address` now, unless the kernel refused that. Returns what it said.
  int settle(Block block, BlockMemory::Placed done, std::byte* address) noexcept;

  // How much of the pool, from its beginning on, is to lie on huge pages. Blocks below their size
  // that fill whole ones are populated together.
  std::size_t plan_huge_pages() noexcept;
  // Blocks, one after the other, that are populated together.
  struct ColdBlocks {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  // Under `mutex`. None: a count of 0.
  ColdBlocks take_cold() noexcept;
  void give_back_cold(ColdBlocks blocks) noexcept;
  int populate(ColdBlocks blocks) noexcept;
  void push_warm(std::uint32_t index) noexcept;
  std::uint32_t pop_warm() noexcept;
  // Populates blocks that never were, and pushes them to `warm_blocks`. False: none left, or an
  // error.
  bool warm_some(int* error) noexcept;
  void start_warming();
  void end_warming() noexcept;

  BlockPool& pool;
  const EngineHold engine;
  FutexMutex map_mutex;  // held by whoever changes map_budget
  std::optional<MapBudget> map_budget;
  std::unique_ptr<BlockMemory> memory;

  FutexMutex mutex;
  // Neither grows beyond its first capacity. A stack, since the block used last is the warmest in
  // cache; among aliases a heap with the lowest on top, since neighbours that are mapped one after
  // the other share a map.
  std::vector<std::uint32_t> warm_blocks;
  std::vector<std::uint32_t> cold_blocks;  // never populated yet
  // Blocks below 2 MiB that fill whole huge pages are populated together.
  std::uint32_t blocks_in_huge_page = 1;
  std::uint32_t whole_huge_pages = 0;
  std::size_t in_use = 0;
  std::size_t lost = 0;     // of in_use: given up where the kernel refused to move them
  std::size_t retired = 0;  // of in_use: their memory went back to the system
  std::size_t peak_in_use = 0;
  std::size_t guaranteed = 0;  // the minimums of all quotas, added up
  std::size_t unclaimed = 0;   // of guaranteed: blocks not held at present
  std::size_t quotas = 0;
  std::size_t populated = 0;

  std::atomic<std::uint64_t> placements{0};
  std::atomic<std::uint64_t> withdrawals{0};
  std::atomic<bool> stop_warming{false};
  FutexMutex warmer_mutex;  // held by whoever joins the thread
  MaskedThread warmer;
  const int owner_pid = getpid();
};

}}  // namespace vortex::v0

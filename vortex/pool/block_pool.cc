#include "vortex/block_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"
#include "vortex/pool/block_pool_state.h"

namespace vortex { inline namespace v0 {

namespace {

std::size_t chosen_block_bytes(const BlockPoolOptions& options) {
  const std::string who = "pool '" + options.name + "'";
  std::size_t bytes = options.block_bytes;
  if (bytes == 0) {
    bytes = kDefaultBlockBytes;
    while (bytes < kMaxBlockBytes &&
           BlockPool::maps_needed(options.pool_bytes / bytes) > MapBudget::available()) {
      bytes *= 2;
    }
  }
  if (bytes % os::page_bytes() != 0 || bytes < kMinBlockBytes || bytes > kMaxBlockBytes) {
    throw Error(EINVAL, who + ": a block of " + format_bytes(bytes) +
                            " is not possible; blocks are multiples of the page (" +
                            format_bytes(os::page_bytes()) + "), from " +
                            format_bytes(kMinBlockBytes) + " to " + format_bytes(kMaxBlockBytes));
  }
  if (options.pool_bytes < bytes) {
    throw Error(EINVAL, who + ": " + format_bytes(options.pool_bytes) +
                            " do not hold one block of " + format_bytes(bytes) +
                            "; the least that works is " + format_bytes(bytes));
  }
  return bytes;
}

std::unique_ptr<BlockMemory> make_memory(const BlockMemoryOptions& options,
                                         const EngineHold& engine) {
  const PoolKind kind = options.kind;
  if (engine.userfaultfd() != nullptr) {
    if (kind != PoolKind::kAliases) return make_userfault_blocks(options, engine.userfaultfd());
    throw Error(ENOTSUP, options.who +
                             ": the engine userfaultfd moves its blocks; use another kind of pool, "
                             "or the engine of signals (VORTEX_ENGINE=signal)");
  }
  switch (kind) {
    case PoolKind::kMoves:
      return make_moved_blocks(options);
    case PoolKind::kAliases:
      return make_aliased_blocks(options);
    case PoolKind::kOneThread:
    case PoolKind::kThreads:
      break;
  }
  const bool moves_first = kind == PoolKind::kOneThread;
  try {
    return moves_first ? make_moved_blocks(options) : make_aliased_blocks(options);
  } catch (const Error& error) {
    // Moves were refused the memory itself: there is none to map twice, either.
    if (moves_first && error.code().value() == ENOMEM) throw;
    if (!moves_first) return make_moved_blocks(options);
    try {
      return make_aliased_blocks(options);
    } catch (const Error&) {
    }
    throw;  // the kernel that is too old is the news
  }
}

}  // namespace

void expect_block_count(const std::string& who, const char* option, std::size_t blocks) {
  if (blocks <= kMaxPoolBlocks) return;
  throw Error(EINVAL, who + ": " + option + " is " + std::to_string(blocks) + "; the most is " +
                          std::to_string(kMaxPoolBlocks));
}

BlockPool::BlockPool(const BlockPoolOptions& options)
    : name_(options.name),
      block_bytes_(chosen_block_bytes(options)),
      block_count_(std::min(options.pool_bytes / block_bytes_, kMaxPoolBlocks)),
      state_(std::make_unique<State>(*this)) {
  State& s = *state_;
  const std::string who = s.description();
  const std::size_t most_placed = options.most_placed != 0 ? options.most_placed : block_count_;
  s.map_budget.emplace(maps_needed(std::min(most_placed, block_count_)), who);
  BlockMemoryOptions exact{options, who, options.huge_pages ? s.plan_huge_pages() : 0};
  exact.block_bytes = block_bytes_;
  exact.pool_bytes = pool_bytes();
  s.memory = make_memory(exact, s.engine);
  aliases_ = s.memory->aliases();
  homes_ = s.memory->homes();

  where_.resize(block_count_);
  s.warm_blocks.reserve(block_count_);
  s.cold_blocks.resize(block_count_);
  for (std::size_t i = 0; i < block_count_; ++i) {
    where_[i] = homes_ + i * block_bytes_;
    s.cold_blocks[i] = static_cast<std::uint32_t>(block_count_ - 1 - i);  // taken from the back
  }
  switch (options.warming) {
    case Warming::kOnDemand:
      break;
    case Warming::kEager:
      wait_until_warm();
      break;
    case Warming::kBackground:
      s.start_warming();
      break;
  }
}

std::string BlockPool::State::description() const {
  return "pool '" + pool.name() + "' of " + std::to_string(pool.block_count()) + " blocks of " +
         format_bytes(pool.block_bytes());
}

void BlockPool::expect_placed(std::size_t blocks) {
  State& s = *state_;
  std::lock_guard lock(s.map_mutex);
  s.map_budget->raise(maps_needed(std::min(blocks, block_count_)), s.description());
}

BlockPool::~BlockPool() {
  State& s = *state_;
  if (inherited()) return;  // the memory and the thread belong to the parent
  s.end_warming();
  if (s.quotas != 0) {
    LineBuffer<256> line;
    line.text("vortex: pool '").text(name_).text("' is destroyed while ").number(s.quotas);
    line.text(" of its users still live; destroy streams before their pool");
    fatal(line.view());
  }
}

bool BlockPool::inherited() const noexcept { return getpid() != state_->owner_pid; }

int BlockPool::State::settle(Block block, BlockMemory::Placed done, std::byte* address) noexcept {
  if (done.lost) pool.give_up(block);
  if (done.error != 0) return done.error;
  pool.where_[block.index] = address;
  (pool.resting(block) ? withdrawals : placements).fetch_add(1, std::memory_order_relaxed);
  return 0;
}

int BlockPool::place(Block block, std::byte* address) noexcept {
  std::byte* const from = where_[block.index];
  if (from == nullptr) return ENOMEM;
  if (from == address) return 0;
  return state_->settle(block, state_->memory->place(home(block), from, address), address);
}

int BlockPool::map_also(Block first, std::size_t count, std::byte* address,
                        Rights rights) noexcept {
  const int error = state_->memory->map_also(home(first), address, count * block_bytes_,
                                             rights == Rights::kReadWrite);
  if (error == 0) state_->placements.fetch_add(count, std::memory_order_relaxed);
  return error;
}

int BlockPool::place_to_read(Block block, std::byte* address) noexcept {
  if (lost(block)) return ENOMEM;
  return state_->settle(block, state_->memory->place_to_read(home(block), address), address);
}

int BlockPool::set_rights(Block block, Rights rights) noexcept {
  return state_->memory->set_rights(home(block), where(block), rights);
}

int BlockPool::set_rights(std::span<const Block> row, Rights rights) noexcept {
  if (row.empty()) return 0;
  const int error = state_->memory->set_rights_of_row(where(row[0]), row.size(), rights);
  if (error != ENOTSUP) return error;
  for (const Block block : row) {
    if (const int refused = set_rights(block, rights)) return refused;
  }
  return 0;
}

bool BlockPool::may_be_pinned() const noexcept { return state_->memory->may_be_pinned(); }

int BlockPool::take_home(Block block, Rights had, bool from_readers) noexcept {
  BlockMemory& memory = *state_->memory;
  std::byte* const from = where_[block.index];
  std::byte* const at_home = home(block);
  if (from == nullptr) return ENOMEM;
  if (from == at_home) return 0;
  return state_->settle(block,
                        from_readers ? memory.take_from_readers(at_home, from, had)
                                     : memory.take_home(at_home, from, had),
                        at_home);
}

int BlockPool::withdraw(Block block, Rights had) noexcept { return take_home(block, had, false); }

int BlockPool::withdraw_from_readers(Block block, Rights had) noexcept {
  return take_home(block, had, true);
}

BlockPool::Statistics BlockPool::statistics() const noexcept {
  State& s = *state_;
  Statistics result;
  {
    std::lock_guard lock(s.mutex);
    result.blocks_in_use = s.in_use;
    result.blocks_lost = s.lost;
    result.blocks_retired = s.retired;
    result.peak_blocks_in_use = s.peak_in_use;
    result.blocks_guaranteed = s.guaranteed;
    result.blocks_populated = s.populated;
  }
  result.placements = s.placements.load(std::memory_order_relaxed);
  result.withdrawals = s.withdrawals.load(std::memory_order_relaxed);
  return result;
}

}}  // namespace vortex::v0

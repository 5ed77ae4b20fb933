#include "vortex/block_pool.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>

#include "vortex/block_quota.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/line_buffer.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"

namespace vortex::inline v0 {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::size_t chosen_block_bytes(const BlockPoolOptions& options) {
  const std::string who = "pool '" + options.name + "'";
  std::size_t bytes = options.block_bytes;
  if (bytes == 0) {
    bytes = kDefaultBlockBytes;
    while (bytes < kMostBlockBytes &&
           BlockPool::maps_needed(options.pool_bytes / bytes) > MapBudget::available()) {
      bytes *= 2;
    }
  }
  if (bytes % os::page_bytes() != 0 || bytes < kLeastBlockBytes || bytes > kMostBlockBytes) {
    throw Error(EINVAL, who + ": a block of " + format_bytes(bytes) +
                            " is not possible; blocks are multiples of the page (" +
                            format_bytes(os::page_bytes()) + "), from " +
                            format_bytes(kLeastBlockBytes) + " to " +
                            format_bytes(kMostBlockBytes));
  }
  if (options.pool_bytes < bytes) {
    throw Error(EINVAL, who + ": " + format_bytes(options.pool_bytes) +
                            " do not hold one block of " + format_bytes(bytes) +
                            "; the least that works is " + format_bytes(bytes));
  }
  return bytes;
}

std::unique_ptr<BlockMemory> make_memory(PoolKind kind, const BlockMemoryOptions& options) {
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

BlockPool::BlockPool(const BlockPoolOptions& options)
    : name_(options.name),
      block_bytes_(chosen_block_bytes(options)),
      block_count_(std::min<std::size_t>(options.pool_bytes / block_bytes_, Block::kNone)),
      owner_pid_(getpid()) {
  const std::string who = "pool '" + name_ + "' of " + std::to_string(block_count_) +
                          " blocks of " + format_bytes(block_bytes_);
  map_budget_.emplace(maps_needed(block_count_), who);
  memory_ = make_memory(options.kind, {.who = who,
                                       .pool_name = name_,
                                       .block_bytes = block_bytes_,
                                       .pool_bytes = pool_bytes(),
                                       .huge_bytes = options.huge_pages ? plan_huge_pages() : 0,
                                       .in_core_dumps = options.in_core_dumps,
                                       .checked_homes = options.checked_homes});
  aliases_ = memory_->aliases();
  homes_ = memory_->homes();

  where_.resize(block_count_);
  warm_blocks_.reserve(block_count_);
  cold_blocks_.resize(block_count_);
  for (std::size_t i = 0; i < block_count_; ++i) {
    where_[i] = homes_ + i * block_bytes_;
    cold_blocks_[i] = static_cast<std::uint32_t>(block_count_ - 1 - i);  // taken from the back
  }
  switch (options.warming) {
    case Warming::kOnDemand:
      break;
    case Warming::kEager:
      wait_until_warm();
      break;
    case Warming::kBackground: {
      // The thread inherits a full mask: it must never run a handler of the program.
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      warmer_runs_ = pthread_create(&warmer_, nullptr, &BlockPool::warm_in_background, this) == 0;
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      break;  // without a thread the takers populate, as on demand
    }
  }
}

std::size_t BlockPool::plan_huge_pages() noexcept {
  if (block_bytes_ % kHugePageBytes == 0) return pool_bytes();
  if (kHugePageBytes % block_bytes_ != 0) return 0;
  blocks_in_huge_page_ = static_cast<std::uint32_t>(kHugePageBytes / block_bytes_);
  whole_huge_pages_ = static_cast<std::uint32_t>(pool_bytes() / kHugePageBytes);
  return whole_huge_pages_ * kHugePageBytes;
}

BlockPool::~BlockPool() {
  if (inherited()) return;  // the memory and the thread belong to the parent
  stop_warming();
  if (quotas_ != 0) {
    LineBuffer<256> line;
    line.text("vortex: pool '").text(name_).text("' is destroyed while ").number(quotas_);
    line.text(" of its users still live; destroy streams before their pool");
    fatal(line.view());
  }
}

bool BlockPool::inherited() const noexcept { return getpid() != owner_pid_; }

int BlockPool::place(Block block, std::byte* address) noexcept {
  std::byte* const from = where_[block.index];
  if (from == nullptr) return ENOMEM;
  if (from == address) return 0;
  std::byte* const at_home = home(block);
  const auto [error, is_lost] = memory_->place(at_home, from, address);
  if (is_lost) give_up(block);
  if (error != 0) return error;
  where_[block.index] = address;
  (address == at_home ? withdrawals_ : placements_).fetch_add(1, std::memory_order_relaxed);
  return 0;
}

int BlockPool::map_also(Block first, std::size_t count, std::byte* address,
                        Rights rights) noexcept {
  const int error =
      memory_->map_also(home(first), address, count * block_bytes_, rights == Rights::kReadWrite);
  if (error == 0) placements_.fetch_add(count, std::memory_order_relaxed);
  return error;
}

int BlockPool::withdraw(Block block) noexcept { return place(block, home(block)); }

BlockPool::Statistics BlockPool::statistics() const noexcept {
  Statistics result;
  {
    std::lock_guard lock(mutex_);
    result.blocks_in_use = in_use_;
    result.blocks_lost = lost_;
    result.peak_blocks_in_use = peak_in_use_;
    result.blocks_guaranteed = guaranteed_;
    result.blocks_populated = populated_;
  }
  result.placements = placements_.load(std::memory_order_relaxed);
  result.withdrawals = withdrawals_.load(std::memory_order_relaxed);
  return result;
}

void BlockPool::wait_until_warm() {
  int error = 0;
  while (warm_some(&error)) {
  }
  // What the thread had in hand may have been refused, and lie with the cold blocks again.
  stop_warming();
  while (error == 0 && warm_some(&error)) {
  }
  if (error == 0) return;
  throw Error(error, "pool '" + name_ + "': the system cannot supply " +
                         format_bytes(pool_bytes()) + " of memory; use a smaller pool");
}

BlockPool::ColdBlocks BlockPool::take_cold() noexcept {
  if (cold_blocks_.empty()) return {};
  // Those of a huge page lie together, lowest on top.
  const std::uint32_t first = cold_blocks_.back();
  const bool whole = first / blocks_in_huge_page_ < whole_huge_pages_;
  const std::uint32_t count = whole ? blocks_in_huge_page_ : 1;
  cold_blocks_.resize(cold_blocks_.size() - count);
  return {first, count};
}

void BlockPool::give_back_cold(ColdBlocks blocks) noexcept {
  while (blocks.count > 0) cold_blocks_.push_back(blocks.first + --blocks.count);
}

int BlockPool::populate(ColdBlocks blocks) noexcept {
  return memory_->populate(home(Block{blocks.first}), blocks.count * block_bytes_);
}

void BlockPool::push_warm(std::uint32_t index) noexcept {
  warm_blocks_.push_back(index);
  if (aliases_) std::push_heap(warm_blocks_.begin(), warm_blocks_.end(), std::greater<>());
}

std::uint32_t BlockPool::pop_warm() noexcept {
  if (aliases_) std::pop_heap(warm_blocks_.begin(), warm_blocks_.end(), std::greater<>());
  const std::uint32_t index = warm_blocks_.back();
  warm_blocks_.pop_back();
  return index;
}

bool BlockPool::warm_some(int* error) noexcept {
  ColdBlocks blocks;
  {
    std::lock_guard lock(mutex_);
    blocks = take_cold();
  }
  if (blocks.count == 0) return false;
  *error = populate(blocks);
  std::lock_guard lock(mutex_);
  if (*error != 0) {
    give_back_cold(blocks);
    return false;
  }
  populated_ += blocks.count;
  while (blocks.count > 0) push_warm(blocks.first + --blocks.count);
  return true;
}

void* BlockPool::warm_in_background(void* pool) noexcept {
  auto* self = static_cast<BlockPool*>(pool);
  // On an error the takers try again and report it.
  int error = 0;
  while (!self->stop_warming_.load(std::memory_order_relaxed) && self->warm_some(&error)) {
  }
  return nullptr;
}

void BlockPool::stop_warming() noexcept {
  std::lock_guard lock(warmer_mutex_);
  if (!warmer_runs_) return;
  stop_warming_.store(true, std::memory_order_relaxed);
  pthread_join(warmer_, nullptr);
  warmer_runs_ = false;
}

void BlockPool::admit(const BlockQuota& quota) {
  std::size_t taken = 0;
  {
    std::lock_guard lock(mutex_);
    // Blocks that others hold above their minimum cannot be promised to anybody.
    taken = in_use_ + unclaimed_;
    if (quota.minimum() <= block_count_ - taken) {
      ++quotas_;
      guaranteed_ += quota.minimum();
      unclaimed_ += quota.minimum();
      return;
    }
  }
  throw Error(ENOMEM, quota.user() + " needs at least " + std::to_string(quota.minimum()) +
                          " blocks of " + format_bytes(block_bytes_) + "; pool '" + name_ +
                          "' has " + std::to_string(block_count_) +
                          ", of which others hold or are guaranteed " + std::to_string(taken) +
                          ": make the pool at least " +
                          format_bytes((taken + quota.minimum()) * block_bytes_));
}

void BlockPool::dismiss(const BlockQuota& quota) noexcept {
  std::lock_guard lock(mutex_);
  --quotas_;
  guaranteed_ -= quota.minimum();
  unclaimed_ -= quota.minimum() - std::min(quota.minimum(), quota.lost());
}

BlockGrant BlockPool::take(BlockQuota& quota) noexcept {
  for (bool admitted = false;;) {
    ColdBlocks cold;
    {
      std::lock_guard lock(mutex_);
      if (!admitted) {
        const std::size_t held = quota.held();
        const bool guaranteed = held < quota.minimum();
        if (held >= quota.maximum() || (!guaranteed && block_count_ - in_use_ <= unclaimed_)) {
          return {Block{}, EAGAIN};
        }
        if (guaranteed) --unclaimed_;
        quota.held_.store(held + 1, std::memory_order_relaxed);
        peak_in_use_ = std::max(peak_in_use_, ++in_use_);
        admitted = true;
      }
      if (!warm_blocks_.empty()) {
        return {Block{pop_warm()}, 0};
      }
      cold = take_cold();
    }
    if (cold.count == 0) {
      // The last free block is in the hands of a thread that populates it, for microseconds.
      sched_yield();
      continue;
    }
    const int error = populate(cold);
    std::lock_guard lock(mutex_);
    if (error == 0) {
      populated_ += cold.count;
      while (cold.count > 1) push_warm(cold.first + --cold.count);
      return {Block{cold.first}, 0};
    }
    give_back_cold(cold);
    const std::size_t held = quota.held() - 1;
    quota.held_.store(held, std::memory_order_relaxed);
    --in_use_;
    if (held < quota.minimum()) ++unclaimed_;
    return {Block{}, error};
  }
}

void BlockPool::give_back(BlockQuota& quota, Block block) noexcept {
  if (lost(block)) {
    // Held for ever, so that nobody is promised it.
    std::lock_guard lock(mutex_);
    quota.lost_.store(quota.lost() + 1, std::memory_order_relaxed);
    ++lost_;
    return;
  }
  if (!resting(block)) {
    LineBuffer<256> line;
    line.text("vortex: ").text(quota.user()).text(" gives back block ").number(block.index);
    line.text(" of pool '").text(name_).text("' while it is placed");
    fatal(line.view());
  }
  std::lock_guard lock(mutex_);
  push_warm(block.index);
  --in_use_;
  const std::size_t held = quota.held() - 1;
  quota.held_.store(held, std::memory_order_relaxed);
  if (held < quota.minimum()) ++unclaimed_;
}

}  // namespace vortex::inline v0

#include "vortex/block_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <optional>

#include "vortex/detail/saturating.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/fault_engine.h"
#include "vortex/os/futex.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/masked_thread.h"
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

std::unique_ptr<BlockMemory> make_memory(PoolKind kind, const BlockMemoryOptions& options,
                                         const EngineHold& engine) {
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

struct BlockPool::State {
  explicit State(const BlockPool& whose) : pool(whose) {}

  std::byte* home(std::uint32_t index) const noexcept { return pool.home(Block{index}); }
  std::string description() const;

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

  const BlockPool& pool;
  const EngineHold engine;
  FutexMutex map_mutex;  // who changes it
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
  std::size_t lost = 0;     // of those; they stay in use
  std::size_t retired = 0;  // likewise
  std::size_t peak_in_use = 0;
  std::size_t guaranteed = 0;  // sum of minimums
  std::size_t unclaimed = 0;   // of those, blocks not held at present
  std::size_t quotas = 0;
  std::size_t populated = 0;

  std::atomic<std::uint64_t> placements{0};
  std::atomic<std::uint64_t> withdrawals{0};
  std::atomic<bool> stop_warming{false};
  FutexMutex warmer_mutex;  // who joins the thread
  MaskedThread warmer;
  const int owner_pid = getpid();
};

BlockPool::BlockPool(const BlockPoolOptions& options)
    : name_(options.name),
      block_bytes_(chosen_block_bytes(options)),
      block_count_(std::min(options.pool_bytes / block_bytes_, kMaxPoolBlocks)),
      state_(std::make_unique<State>(*this)) {
  State& s = *state_;
  const std::string who = s.description();
  const std::size_t most_placed = options.most_placed != 0 ? options.most_placed : block_count_;
  s.map_budget.emplace(maps_needed(std::min(most_placed, block_count_)), who);
  s.memory = make_memory(options.kind,
                         {.who = who,
                          .pool_name = name_,
                          .block_bytes = block_bytes_,
                          .pool_bytes = pool_bytes(),
                          .huge_bytes = options.huge_pages ? s.plan_huge_pages() : 0,
                          .in_core_dumps = options.in_core_dumps,
                          .checked_homes = options.checked_homes},
                         s.engine);
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

std::size_t BlockPool::State::plan_huge_pages() noexcept {
  if (pool.block_bytes() % kHugePageBytes == 0) return pool.pool_bytes();
  if (kHugePageBytes % pool.block_bytes() != 0) return 0;
  blocks_in_huge_page = static_cast<std::uint32_t>(kHugePageBytes / pool.block_bytes());
  whole_huge_pages = static_cast<std::uint32_t>(pool.pool_bytes() / kHugePageBytes);
  return whole_huge_pages * kHugePageBytes;
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

int BlockPool::place(Block block, std::byte* address) noexcept {
  State& s = *state_;
  std::byte* const from = where_[block.index];
  if (from == nullptr) return ENOMEM;
  if (from == address) return 0;
  std::byte* const at_home = home(block);
  const auto [error, is_lost] = s.memory->place(at_home, from, address);
  if (is_lost) give_up(block);
  if (error != 0) return error;
  where_[block.index] = address;
  (address == at_home ? s.withdrawals : s.placements).fetch_add(1, std::memory_order_relaxed);
  return 0;
}

int BlockPool::map_also(Block first, std::size_t count, std::byte* address,
                        Rights rights) noexcept {
  const int error = state_->memory->map_also(home(first), address, count * block_bytes_,
                                             rights == Rights::kReadWrite);
  if (error == 0) state_->placements.fetch_add(count, std::memory_order_relaxed);
  return error;
}

int BlockPool::place_to_read(Block block, std::byte* address) noexcept {
  State& s = *state_;
  if (lost(block)) return ENOMEM;
  const auto [error, is_lost] = s.memory->place_to_read(home(block), address);
  if (is_lost) give_up(block);
  if (error != 0) return error;
  where_[block.index] = address;
  s.placements.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

int BlockPool::set_rights(Block block, Rights rights) noexcept {
  return state_->memory->set_rights(home(block), where(block), rights);
}

bool BlockPool::may_be_pinned() const noexcept { return state_->memory->may_be_pinned(); }

int BlockPool::take_home(Block block, Rights had, bool from_readers) noexcept {
  State& s = *state_;
  std::byte*& where = where_[block.index];
  std::byte* const at_home = home(block);
  if (where == nullptr) return ENOMEM;
  if (where == at_home) return 0;
  const auto [error, is_lost] = from_readers ? s.memory->take_from_readers(at_home, where, had)
                                             : s.memory->take_home(at_home, where, had);
  if (is_lost) give_up(block);
  if (error != 0) return error;
  where = at_home;
  s.withdrawals.fetch_add(1, std::memory_order_relaxed);
  return 0;
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
  // Those of a huge page lie together, lowest on top.
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

void BlockPool::admit(const BlockQuota& quota) {
  State& s = *state_;
  std::size_t taken = 0;
  {
    std::lock_guard lock(s.mutex);
    // Blocks that others hold above their minimum cannot be promised to anybody.
    taken = s.in_use + s.unclaimed;
    if (quota.minimum() <= block_count_ - taken) {
      ++s.quotas;
      s.guaranteed += quota.minimum();
      s.unclaimed += quota.minimum();
      return;
    }
  }
  throw Error(ENOMEM, quota.user() + " needs at least " + std::to_string(quota.minimum()) +
                          " blocks of " + format_bytes(block_bytes_) + "; pool '" + name_ +
                          "' has " + std::to_string(block_count_) +
                          ", of which others hold or are guaranteed " + std::to_string(taken) +
                          ": make the pool at least " +
                          format_bytes(detail::saturating_product(
                              detail::saturating_sum(taken, quota.minimum()), block_bytes_)));
}

void BlockPool::lower(BlockQuota& quota, std::size_t blocks) noexcept {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  const std::size_t held = quota.held();
  const std::size_t before = quota.minimum();
  const std::size_t minimum = std::min(before, std::max(blocks, held));
  s.guaranteed -= before - minimum;
  s.unclaimed -= std::max(before, held) - std::max(minimum, held);
  quota.minimum_.store(minimum, std::memory_order_relaxed);
  quota.maximum_.store(std::min(quota.maximum(), std::max(blocks, held)),
                       std::memory_order_relaxed);
}

std::size_t BlockPool::retire(std::size_t blocks) noexcept {
  State& s = *state_;
  std::size_t retired = 0;
  while (retired < blocks) {
    std::uint32_t warm = Block::kNone;
    {
      std::lock_guard lock(s.mutex);
      const std::size_t free = block_count_ - s.in_use - s.unclaimed;
      const std::size_t most = std::min(free, blocks - retired);
      if (most == 0) break;
      // Those that hold no memory cost nothing, neither now nor later.
      const State::ColdBlocks cold = s.take_cold();
      std::size_t taken = cold.count;
      if (taken > most) {
        s.give_back_cold(cold);
        taken = 0;
      }
      if (taken == 0) {
        if (s.warm_blocks.empty()) break;
        warm = s.pop_warm();
        --s.populated;
        taken = 1;
      }
      s.in_use += taken;
      s.retired += taken;
      retired += taken;
    }
    if (warm != Block::kNone) s.memory->discard(home(Block{warm}), block_bytes_);
  }
  return retired;
}

void BlockPool::dismiss(const BlockQuota& quota) noexcept {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  --s.quotas;
  s.guaranteed -= quota.minimum();
  s.unclaimed -= quota.minimum() - std::min(quota.minimum(), quota.lost());
}

BlockGrant BlockPool::take(BlockQuota& quota) noexcept {
  State& s = *state_;
  for (bool admitted = false;;) {
    State::ColdBlocks cold;
    {
      std::lock_guard lock(s.mutex);
      if (!admitted) {
        const std::size_t held = quota.held();
        const bool guaranteed = held < quota.minimum();
        if (held >= quota.maximum() || (!guaranteed && block_count_ - s.in_use <= s.unclaimed)) {
          return {Block{}, EAGAIN};
        }
        if (guaranteed) --s.unclaimed;
        quota.held_.store(held + 1, std::memory_order_relaxed);
        s.peak_in_use = std::max(s.peak_in_use, ++s.in_use);
        admitted = true;
      }
      if (!s.warm_blocks.empty()) {
        return {Block{s.pop_warm()}, 0};
      }
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
    const std::size_t held = quota.held() - 1;
    quota.held_.store(held, std::memory_order_relaxed);
    --s.in_use;
    if (held < quota.minimum()) ++s.unclaimed;
    return {Block{}, error};
  }
}

void BlockPool::give_back(BlockQuota& quota, Block block) noexcept {
  State& s = *state_;
  if (lost(block)) {
    // Held for ever, so that nobody is promised it.
    std::lock_guard lock(s.mutex);
    quota.lost_.store(quota.lost() + 1, std::memory_order_relaxed);
    ++s.lost;
    return;
  }
  if (!resting(block)) {
    LineBuffer<256> line;
    line.text("vortex: ").text(quota.user()).text(" gives back block ").number(block.index);
    line.text(" of pool '").text(name_).text("' while it is placed");
    fatal(line.view());
  }
  std::lock_guard lock(s.mutex);
  s.push_warm(block.index);
  --s.in_use;
  const std::size_t held = quota.held() - 1;
  quota.held_.store(held, std::memory_order_relaxed);
  if (held < quota.minimum()) ++s.unclaimed;
}

}  // namespace vortex::inline v0

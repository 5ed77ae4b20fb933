// What every sort has, whatever its records are: resources, folders, a watch, and one pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sort/job/run_set.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/memory_budget.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// A sort may have a share of a budget. What it takes is then no more than the share, and what it
// gives back here goes to others. One thread at a time, but for what says otherwise.
class SortContext final : private MemoryLender {
 public:
  // Waits for the share. Throws Error: EINVAL for wrong resources, and as MemoryBudget::take()
  // does.
  SortContext(const SortResources& resources, std::vector<std::string> folders);
  ~SortContext() override { end(); }
  SortContext(const SortContext&) = delete;
  SortContext& operator=(const SortContext&) = delete;

  // Their memory is the default where they named none, and the share where there is one.
  const SortResources& resources() const noexcept { return resources_; }
  const std::vector<std::string>& folders() const noexcept { return folders_; }
  SortWatch& watch() noexcept { return watch_; }
  // For a store of runs in the folders; this outlives them.
  RunStoreOptions run_store_options() const;

  // What a request costs the slowest disk for runs, see SortResources, where an input of `bytes`
  // is to be sorted. Measured only where that takes a small part of the time that the sort
  // does. Throws Error as file_system_of() does.
  std::uint64_t request_cost(std::optional<std::uint64_t> bytes) const;

  // Makes the pool, which `name` describes in messages, in place of the one before. Throws Error as
  // BlockPool does.
  void make_pool(std::size_t block_bytes, std::size_t blocks, Warming warming, const char* name);
  const std::shared_ptr<BlockPool>& pool() const noexcept { return pool_; }

  // 0: the memory is the sort's own.
  std::uint64_t share_bytes() const noexcept { return share_.bytes(); }
  // Others may want more of the memory than the sort needs.
  bool shares_memory() const noexcept { return share_.bytes() != 0; }
  // The share belongs to the thread that uses the sort: a call of this thread begins.
  void note_user() noexcept;
  // What is beyond `bytes` goes to others.
  void keep(std::uint64_t bytes) noexcept { share_.shrink_to(bytes); }
  // Lends `bytes` to other sorts.
  void release(std::uint64_t bytes) noexcept;
  // The memory of the blocks that have left the pool since the last time.
  void give_back_retired() noexcept;
  // Blocks that nobody has been promised leave the pool, and their memory goes to others.
  void give_back_unused() noexcept;
  // The same for blocks that are no part of what is left of the share.
  void forget_unused() noexcept;
  bool others_wait() const noexcept { return share_.others_wait(); }
  // Merges whose read-ahead others may have are to be noted here.
  RunningMerges& running() noexcept { return running_; }
  // Null: there are no others.
  RunningMerges* lending_merges() noexcept { return shares_memory() ? &running_ : nullptr; }
  // What these have read ahead goes to others. As a GiveBack.
  bool give_back_read_ahead() noexcept;
  // The plan for merging the runs takes what others have given back meanwhile, if it is an eighth
  // of the share at least and the process may take it; then there is another pool. Nobody else
  // uses the pool.
  template <typename Plan>
  void grow(Plan& plan, RunSet& runs) {
    Plan larger = plan;
    const auto blocks_with = [&](std::uint64_t more) {
      return larger.add_memory_for_merging(more, runs.size()) ? larger.pool_blocks : 0;
    };
    if (!grow_pool(blocks_with)) return;
    plan = larger;
    runs.use(*pool_);
  }

  // As MemoryLender::give_back(). Nobody calls it and changes the lender at the same time.
  using GiveBack = std::function<bool(std::uint64_t wanted)>;
  // Whoever waits for memory of the share calls it, until end_lending(); `first` comes before.
  void lend(GiveBack give_back, const std::function<void()>& first = {});
  // Another one in its place. Does not begin.
  void change_lender(GiveBack give_back, const std::function<void()>& first = {});
  void end_lending() noexcept { share_.end_lending(); }
  // Work beside the calling thread ends soon, and nobody is given memory any more.
  void end() noexcept;

 private:
  bool give_back(std::uint64_t wanted) noexcept override;
  // `blocks_with(more bytes)` says how many blocks the pool has then (0: none of it is of use).
  // Returns whether pool() is another one: where the system refuses a larger one beside it, which
  // takes address space and maps though no memory yet, it stays.
  bool grow_pool(const std::function<std::size_t(std::uint64_t more)>& blocks_with);

  SortResources resources_;
  const std::uint64_t most_memory_bytes_;  // that it may take of a budget
  MemoryShare share_;                      // outlives all memory
  const std::vector<std::string> folders_;
  SortWatch watch_;
  BlockPoolOptions pool_options_;
  std::shared_ptr<BlockPool> pool_;
  std::size_t given_back_ = 0;  // of the pool's retired blocks
  FutexMutex lending_mutex_;    // guards the lender, and the share while it is lent
  GiveBack lender_;
  RunningMerges running_;
};

}}  // namespace vortex::v0

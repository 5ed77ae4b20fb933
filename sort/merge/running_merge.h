// The merges that run, for other threads that want their memory.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "sort/merge/merge_prefetcher.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// Outlives the merges. Thread-safe.
class RunningMerges {
 public:
  // A merge from its beginning to its end. The prefetcher outlives it.
  class Scope {
   public:
    // `least` buffers are what the merge needs; `merges` may be null. Throws std::bad_alloc.
    Scope(RunningMerges* merges, MergePrefetcher& prefetcher, std::size_t least)
        : merges_(merges), prefetcher_(prefetcher) {
      if (merges_ == nullptr) return;
      const std::lock_guard lock(merges_->mutex_);
      merges_->all_.push_back({&prefetcher, least});
    }
    ~Scope() {
      if (merges_ == nullptr) return;
      const std::lock_guard lock(merges_->mutex_);
      std::erase_if(merges_->all_,
                    [this](const Merge& merge) { return merge.prefetcher == &prefetcher_; });
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunningMerges* const merges_;
    const MergePrefetcher& prefetcher_;
  };

  // The merges keep no more than they need. Returns whether more leaves the pool soon: always,
  // where none runs. Never waits for a merge.
  bool give_back() noexcept {
    const std::lock_guard lock(mutex_);
    bool more = all_.empty();
    for (const Merge& merge : all_) more = merge.prefetcher->keep_only(merge.least) || more;
    return more;
  }

 private:
  struct Merge {
    MergePrefetcher* prefetcher;
    std::size_t least;
  };

  FutexMutex mutex_;
  std::vector<Merge> all_;
};

// Buffers with which a merge that holds `held_blocks` still reads ahead a little: two of each
// disk.
inline std::size_t lean_buffers(std::size_t held_blocks, unsigned disks) noexcept {
  return held_blocks + 2 * std::size_t{disks};
}

}}  // namespace vortex::v0

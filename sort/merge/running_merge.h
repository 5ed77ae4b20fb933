// The merge that runs, for other threads that want its memory.
#pragma once

#include <cstddef>
#include <mutex>

#include "sort/merge/merge_prefetcher.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// Outlives the merges. Thread-safe.
class RunningMerge {
 public:
  // A merge from its beginning to its end. The prefetcher outlives it.
  class Scope {
   public:
    // `least` buffers are what the merge needs; `merge` may be null.
    Scope(RunningMerge* merge, MergePrefetcher& prefetcher, std::size_t least) noexcept
        : merge_(merge) {
      if (merge_ != nullptr) merge_->set(&prefetcher, least);
    }
    ~Scope() {
      if (merge_ != nullptr) merge_->set(nullptr, 0);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunningMerge* const merge_;
  };

  // The merge keeps no more than it needs. Returns whether more leaves the pool soon: always, where
  // none runs.
  bool give_back() noexcept {
    const std::lock_guard lock(mutex_);
    return prefetcher_ == nullptr || prefetcher_->keep_only(least_);
  }

 private:
  void set(MergePrefetcher* prefetcher, std::size_t least) noexcept {
    const std::lock_guard lock(mutex_);
    prefetcher_ = prefetcher;
    least_ = least;
  }

  FutexMutex mutex_;
  MergePrefetcher* prefetcher_ = nullptr;
  std::size_t least_ = 0;
};

// Buffers with which a merge that holds `held_blocks` still reads ahead a little: two of each
// disk.
inline std::size_t lean_buffers(std::size_t held_blocks, unsigned disks) noexcept {
  return held_blocks + 2 * std::size_t{disks};
}

}}  // namespace vortex::v0

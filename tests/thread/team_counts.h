// What each thread of a team does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "sort/memory/shares.h"
#include "vortex/detail/array/thread_team.h"

namespace vortex::test {

// Counts for each thread that calls. None returns from its first call before `threads` have come:
// so none can take another's part, however few processors there are. Where fewer come they go on
// after a minute, and the counts show it.
class TeamCounts {
 public:
  explicit TeamCounts(std::size_t threads) : threads_(threads) {}

  void add(std::uint64_t count) noexcept {
    std::unique_lock lock(mutex_);
    const auto [here, is_new] = counts_.try_emplace(std::this_thread::get_id(), 0);
    here->second += count;
    if (!is_new || has_all_) return;
    if (counts_.size() >= threads_) {
      has_all_ = true;
      all_came_.notify_all();
    } else if (!all_came_.wait_for(lock, std::chrono::minutes(1), [this] { return has_all_; })) {
      has_all_ = true;
    }
  }

  // When all have ended; in no order.
  std::vector<std::uint64_t> of_threads() const {
    std::vector<std::uint64_t> counts;
    for (const auto& [thread, count] : counts_) counts.push_back(count);
    return counts;
  }
  std::uint64_t all() const {
    const std::vector<std::uint64_t> counts = of_threads();
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }

 private:
  const std::size_t threads_;
  std::mutex mutex_;
  std::condition_variable all_came_;
  std::map<std::thread::id, std::uint64_t> counts_;
  bool has_all_ = false;
};

// A team of which none goes on before all threads have a part of the job, and which notes how many
// worked on each job that has as many parts as there are threads.
class CountedTeam {
 public:
  explicit CountedTeam(unsigned threads) : team_(threads) {}

  unsigned threads() const noexcept { return team_.threads(); }
  template <typename Part>
  void run(std::size_t parts, const Part& part) {
    if (parts < threads()) return team_.run(parts, part);
    TeamCounts counts(threads());
    team_.run(parts, [&](std::size_t i) {
      counts.add(1);
      part(i);
    });
    took_part_.push_back(counts.of_threads().size());
  }
  const std::vector<std::size_t>& took_part() const noexcept { return took_part_; }

 private:
  detail::ThreadTeam team_;
  std::vector<std::size_t> took_part_;
};

// An array of `count` items, divided for such a team.
class CountedShares : public detail::Shares {
 public:
  CountedShares(std::size_t count, unsigned threads)
      : Shares(count, OwnThreads{threads}), team_(threads) {}

  const std::vector<std::size_t>& took_part() const noexcept { return team_.took_part(); }

 private:
  void run_parts(const std::function<void(std::size_t)>& part) override {
    team_.run(shares(), part);
  }

  CountedTeam team_;
};

}  // namespace vortex::test

// Groups of entries that are a large part of all of them, and how many threads sort each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Cuts entries that are sorted by their keys into tasks of about `task_entries` and groups of equal
// keys of at least `large` entries, which is more. Finds no group by reading all entries: one that
// is large has an entry wherever a task would end in it.
template <typename Range>
void cut_by_groups(const Range& sorted, std::size_t large, std::size_t task_entries,
                   std::vector<Range>& tasks, std::vector<Range>& groups) {
  const auto before = [](const auto& a, const auto& b) { return a.key < b.key; };
  Range task = sorted;
  while (task.begin != sorted.end) {
    task.end = sorted.end;
    Range group = sorted;
    group.begin = group.end = sorted.end;
    if (static_cast<std::size_t>(sorted.end - task.begin) > task_entries) {
      const auto [begin, end] =
          std::equal_range(task.begin, sorted.end, task.begin[task_entries], before);
      const bool is_large = static_cast<std::size_t>(end - begin) >= large;
      task.end = is_large ? begin : end;
      if (is_large) {
        group.begin = begin;
        group.end = end;
      }
    }
    if (task.size() > 1) tasks.push_back(task);
    if (group.size() != 0) groups.push_back(group);
    task.begin = group.size() == 0 ? task.end : group.end;
  }
}

// One thread sorts so many by vortex::sort() even where more may.
inline constexpr std::size_t kSortedByThread = std::size_t{1} << 19;

// How many large groups of `count` entries are sorted side by side, by a thread each: as many as
// threads have sorted all of them, which took as much memory.
inline unsigned groups_at_once(std::size_t count, unsigned threads) noexcept {
  return static_cast<unsigned>(std::clamp<std::size_t>(count / kSortedByThread, 1, threads));
}

// Orders groups by their size, and returns how many of the largest ones all threads should sort
// together, one after the other. The others are sorted by a thread each, `side_by_side` at a time.
//
// Together they share out all but the sort of the next chunks, which is about a quarter of the work
// and has a thread for each kSortedByThread entries. By itself a group takes one thread's time.
template <typename Group>
std::size_t groups_for_all(std::vector<Group>& groups, unsigned threads, unsigned side_by_side) {
  constexpr std::size_t kShareOfSort = 4;
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.size() > b.size(); });
  std::size_t rest = 0;  // entries of those that are sorted beside each other
  for (const Group& group : groups) rest += group.size();
  std::size_t together = 0, least = rest, best = 0;
  if (!groups.empty()) least = std::max(groups.front().size(), rest / side_by_side);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t size = groups[i].size();
    const std::size_t alone = std::min(size, std::max(size / threads, kSortedByThread));
    together += size / threads + alone / kShareOfSort;
    rest -= size;
    const std::size_t next = i + 1 < groups.size() ? groups[i + 1].size() : 0;
    const std::size_t time = together + std::max(next, rest / side_by_side);
    if (time >= least) continue;
    least = time;
    best = i + 1;
  }
  return best;
}

}}  // namespace vortex::v0

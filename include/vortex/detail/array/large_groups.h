// Groups of records with equal keys that are a large part of all of them: where they are, and which
// of them all threads sort together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// How many steps from a record there are equal ones, of at most `most`. Those are in front of the
// others; most groups are small, and found without looking far.
template <typename IsEqual>
std::size_t steps_of_equal(std::size_t most, const IsEqual& is_equal) {
  std::size_t equal = 0, step = 1;
  for (; step <= most - equal && is_equal(equal + step); step *= 2) equal += step;
  std::size_t other = equal + std::min(step, most - equal + 1);
  while (other - equal > 1) {
    const std::size_t middle = equal + (other - equal) / 2;
    (is_equal(middle) ? equal : other) = middle;
  }
  return equal;
}

// Cuts a range of records that are sorted by key_at(i), in either direction, into tasks of about
// `task_records` and groups of equal keys of at least `large` records, which is more. A task of
// fewer than two is left out. Finds no group by reading all records: one that is large has a record
// wherever a task would end in it. A range has a size() and gives part(begin, end) of it.
template <typename Range, typename KeyAt>
void cut_by_groups(const Range& sorted, const KeyAt& key_at, std::size_t large,
                   std::size_t task_records, std::vector<Range>& tasks,
                   std::vector<Range>& groups) {
  const std::size_t count = sorted.size();
  for (std::size_t begin = 0; begin != count;) {
    std::size_t first = count, last = count;  // the group in which the task would end
    if (count - begin > task_records) {
      const std::size_t at = begin + task_records;
      const auto key = key_at(at);
      first = at - steps_of_equal(at - begin, [&](std::size_t i) { return key_at(at - i) == key; });
      last = at + 1 +
             steps_of_equal(count - 1 - at, [&](std::size_t i) { return key_at(at + i) == key; });
    }
    const bool is_large = last - first >= large;
    const std::size_t end = is_large ? first : last;
    if (end - begin > 1) tasks.push_back(sorted.part(begin, end));
    if (is_large) groups.push_back(sorted.part(first, last));
    begin = last;
  }
}

// One thread sorts so many records by vortex::sort() even where more may.
inline constexpr std::size_t kSortedByThread = std::size_t{1} << 19;

// How many large groups of `count` entries are sorted side by side, by a thread each: as many as
// threads have sorted all of them, which took as much memory.
inline unsigned groups_at_once(std::size_t count, unsigned threads) noexcept {
  return static_cast<unsigned>(std::clamp<std::size_t>(count / kSortedByThread, 1, threads));
}

// Leaves those groups which all threads should sort together, one after the other, and moves those
// that are sorted by a thread each, `side_by_side` at a time, to `alone`, which has the largest
// first then. time_for_all(size) is what all threads take for a group of so many records, where one
// thread takes `size`. A group that is no more than a thread's share of all is never for all
// threads: so they sort fewer together than there are threads.
template <typename Group, typename TimeForAll>
void keep_for_all(std::vector<Group>& groups, std::vector<Group>& alone, unsigned threads,
                  unsigned side_by_side, const TimeForAll& time_for_all) {
  const auto is_larger = [](const Group& a, const Group& b) { return a.size() > b.size(); };
  std::sort(groups.begin(), groups.end(), is_larger);
  std::size_t rest = 0;  // records of those that are sorted beside each other
  for (const Group& group : groups) rest += group.size();
  const std::size_t share = rest / threads;
  std::size_t together = 0, least = rest;
  auto best = groups.begin();
  if (!groups.empty()) least = std::max(groups.front().size(), rest / side_by_side);
  for (auto group = best; group != groups.end() && group->size() > share; ++group) {
    together += time_for_all(group->size());
    rest -= group->size();
    const std::size_t next = group + 1 != groups.end() ? group[1].size() : 0;
    const std::size_t time = together + std::max(next, rest / side_by_side);
    if (time >= least) continue;
    least = time;
    best = group + 1;
  }
  alone.insert(alone.end(), best, groups.end());
  groups.erase(best, groups.end());
  std::sort(alone.begin(), alone.end(), is_larger);
}

// What threads do beside each other, a thread each, `alone` first.
template <typename Range>
struct SharedOut {
  std::vector<Range> alone;  // large groups
  std::vector<Range> tasks;  // that are sorted, but for their groups
};

// Shares out the groups of a range that is sorted by key_at(range, i), and calls open(group) with
// those for all threads. It returns whether the group is sorted by its own keys then, and has
// groups in turn, which are shared out in the same way.
template <typename Range, typename KeyAt, typename TimeForAll, typename Open>
SharedOut<Range> share_out_groups(const Range& all, std::size_t large, std::size_t task_records,
                                  unsigned threads, unsigned side_by_side, const KeyAt& key_at,
                                  const TimeForAll& time_for_all, const Open& open) {
  SharedOut<Range> shared;
  std::vector<Range> sorted{all};
  while (!sorted.empty()) {
    std::vector<Range> groups;
    for (const Range& range : sorted) {
      cut_by_groups(
          range, [&](std::size_t i) { return key_at(range, i); }, large, task_records, shared.tasks,
          groups);
    }
    keep_for_all(groups, shared.alone, threads, side_by_side, time_for_all);
    sorted.clear();
    for (Range& group : groups) {
      if (open(group)) sorted.push_back(group);
    }
  }
  return shared;
}

}}}  // namespace vortex::v0::detail

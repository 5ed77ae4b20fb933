// Which parts of an array a team of threads sorts next, and how many threads each gets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// Records to be sorted, all of one range of keys; level 0: the array. They lie in pieces.
template <typename Bits, typename Spread>
struct TeamJob {
  std::size_t first_piece;
  std::size_t pieces;
  std::size_t begin;  // of its records in the array
  std::size_t count;
  KeyRange<Bits> range;
  Spread spread;
  int level;
  std::size_t outer_lists;
  std::size_t block = 0;    // of the store
  std::size_t threads = 0;  // that work on it in this round; 0: it waits
  bool alone = false;       // in this round: one thread sorts it
};

// Takes jobs for a round. Where its share of `team` threads is less than two of them, a job of at
// most `most_alone` records is for one thread, as long as it lasts. The others get threads in
// proportion to their records, two at least, and so many that none has more than most_alone of
// them to distribute; jobs that find too few threads wait. Each round takes a part of what waits
// that does not depend on the team: so there are no more rounds than levels, but for a factor.
template <typename Job>
void share_team(std::vector<Job>& jobs, std::size_t most_alone, std::size_t team) noexcept {
  std::size_t records = 0;
  for (const Job& job : jobs) records += job.count;
  std::size_t left = team;
  for (Job& job : jobs) {
    job.threads = 1;
    job.alone = job.level != 0 && job.count <= most_alone && job.count * team / records < 2;
    if (job.alone) continue;
    const std::size_t needed =
        std::min(std::max<std::size_t>((job.count + most_alone - 1) / most_alone, 2), team);
    job.threads = needed <= left ? needed : 0;
    left -= job.threads;
  }
  for (; left != 0; --left) {
    Job* neediest = nullptr;
    for (Job& job : jobs) {
      if (job.threads == 0 || job.alone) continue;
      if (neediest == nullptr || job.count * neediest->threads > neediest->count * job.threads) {
        neediest = &job;
      }
    }
    if (neediest == nullptr) return;
    ++neediest->threads;
  }
}

}}}  // namespace vortex::v0::detail

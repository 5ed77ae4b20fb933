// The blocks of each disk that are known and not in memory.
#pragma once

#include <vector>

#include "sort/merge/order_of_need.h"

namespace vortex::inline v0 {

// The occupancy queues of Barve and Vitter, section 4.2: for each disk the known blocks that are
// still (or, flushed, again) on it, in the order of need. Nothing here allocates.
class DiskLookahead {
 public:
  DiskLookahead(unsigned disks, Position blocks)
      : head_(disks, kNoPosition), tail_(disks, kNoPosition), next_(blocks, kNoPosition) {}

  // The first block to read from a disk, kNoPosition where none is known.
  Position head(unsigned disk) const noexcept { return head_[disk]; }

  // `position` comes behind all others of its disk.
  void append(unsigned disk, Position position) noexcept {
    next_[position] = kNoPosition;
    (head_[disk] == kNoPosition ? head_[disk] : next_[tail_[disk]]) = position;
    tail_[disk] = position;
  }

  // `position` was flushed and comes back to its place. Few blocks are nearer: each was flushed
  // too.
  void put_back(unsigned disk, Position position) noexcept {
    Position* link = &head_[disk];
    while (*link != kNoPosition && *link < position) {
      link = &next_[*link];
    }
    next_[position] = *link;
    *link = position;
    if (next_[position] == kNoPosition) tail_[disk] = position;
  }

  void remove_head(unsigned disk) noexcept { head_[disk] = next_[head_[disk]]; }

 private:
  std::vector<Position> head_;
  std::vector<Position> tail_;
  std::vector<Position> next_;  // of the same disk
};

}  // namespace vortex::inline v0

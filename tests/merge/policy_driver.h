// Drives a prefetch policy in a random order of events and checks what every policy promises.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "sort/merge/prefetch_policy.h"
#include "study/merge_trace.h"

namespace vortex::test {

struct DriverResult {
  bool stuck = false;
  std::uint64_t fetches = 0;
  std::uint64_t drops = 0;
  std::size_t peak_buffers = 0;
};

// Runs the merge of `trace` against `policy`: one FIFO a disk; which of the possible things happens
// next (a read of some disk ends, the merge does its next step) is random, with speeds that differ
// from disk to disk and from merge to merge. Keeps books of its own.
class PolicyDriver {
 public:
  PolicyDriver(const MergeTrace& trace, PrefetchPolicy& policy, std::mt19937_64& random)
      : trace_(trace),
        policy_(policy),
        random_(random),
        where_(trace.order.size(), Where::kDisk),
        queues_(policy.disks()) {
    for (unsigned actor = 0; actor <= policy.disks(); ++actor) {
      speeds_.push_back(1 + random() % (random() % 4 == 0 ? 100 : 10));
    }
  }

  DriverResult run() {
    carry_out();
    while (step_ < trace_.steps.size()) {
      if (::testing::Test::HasFatalFailure()) return result_;
      const unsigned actor = choose_actor();
      if (actor == policy_.disks()) {
        merge_step();
      } else if (!queues_[actor].empty()) {
        const Position position = queues_[actor].front();
        queues_[actor].pop_front();
        where_[position] = Where::kMemory;
        policy_.fetched(position);
        carry_out();
      } else {
        result_.stuck = true;
        return result_;
      }
    }
    for (const auto& queue : queues_) EXPECT_TRUE(queue.empty()) << "reads nobody needs";
    for (const Where where : where_) EXPECT_EQ(where, Where::kUsedUp);
    EXPECT_EQ(buffers_, 0U);
    EXPECT_EQ(result_.fetches, trace_.order.size() + result_.drops)
        << "a dropped block is fetched again, any other once";
    EXPECT_EQ(result_.fetches, policy_.statistics().fetches);
    EXPECT_EQ(result_.drops, policy_.statistics().drops);
    EXPECT_EQ(result_.peak_buffers, policy_.statistics().peak_buffers);
    return result_;
  }

  // Blocks in memory that the merge has not taken.
  std::vector<Position> in_memory() const {
    std::vector<Position> result;
    for (Position position = 0; position < where_.size(); ++position) {
      if (where_[position] == Where::kMemory) result.push_back(position);
    }
    return result;
  }

 private:
  enum class Where { kDisk, kQueue, kMemory, kMerge, kUsedUp };

  bool merge_can_go_on() const {
    const Position taken = trace_.steps[step_].taken;
    if (taken == kNoPosition) return true;
    // A block to be given back first is progress too.
    return where_[taken] == Where::kMemory ||
           (trace_.steps[step_].released != kNoPosition && !released_);
  }

  // One of those who can do something, by their speeds; any idle disk where nobody can.
  unsigned choose_actor() {
    std::vector<unsigned> actors, weights;
    for (unsigned disk = 0; disk < policy_.disks(); ++disk) {
      if (!queues_[disk].empty()) actors.push_back(disk);
    }
    if (merge_can_go_on()) actors.push_back(policy_.disks());
    if (actors.empty()) return 0;
    for (const unsigned actor : actors) weights.push_back(speeds_[actor]);
    return actors[std::discrete_distribution<unsigned>(weights.begin(), weights.end())(random_)];
  }

  void merge_step() {
    const MergeStep& step = trace_.steps[step_];
    if (step.released != kNoPosition && !released_) {
      released_ = true;
      ASSERT_EQ(where_[step.released], Where::kMerge);
      where_[step.released] = Where::kUsedUp;
      --buffers_;
      policy_.released(step.released);
      carry_out();
    }
    if (step.taken != kNoPosition) {
      if (where_[step.taken] != Where::kMemory) {
        EXPECT_FALSE(policy_.ready(step.taken));
        return;
      }
      ASSERT_TRUE(policy_.ready(step.taken));
      where_[step.taken] = Where::kMerge;
      policy_.taken(step.taken);
      carry_out();
    }
    released_ = false;
    ++step_;
  }

  void carry_out() {
    for (;;) {
      const PrefetchAction action = policy_.next();
      if (action.kind == PrefetchAction::Kind::kNothing) return;
      ASSERT_LT(action.position, trace_.order.size());
      ASSERT_EQ(action.block, trace_.order[action.position]);
      Where& where = where_[action.position];
      if (action.kind == PrefetchAction::Kind::kDrop) {
        ASSERT_EQ(where, Where::kMemory);
        where = Where::kDisk;
        --buffers_;
        ++result_.drops;
        continue;
      }
      ASSERT_EQ(where, Where::kDisk) << "fetched twice";
      where = Where::kQueue;
      queues_[action.block.disk].push_back(action.position);
      ++result_.fetches;
      ++buffers_;
      ASSERT_LE(buffers_, policy_.buffers());
      result_.peak_buffers = std::max(result_.peak_buffers, buffers_);
    }
  }

  const MergeTrace& trace_;
  PrefetchPolicy& policy_;
  std::mt19937_64& random_;
  std::vector<Where> where_;
  std::vector<std::deque<Position>> queues_;
  std::vector<unsigned> speeds_;  // of the disks, and of the merge
  std::size_t buffers_ = 0;
  std::size_t step_ = 0;
  bool released_ = false;
  DriverResult result_;
};

}  // namespace vortex::test

// The parts of files in any order: the walks that CursorSet notices, and those that give way to
// others; HeldBlocks against a map and a list.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <set>

#include "io/array/cursor_set.h"
#include "io/array/held_blocks.h"
#include "tests/support/random_seed.h"

namespace vortex::any_order_parts_test { namespace {

constexpr std::size_t kDepth = 4;

// Touches blocks as a stream does, without memory: what is in reach is what the cursors say.
struct Walker {
  explicit Walker(std::size_t cursors) : set(cursors) {}

  // The cursor of the touch; null when it stands alone.
  Cursor* touch(std::uint64_t block) {
    set.tick();
    if (Cursor* const cursor = set.follow(block)) {
      set.step(*cursor, block, kDepth);
      return cursor;
    }
    const CursorSet::Beginning beginning = set.beginning_at(block);
    if (beginning == CursorSet::Beginning::kNone) return nullptr;
    Cursor& cursor = set.place_for_new();
    set.begin(cursor, block, beginning == CursorSet::Beginning::kForward, 1);
    return &cursor;
  }

  CursorSet set;
};

TEST(CursorSet, TwoNeighboursMakeAWalk) {
  Walker walker(4);
  EXPECT_EQ(walker.touch(100), nullptr);
  EXPECT_EQ(walker.touch(50), nullptr);
  Cursor* const up = walker.touch(101);
  ASSERT_NE(up, nullptr);
  EXPECT_TRUE(up->forward);
  Cursor* const down = walker.touch(49);
  ASSERT_NE(down, nullptr);
  EXPECT_FALSE(down->forward);
  EXPECT_EQ(walker.touch(102), up);
  EXPECT_EQ(walker.touch(48), down);
  EXPECT_EQ(walker.set.active(), 2u);
  EXPECT_TRUE(walker.set.has_head_in(100, 103));
  EXPECT_FALSE(walker.set.has_head_in(100, 102));
}

TEST(CursorSet, ReadAheadDoublesWithEachStep) {
  Walker walker(1);
  walker.touch(10);
  EXPECT_EQ(walker.touch(11)->depth, 1u);
  EXPECT_EQ(walker.touch(12)->depth, 2u);
  EXPECT_EQ(walker.touch(13)->depth, kDepth);
  EXPECT_EQ(walker.touch(14)->depth, kDepth);
  // The head once more is no step.
  EXPECT_EQ(walker.touch(14)->steps, 3u);
}

TEST(CursorSet, WhatIsInReachMayBeJumpedTo) {
  Walker walker(2);
  walker.touch(10);
  Cursor* const cursor = walker.touch(11);
  cursor->reach = 15;
  EXPECT_EQ(walker.touch(14), cursor);
  EXPECT_EQ(cursor->head, 14u);
  EXPECT_EQ(walker.touch(16), cursor);
  EXPECT_EQ(walker.touch(18), nullptr);
  // Behind the head is no part of the walk.
  EXPECT_EQ(walker.touch(12), nullptr);
}

// A step back does not turn a walk round; two do.
TEST(CursorSet, AComebackIsNoWalk) {
  Walker walker(2);
  for (std::uint64_t block = 10; block < 20; ++block) walker.touch(block);
  EXPECT_EQ(walker.touch(17), nullptr);
  EXPECT_NE(walker.touch(20), nullptr);
  EXPECT_EQ(walker.touch(15), nullptr);
  Cursor* const back = walker.touch(14);
  ASSERT_NE(back, nullptr);
  EXPECT_FALSE(back->forward);
}

TEST(CursorSet, TheNearestWalkGoesOn) {
  Walker walker(4);
  walker.touch(10);
  Cursor* const first = walker.touch(11);
  first->reach = 30;
  walker.touch(40);
  Cursor* const second = walker.touch(41);
  ASSERT_NE(first, second);
  second->head = second->reach = 20;
  EXPECT_EQ(walker.touch(21), second);
  EXPECT_EQ(walker.touch(12), first);
}

// Many single touches: the walks stay, and the second touch of each was found.
TEST(CursorSet, TouchesAloneChangeNothing) {
  constexpr std::uint64_t kWalks = 16;
  Walker walker(kWalks);
  for (std::uint64_t i = 0; i < kWalks; ++i) EXPECT_EQ(walker.touch(1000 * i + 1), nullptr);
  for (std::uint64_t i = 0; i < kWalks; ++i) EXPECT_NE(walker.touch(1000 * i + 2), nullptr);
  for (std::uint64_t step = 3; step < 30; ++step) {
    for (std::uint64_t i = 0; i < kWalks; ++i) {
      EXPECT_NE(walker.touch(1000 * i + step), nullptr);
      EXPECT_EQ(walker.touch(1'000'000 + 7 * (step * kWalks + i)), nullptr);
    }
  }
  EXPECT_EQ(walker.set.active(), kWalks);
}

TEST(CursorSet, AWalkThatStandsStillGivesWay) {
  Walker walker(2);
  for (std::uint64_t block = 100; block < 150; ++block) walker.touch(block);
  // Neighbours by chance do not displace it while there is another place ...
  walker.touch(1000);
  walker.touch(1001);
  walker.touch(2000);
  walker.touch(2001);
  EXPECT_NE(walker.set.follow(150), nullptr);
  EXPECT_EQ(walker.set.follow(1002), nullptr);
  // ... or it has been standing still for long.
  for (std::uint64_t block = 3001; block < 3100; ++block) walker.touch(block);
  EXPECT_EQ(walker.set.active(), 1u);
  walker.touch(5000);
  walker.touch(5001);
  EXPECT_EQ(walker.set.follow(150), nullptr);
  EXPECT_NE(walker.set.follow(3100), nullptr);
  EXPECT_NE(walker.set.follow(5002), nullptr);
}

TEST(HeldBlocks, AgainstAModel) {
  std::mt19937_64 random = test::test_random();
  for (const std::size_t capacity : {1, 4, 5, 33, 200}) {
    SCOPED_TRACE(capacity);
    HeldBlocks held(capacity);
    std::set<std::uint64_t> there;
    std::list<std::uint64_t> order;  // from the oldest on
    const std::uint64_t range = 3 * capacity;
    for (int i = 0; i < 5000; ++i) {
      // Blocks in a row and far apart, which meet in the table.
      const std::uint64_t block = (random() % range) << (random() % 2 == 0 ? 0 : 33);
      HeldBlock* found = held.find(block);
      ASSERT_EQ(found != nullptr, there.contains(block));
      const std::uint64_t choice = random() % 4;
      if (found == nullptr) {
        found = held.hold(block);
        ASSERT_EQ(found == nullptr, there.size() == capacity);
        if (found != nullptr) there.insert(block);
      } else if (choice == 0) {
        held.release(*found);
        there.erase(block);
        order.remove(block);
      } else {
        order.remove(block);
        if (choice == 1) {
          held.neglect(*found);
          order.push_front(block);
        } else {
          held.touch(*found);
          order.push_back(block);
        }
      }
      ASSERT_EQ(held.free_count(), capacity - there.size());
      ASSERT_EQ(held.ordered(), order.size());
      if (i % 50 != 0) continue;
      for (const std::uint64_t one : there) {
        ASSERT_NE(held.find(one), nullptr);
        ASSERT_EQ(held.find(one)->index, one);
      }
      HeldBlock* next = held.oldest();
      for (const std::uint64_t one : order) {
        ASSERT_NE(next, nullptr);
        ASSERT_EQ(next->index, one);
        next = held.next(*next);
      }
      ASSERT_EQ(next, nullptr);
    }
  }
}

}  // namespace

}  // namespace vortex::any_order_parts_test

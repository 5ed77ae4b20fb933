// HeldBlocks against a map and a list.
#include "io/array/held_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <set>

#include "tests/support/random_seed.h"

namespace vortex { namespace {

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

}  // namespace vortex

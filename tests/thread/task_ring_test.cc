#include "vortex/detail/merge/task_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/random_seed.h"

namespace vortex::task_ring_test { namespace {

// Tasks that are handed in come out in order, each slot worked on once between the two.
TEST(TaskRing, HandsOutInOrder) {
  auto random = test::test_random();
  for (const unsigned threads : {1U, 2U, 7U}) {
    for (const std::size_t slots : {1U, 2U, 5U, 15U}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << slots << " slots");
      std::vector<std::uint64_t> in(slots), out(slots);
      std::vector<std::atomic<bool>> busy(threads);  // each worker has one task at a time
      std::atomic<bool> shared{false};
      detail::TaskRing ring(detail::TaskRing::Kind::kSort, slots, threads,
                            [&](std::size_t slot, unsigned worker) {
                              if (worker >= threads || busy[worker].exchange(true)) shared = true;
                              std::uint64_t work = in[slot];
                              for (std::uint64_t i = in[slot] % 3000; i > 0; --i)
                                work = work * 3 + 1;
                              out[slot] = work ^ in[slot];
                              in[slot] = 0;
                              if (worker < threads) busy[worker] = false;
                            });
      std::vector<std::uint64_t> expected;
      std::size_t taken = 0;
      while (taken < 2000) {
        const bool fill =
            expected.size() < 2000 && ring.free_slots() > 0 && (ring.empty() || random() % 3 != 0);
        if (fill) {
          const std::uint64_t value = random();
          std::uint64_t work = value;
          for (std::uint64_t i = value % 3000; i > 0; --i) work = work * 3 + 1;
          expected.push_back(work ^ value);
          in[ring.next_free()] = value;
          ring.submit();
        } else {
          const std::size_t slot = ring.await();
          ASSERT_EQ(out[slot], expected[taken++]);
          ASSERT_EQ(in[slot], 0U);
          ring.release();
        }
      }
      EXPECT_FALSE(shared);
      EXPECT_TRUE(ring.empty());
      EXPECT_EQ(ring.free_slots(), slots);
    }
  }
}

// The owner does the work where no thread is there to do it.
TEST(TaskRing, TheOwnerWorks) {
  unsigned worked = 0;
  detail::TaskRing ring(detail::TaskRing::Kind::kSort, 3, 1,
                        [&](std::size_t, unsigned) { ++worked; });
  for (int i = 0; i < 3; ++i) ring.submit();
  EXPECT_EQ(worked, 0U);
  EXPECT_EQ(ring.free_slots(), 0U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ring.await(), i);
    ring.release();
  }
  EXPECT_EQ(worked, 3U);
}

TEST(TaskRing, MayEndWithWorkLeft) {
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> worked(8);
    {
      detail::TaskRing ring(detail::TaskRing::Kind::kSort, 8, 3,
                            [&](std::size_t slot, unsigned) { ++worked[slot]; });
      for (int i = 0; i < round % 9; ++i) ring.submit();
    }
    for (int i = 0; i < 8; ++i) EXPECT_LE(worked[static_cast<std::size_t>(i)], i < round % 9);
  }
}

}  // namespace

}  // namespace vortex::task_ring_test

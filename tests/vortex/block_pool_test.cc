#include "vortex/block_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/readable.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "tests/vortex/placed_blocks.h"
#include "tests/vortex/placing.h"
#include "vortex/error.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"

namespace vortex::block_pool_test { namespace {

// Blocks lie in bare reservations here.
const testing::Environment* const by_signals =
    testing::AddGlobalTestEnvironment(new test::BySignals(__FILE__));

using test::contains;
using test::fails;
using test::kSmall;
using test::map_count;
using test::PlacedBlocks;

std::string error_text(const BlockPoolOptions& options) {
  return test::message_of_error([&] { BlockPool pool(options); });
}

enum class Maps : std::uint8_t { kTouching, kWithin };

// Calls look(line) for what /proc/self/smaps says of maps that begin in [begin, end), or hold
// begin.
template <typename Look>
void for_maps(Maps which, const std::byte* begin, const std::byte* end, Look look) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2 && line.find(':') > 20) {
      const auto low = reinterpret_cast<std::uintptr_t>(begin);
      const auto high = reinterpret_cast<std::uintptr_t>(end);
      inside = which == Maps::kWithin ? from >= low && to <= high : from < high && to > low;
    } else if (inside) {
      look(line);
    }
  }
}

// The VmFlags of the map that holds an address.
std::string flags_of_map(const std::byte* address) {
  std::string flags;
  for_maps(Maps::kTouching, address, address + 1, [&](const std::string& line) {
    if (line.rfind("VmFlags:", 0) == 0) flags = line + " ";
  });
  return flags;
}

// Bytes of [begin, end) on huge pages. A map that reaches beyond is not counted, since it may have
// its huge pages there.
std::size_t huge_page_bytes(const std::byte* begin, const std::byte* end) {
  std::size_t kilobytes = 0;
  for_maps(Maps::kWithin, begin, end, [&](const std::string& line) {
    std::size_t count = 0;
    if (std::sscanf(line.c_str(), "AnonHugePages: %lu", &count) == 1 ||
        std::sscanf(line.c_str(), "ShmemPmdMapped: %lu", &count) == 1) {
      kilobytes += count;
    }
  });
  return kilobytes << 10;
}

TEST(BlockPool, RefusesSizesOutOfRange) {
  EXPECT_TRUE(
      contains(error_text({.pool_bytes = 1 << 20, .block_bytes = 5000}), "multiples of the page"));
  EXPECT_TRUE(
      contains(error_text({.pool_bytes = 1 << 20, .block_bytes = 8192}), "16 KiB to 64 MiB"));
  EXPECT_TRUE(contains(
      error_text({.pool_bytes = std::size_t{1} << 30, .block_bytes = std::size_t{128} << 20}),
      "128 MiB"));
  EXPECT_TRUE(contains(error_text({.pool_bytes = 0}), "the least that works is 2 MiB"));
  EXPECT_TRUE(
      contains(error_text({.pool_bytes = 100, .block_bytes = kSmall, .name = "tiny"}), "'tiny'"));
}

TEST(BlockPool, ChoosesBlocksThatFitTheMapLimit) {
  BlockPool small({.pool_bytes = std::size_t{8} << 20, .warming = Warming::kOnDemand});
  EXPECT_EQ(small.block_bytes(), kDefaultBlockBytes);
  // At 2 MiB this pool could need 2^19 maps.
  const std::size_t huge = std::size_t{512} << 30;
  BlockPool large({.pool_bytes = huge, .warming = Warming::kOnDemand});
  EXPECT_GT(large.block_bytes(), kDefaultBlockBytes);
  EXPECT_EQ(large.block_bytes() % kDefaultBlockBytes, 0u);
  EXPECT_LT(2 * large.block_count(), os::max_map_count());
  EXPECT_EQ(large.pool_bytes(), huge);
}

TEST(BlockPool, NamesTheMapLimitAndTheValueThatWouldDo) {
  const std::size_t blocks = os::max_map_count();
  const std::string text = error_text({.pool_bytes = blocks * kSmall, .block_bytes = kSmall});
  EXPECT_TRUE(contains(text, "vm.max_map_count is " + std::to_string(os::max_map_count())));
  const std::size_t at = text.find("sysctl -w vm.max_map_count=");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_GE(std::stoul(text.substr(at + 27)), 2 * blocks);
  EXPECT_EQ(MapBudget::claimed(), 0u) << "a refused pool claims nothing";
}

TEST(BlockPool, ClaimsTheMapsOfTheBlocksThatMayBePlaced) {
  const std::size_t blocks = os::max_map_count();
  BlockPool pool({.pool_bytes = blocks * kSmall,
                  .block_bytes = kSmall,
                  .warming = Warming::kOnDemand,
                  .most_placed = 3});
  EXPECT_EQ(MapBudget::claimed(), BlockPool::maps_needed(3));
  pool.expect_placed(10);
  EXPECT_EQ(MapBudget::claimed(), BlockPool::maps_needed(10));
  pool.expect_placed(5);
  EXPECT_EQ(MapBudget::claimed(), BlockPool::maps_needed(10));
  EXPECT_TRUE(fails([&] { pool.expect_placed(blocks); }, ENOMEM, "vm.max_map_count"));
  EXPECT_EQ(MapBudget::claimed(), BlockPool::maps_needed(10));
}

class PoolKinds : public testing::TestWithParam<PoolKind> {
 protected:
  // A pool of so many small blocks, all of them there unless told otherwise.
  static BlockPoolOptions small_blocks(std::size_t blocks, Warming warming = Warming::kEager) {
    return {.pool_bytes = blocks * kSmall,
            .block_bytes = kSmall,
            .warming = warming,
            .kind = GetParam()};
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, PoolKinds, testing::Values(PoolKind::kMoves, PoolKind::kAliases),
                         [](const auto& info) {
                           return info.param == PoolKind::kMoves ? "moves" : "aliases";
                         });

TEST_P(PoolKinds, BlocksKeepTheirBytesWhereverTheyAre) {
  for (std::size_t block_bytes : {kSmall, std::size_t{2} << 20, std::size_t{3} << 20}) {
    PlacedBlocks placed(
        {.pool_bytes = 4 * block_bytes, .block_bytes = block_bytes, .kind = GetParam()}, 16);
    BlockPool& pool = placed.pool;
    placed.take_all();
    const std::vector<Block>& blocks = placed.blocks;
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(pool.resting(blocks[i]));
      std::memset(pool.home(blocks[i]), 'a' + i, block_bytes);
    }
    std::mt19937_64 random(block_bytes);
    std::vector<int> at(16, -1);  // which block is placed where
    std::vector<int> place_of(4, -1);
    for (int step = 0; step < 500; ++step) {
      const int which = static_cast<int>(random() % 4);
      const int where = static_cast<int>(random() % 17) - 1;  // -1: home
      if (where >= 0 && at[where] >= 0) continue;
      std::byte* const target = where < 0 ? pool.home(blocks[which]) : placed.at(where);
      ASSERT_EQ(where < 0 ? pool.withdraw(blocks[which]) : pool.place(blocks[which], target), 0);
      if (place_of[which] >= 0) at[place_of[which]] = -1;
      place_of[which] = where;
      if (where >= 0) at[where] = which;
      EXPECT_EQ(pool.where(blocks[which]), target);
      EXPECT_EQ(target[0], static_cast<std::byte>('a' + which));
      EXPECT_EQ(target[block_bytes - 1], static_cast<std::byte>('a' + which));
      EXPECT_EQ(std::memcmp(target, target + 1, block_bytes - 1), 0);
    }
  }
}

TEST_P(PoolKinds, PlacingInOrderAddsNoMaps) {
  constexpr std::size_t kBlocks = 256;
  PlacedBlocks placed(small_blocks(kBlocks), kBlocks);
  placed.take_all();
  const std::size_t before = map_count();
  for (Block block : placed.blocks) {
    ASSERT_EQ(placed.pool.place(block, placed.at(block.index)), 0);
  }
  EXPECT_LE(map_count(), before + 4);
  for (Block block : placed.blocks) ASSERT_EQ(placed.pool.withdraw(block), 0);
  EXPECT_LE(map_count(), before + 2);
}

TEST_P(PoolKinds, ScatteredBlocksStayWithinTheirBudget) {
  constexpr std::size_t kBlocks = 300;
  const std::size_t before = map_count();
  PlacedBlocks placed(small_blocks(kBlocks), 2 * kBlocks);
  placed.take_all();
  for (std::size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(placed.pool.place(placed.blocks[i], placed.at(2 * (kBlocks - 1 - i))), 0);
  }
  // A little beside it, since a sanitizer maps memory of its own all the while.
  EXPECT_LE(map_count(), before + MapBudget::claimed() + 16);
}

TEST_P(PoolKinds, QuotasGuaranteeTheirMinimum) {
  BlockPool pool({.pool_bytes = 10 * kSmall, .block_bytes = kSmall, .kind = GetParam()});
  BlockQuota first(pool, 4, BlockQuota::kNoMaximum, "first");
  BlockQuota second(pool, 3, 3, "second");
  std::vector<Block> of_first;
  for (;;) {
    const BlockGrant grant = first.try_take();
    if (grant.error != 0) {
      EXPECT_EQ(grant.error, EAGAIN);
      break;
    }
    of_first.push_back(grant.block);
  }
  EXPECT_EQ(of_first.size(), 7u) << "all but what the second is guaranteed";
  const auto admit_third = [&] { BlockQuota third(pool, 1, 1, "third"); };
  EXPECT_TRUE(fails(admit_third, ENOMEM, "third needs at least 1 blocks"));
  EXPECT_TRUE(fails(admit_third, ENOMEM, "at least 176 KiB"));
  std::vector<Block> of_second;
  for (int i = 0; i < 3; ++i) {
    const BlockGrant grant = second.try_take();
    ASSERT_EQ(grant.error, 0);
    of_second.push_back(grant.block);
  }
  EXPECT_EQ(second.try_take().error, EAGAIN) << "its maximum";
  EXPECT_EQ(pool.statistics().blocks_in_use, 10u);
  EXPECT_EQ(pool.statistics().peak_blocks_in_use, 10u);
  EXPECT_EQ(pool.statistics().blocks_guaranteed, 7u);
  for (Block block : of_first) first.give_back(block);
  for (Block block : of_second) second.give_back(block);
  EXPECT_EQ(pool.statistics().blocks_in_use, 0u);
  EXPECT_EQ(pool.statistics().peak_blocks_in_use, 10u);
}

TEST_P(PoolKinds, RetiredBlocksAreNobodys) {
  BlockPool pool(small_blocks(8, Warming::kOnDemand));
  BlockQuota quota(pool, 3, 8, "taker");
  std::vector<Block> blocks;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(quota.try_take().block);
    std::memset(pool.home(blocks.back()), 'a' + i, kSmall);
  }
  quota.give_back(blocks.back());
  blocks.pop_back();
  EXPECT_EQ(pool.retire(2), 2u);
  EXPECT_EQ(pool.retire(100), 2u);  // four are held
  EXPECT_EQ(pool.retire(1), 0u);
  EXPECT_EQ(pool.statistics().blocks_retired, 4u);
  EXPECT_EQ(pool.statistics().blocks_populated, 4u);
  EXPECT_EQ(quota.try_take().error, EAGAIN);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(*pool.home(blocks[i]), static_cast<std::byte>('a' + i));
  }
  // What is guaranteed stays, until it is no more.
  while (blocks.size() > 1) {
    quota.give_back(blocks.back());
    blocks.pop_back();
  }
  EXPECT_EQ(pool.retire(100), 1u);
  quota.lower_to(2);
  EXPECT_EQ(quota.minimum(), 2u);
  EXPECT_EQ(quota.maximum(), 2u);
  EXPECT_EQ(pool.retire(100), 1u);
  blocks.push_back(quota.try_take().block);
  EXPECT_EQ(quota.try_take().error, EAGAIN);
  quota.lower_to(0);
  EXPECT_EQ(quota.minimum(), 2u) << "that are held";
  for (const Block block : blocks) quota.give_back(block);
  quota.lower_to(0);
  EXPECT_EQ(pool.statistics().blocks_guaranteed, 0u);
  EXPECT_EQ(pool.retire(100), 2u);
  EXPECT_EQ(pool.statistics().blocks_populated, 0u);
  EXPECT_EQ(pool.statistics().blocks_in_use, pool.statistics().blocks_retired);
}

// Whether they are taken from it one at a time or together.
TEST_P(PoolKinds, BlocksOfAHugePageThatWasNotTouchedRetire) {
  constexpr std::size_t kBlocks = (std::size_t{4} << 20) / kSmall;
  for (const std::size_t at_once : {std::size_t{1}, kBlocks}) {
    BlockPool pool(small_blocks(kBlocks, Warming::kOnDemand));
    BlockQuota quota(pool, kBlocks - 10, kBlocks, "taker");
    std::size_t retired = 0;
    while (const std::size_t some = pool.retire(at_once)) retired += some;
    EXPECT_EQ(retired, 10u);
    std::vector<Block> blocks;
    for (BlockGrant grant = quota.try_take(); grant.error == 0; grant = quota.try_take()) {
      blocks.push_back(grant.block);
    }
    EXPECT_EQ(blocks.size(), kBlocks - 10);
    EXPECT_EQ(pool.statistics().blocks_populated, kBlocks - 10);
    for (const Block block : blocks) quota.give_back(block);
  }
}

TEST_P(PoolKinds, QuotaModel) {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 50; ++round) {
    const std::size_t total = 1 + random() % 12;
    BlockPool pool(small_blocks(total, Warming::kOnDemand));
    struct User {
      std::unique_ptr<BlockQuota> quota;
      std::vector<Block> blocks;
    };
    std::vector<User> users;
    auto unclaimed = [&] {
      std::size_t sum = 0;
      for (const User& user : users) {
        sum += user.quota->minimum() - std::min(user.quota->minimum(), user.blocks.size());
      }
      return sum;
    };
    auto in_use = [&] {
      std::size_t sum = 0;
      for (const User& user : users) sum += user.blocks.size();
      return sum;
    };
    for (int step = 0; step < 300; ++step) {
      const auto action = random() % 10;
      if (action == 0) {
        const std::size_t minimum = random() % 4;
        const bool fits = minimum + unclaimed() + in_use() <= total;
        const int error = test::error_of([&] {
          users.push_back(
              {std::make_unique<BlockQuota>(pool, minimum, minimum + random() % 5, "user"), {}});
        });
        EXPECT_EQ(error == 0, fits);
      } else if (!users.empty()) {
        User& user = users[random() % users.size()];
        if (action < 6) {
          const bool guaranteed = user.blocks.size() < user.quota->minimum();
          const bool expected = user.blocks.size() < user.quota->maximum() &&
                                (guaranteed || in_use() + unclaimed() < total);
          const BlockGrant grant = user.quota->try_take();
          EXPECT_EQ(grant.error == 0, expected);
          if (grant.error == 0) user.blocks.push_back(grant.block);
        } else if (!user.blocks.empty()) {
          user.quota->give_back(user.blocks.back());
          user.blocks.pop_back();
        }
      }
      EXPECT_EQ(pool.statistics().blocks_in_use, in_use());
    }
    for (User& user : users) {
      for (Block block : user.blocks) user.quota->give_back(block);
    }
  }
}

TEST_P(PoolKinds, TakersOnManyThreadsGetDifferentBlocks) {
  BlockPool pool({.pool_bytes = 64 * kSmall, .block_bytes = kSmall, .kind = GetParam()});
  BlockQuota quota(pool, 0, BlockQuota::kNoMaximum, "all");
  std::atomic<int> clashes{0};
  test::run_together(4, [&](std::size_t t) {
    for (int i = 0; i < 2000; ++i) {
      const BlockGrant grant = quota.try_take();
      if (grant.error != 0) continue;
      auto* word = reinterpret_cast<std::atomic<std::size_t>*>(pool.home(grant.block));
      word->store(t);
      if (word->load() != t) ++clashes;
      quota.give_back(grant.block);
    }
  });
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(quota.held(), 0u);
}

class Warmings : public testing::TestWithParam<Warming> {};

TEST_P(Warmings, EveryBlockIsUsableAtOnceAndWarmInTheEnd) {
  BlockPool pool({.pool_bytes = 32 * kSmall, .block_bytes = kSmall, .warming = GetParam()});
  if (GetParam() == Warming::kEager) {
    EXPECT_EQ(pool.statistics().blocks_populated, 32u);
  }
  BlockQuota quota(pool, 32, 32, "test");
  std::vector<Block> blocks;
  for (int i = 0; i < 32; ++i) {
    const BlockGrant grant = quota.try_take();
    ASSERT_EQ(grant.error, 0);
    blocks.push_back(grant.block);
    unsigned char resident[4] = {};
    ASSERT_EQ(mincore(pool.home(grant.block), kSmall, resident), 0);
    for (unsigned char page : resident) EXPECT_EQ(page & 1, 1);
  }
  pool.wait_until_warm();
  EXPECT_EQ(pool.statistics().blocks_populated, 32u);
  for (Block block : blocks) quota.give_back(block);
}

INSTANTIATE_TEST_SUITE_P(All, Warmings,
                         testing::Values(Warming::kBackground, Warming::kEager,
                                         Warming::kOnDemand));

// Blocks of a huge page lie side by side in memory when they have left it, too: a disk is told of
// one piece and not of one for each page.
TEST_P(PoolKinds, BlocksOfAllSizesBeginInHugePages) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  Reservation control({.bytes = kHugePage});
  int error = 0;
  ASSERT_NE(os::map_memory(control.begin(), kHugePage, &error), nullptr);
  os::advise(control.begin(), kHugePage, MADV_HUGEPAGE);
  ASSERT_EQ(os::populate(control.begin(), kHugePage), 0);
  if (huge_page_bytes(control.begin(), control.begin() + kHugePage) == 0) {
    END_TEST_WITHOUT(test::Environment::kHugePages, "the system grants no huge page");
  }
  if (GetParam() == PoolKind::kAliases && os::collapse(control.begin(), kHugePage) == EINVAL) {
    END_TEST_WITHOUT(test::Environment::kHugePages,
                     "the kernel has no MADV_COLLAPSE (Linux 6.1), which aliases need");
  }
  for (const std::size_t block_bytes : {kSmall, kHugePage / 2, kHugePage, 2 * kHugePage}) {
    SCOPED_TRACE(block_bytes);
    // And a block more, where a huge page has no room.
    BlockPool pool({.pool_bytes = 2 * kHugePage + std::min(block_bytes, kHugePage / 2),
                    .block_bytes = block_bytes,
                    .warming = Warming::kOnDemand,
                    .kind = GetParam()});
    BlockQuota quota(pool, pool.block_count(), pool.block_count(), "test");
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < pool.block_count(); ++i) {
      const BlockGrant grant = quota.try_take();
      ASSERT_EQ(grant.error, 0);
      blocks.push_back(grant.block);
      if (i > 0) continue;
      EXPECT_EQ(pool.statistics().blocks_populated,
                std::max<std::size_t>(1, kHugePage / block_bytes));
    }
    EXPECT_EQ(pool.statistics().blocks_populated, pool.block_count());
    EXPECT_EQ(huge_page_bytes(pool.homes(), pool.homes() + pool.pool_bytes()), 2 * kHugePage);
    for (Block block : blocks) quota.give_back(block);
  }
  // Not asked for.
  const BlockPool pool({.pool_bytes = 2 * kHugePage,
                        .block_bytes = kSmall,
                        .warming = Warming::kEager,
                        .kind = GetParam(),
                        .huge_pages = false});
  EXPECT_EQ(huge_page_bytes(pool.homes(), pool.homes() + pool.pool_bytes()), 0u);
}

int failing_call = -1;
os::MemoryCall failing_kind;
int fail_nth(os::MemoryCall call) noexcept {
  return call == failing_kind && failing_call-- == 0 ? ENOMEM : 0;
}

// The kernel may refuse any call: the block stays where it was, with its bytes, and the pool goes
// on.
TEST_P(PoolKinds, RefusedCallsLeaveTheBlockWhereItWas) {
  PlacedBlocks placed(small_blocks(2), 4);
  BlockPool& pool = placed.pool;
  const Block block = placed.take();
  std::memset(pool.home(block), 'x', kSmall);
  std::byte* const spots[] = {pool.home(block), placed.at(0), placed.at(2)};
  const bool moves = GetParam() == PoolKind::kMoves;
  const os::MemoryCall there = moves ? os::MemoryCall::kMove : os::MemoryCall::kAlias;
  for (os::MemoryCall kind : {there, os::MemoryCall::kVacate}) {
    for (std::byte* from : spots) {
      for (std::byte* to : spots) {
        if (from == to) continue;
        ASSERT_EQ(pool.place(block, from), 0);
        // Makes no such call.
        if (kind == os::MemoryCall::kVacate && from == pool.home(block)) continue;
        if (kind == os::MemoryCall::kAlias && to == pool.home(block)) continue;
        failing_kind = kind;
        failing_call = 0;
        os::set_failure_hook(&fail_nth);
        const int error = pool.place(block, to);
        os::set_failure_hook(nullptr);
        EXPECT_EQ(error, ENOMEM);
        EXPECT_EQ(pool.where(block), from);
        EXPECT_EQ(from[0], std::byte{'x'});
        EXPECT_EQ(from[kSmall - 1], std::byte{'x'});
        EXPECT_TRUE(to == pool.home(block) || !test::readable(to)) << "zeros where nothing lies";
        EXPECT_EQ(pool.place(block, to), 0) << "works again";
        EXPECT_EQ(to[0], std::byte{'x'});
      }
    }
  }
}

// It moves the block, makes no room for it where it was, and does not take it back either.
TEST(BlockPool, ABlockBetweenTwoRefusalsIsLostAndNothingElse) {
  BlockPool pool({.pool_bytes = 2 * kSmall, .block_bytes = kSmall, .warming = Warming::kEager});
  {
    BlockQuota quota(pool, 2, 2, "test");
    Reservation space({.bytes = 4 * kSmall});
    const Block lost = quota.try_take().block;
    ASSERT_EQ(pool.place(lost, space.begin()), 0);
    static int moves;
    moves = 0;
    os::set_failure_hook(+[](os::MemoryCall call) noexcept {
      const bool back = call == os::MemoryCall::kMove && ++moves == 2;
      return back || call == os::MemoryCall::kVacate ? ENOMEM : 0;
    });
    EXPECT_EQ(pool.place(lost, space.begin() + 2 * kSmall), ENOMEM);
    os::set_failure_hook(nullptr);
    EXPECT_TRUE(pool.lost(lost));
    EXPECT_FALSE(test::readable(space.begin())) << "zeros where nothing lies";
    EXPECT_EQ(pool.withdraw(lost), ENOMEM);
    quota.give_back(lost);
    const Block other = quota.try_take().block;
    EXPECT_FALSE(other == lost);
    EXPECT_EQ(quota.try_take().error, EAGAIN);
    quota.give_back(other);
  }
  EXPECT_EQ(pool.statistics().blocks_lost, 1u);
  const BlockQuota rest(pool, 1, 1, "rest");
}

// The kernel unmaps the destination before it looks whether there is room for the move.
TEST(BlockPoolDeathTest, ARefusedMoveLeavesNoHole) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's own memory counts against RLIMIT_DATA";
  const auto body = [] {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    BlockPool pool({.pool_bytes = kBytes, .block_bytes = kBytes, .warming = Warming::kEager});
    BlockQuota quota(pool, 1, 1, "test");
    Reservation space({.bytes = kBytes});
    const Block block = quota.try_take().block;
    const rlimit before_moves{kBytes, kBytes};
    if (setrlimit(RLIMIT_DATA, &before_moves) != 0) return 1;
    if (pool.place(block, space.begin()) != ENOMEM) return 2;
    if (pool.where(block) != pool.home(block)) return 3;
    unsigned char resident = 0;
    if (mincore(space.begin(), 4096, &resident) != 0) return 4;
    quota.give_back(block);
    return 0;
  };
  EXPECT_EXIT(_exit(body()), ::testing::ExitedWithCode(0), "");
}

// The thread that warms has the last cold block in hand while somebody waits for that thread, and
// is refused then.
TEST_P(PoolKinds, WhoWaitsUntilWarmTriesAgainWhatTheThreadWasRefused) {
  static pid_t waiting;
  static std::atomic<bool> in_hand;
  waiting = gettid();
  for (int round = 0; round < 20; ++round) {
    in_hand = false;
    os::set_failure_hook(+[](os::MemoryCall call) noexcept {
      if (call != os::MemoryCall::kPopulate || gettid() == waiting) return 0;
      in_hand = true;
      while (!test::asleep(waiting)) std::this_thread::yield();
      return ENOMEM;
    });
    BlockPool pool(small_blocks(1, Warming::kBackground));
    while (!in_hand) std::this_thread::yield();
    pool.wait_until_warm();
    os::set_failure_hook(nullptr);
    EXPECT_EQ(pool.statistics().blocks_populated, 1u);
  }
}

TEST_P(PoolKinds, RefusedMemoryIsTheTakersErrorAndNothingIsLost) {
  BlockPool pool(small_blocks(2, Warming::kOnDemand));
  BlockQuota quota(pool, 2, 2, "test");
  failing_kind = os::MemoryCall::kPopulate;
  failing_call = 0;
  os::set_failure_hook(&fail_nth);
  const BlockGrant refused = quota.try_take();
  os::set_failure_hook(nullptr);
  EXPECT_EQ(refused.error, ENOMEM);
  EXPECT_FALSE(refused.block);
  EXPECT_EQ(quota.held(), 0u);
  const Block first = quota.try_take().block;
  const Block second = quota.try_take().block;
  EXPECT_TRUE(first && second && !(first == second));
  quota.give_back(first);
  quota.give_back(second);

  failing_call = 1;
  os::set_failure_hook(&fail_nth);
  EXPECT_TRUE(contains(error_text(small_blocks(4)), "use a smaller pool"));
  os::set_failure_hook(nullptr);
}

// While blocks move, other threads map and unmap as fast as they can. A map of theirs inside one of
// our ranges means that a range of ours was free for an instant.
TEST_P(PoolKinds, NoOtherMapEverLandsInOurRanges) {
  constexpr std::size_t kBlocks = 4;
  PlacedBlocks placed(small_blocks(kBlocks), 64);
  BlockPool& pool = placed.pool;
  const Reservation& space = placed.space;
  std::atomic<bool> stop{false};
  std::atomic<int> intruders{0};
  std::atomic<long> attempts{0};
  std::vector<std::thread> mappers;
  for (int t = 0; t < 2; ++t) {
    mappers.emplace_back([&] {
      auto inside = [](const void* p, const std::byte* begin, std::size_t bytes) {
        return p >= begin && p < begin + bytes;
      };
      while (!stop.load(std::memory_order_relaxed)) {
        // One attempt in the dark, as any allocator makes; one at the range itself, which the
        // kernel grants only if it is free. (A map that landed there is left alone: it may be ours
        // by now.)
        void* any = mmap(nullptr, kSmall, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (inside(any, space.begin(), space.bytes()) ||
            inside(any, pool.homes(), pool.pool_bytes())) {
          ++intruders;
        } else if (any != MAP_FAILED) {
          munmap(any, kSmall);
        }
        for (std::byte* wanted : {space.begin(), pool.homes()}) {
          void* got = mmap(wanted, kSmall, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
          if (got != MAP_FAILED) ++intruders;
        }
        attempts.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  placed.take_all();
  for (int i = 0; i < 3000 || attempts.load() < 3000; ++i) {
    const Block block = placed.blocks[i % kBlocks];
    ASSERT_EQ(pool.place(block, placed.at(i % 3)), 0);
    ASSERT_EQ(pool.place(block, placed.at(3 + i % 3)), 0) << "and straight on";
    ASSERT_EQ(pool.withdraw(block), 0);
  }
  stop = true;
  for (std::thread& thread : mappers) thread.join();
  EXPECT_EQ(intruders, 0);
}

TEST_P(PoolKinds, FlagsStandOnOurMapsAndTravelWithTheBlocks) {
  for (bool dumped : {false, true}) {
    BlockPoolOptions options = small_blocks(2);
    options.in_core_dumps = dumped;
    PlacedBlocks placed(options, 2);
    const Block block = placed.take();
    ASSERT_EQ(placed.pool.place(block, placed.at(0)), 0);
    for (const std::byte* at : {placed.pool.homes(), placed.at(0)}) {
      const std::string flags = flags_of_map(at);
      EXPECT_TRUE(contains(flags, " dc ")) << "not copied on fork";
      EXPECT_EQ(flags.find(" dd ") != std::string::npos, !dumped) << flags;
    }
    ASSERT_EQ(placed.pool.withdraw(block), 0);
    EXPECT_FALSE(contains(flags_of_map(placed.at(0)), " dc "))
        << "the reservation has no flags of ours";
  }
}

// A child has the objects and none of the memory. It may destroy the objects, and maps of its own
// that came to lie where the parent's blocks are must survive that.
TEST_P(PoolKinds, ForkedChildInheritsNothingAndBreaksNothing) {
  auto pool = std::make_unique<BlockPool>(
      BlockPoolOptions{.pool_bytes = 4 * kSmall, .block_bytes = kSmall, .kind = GetParam()});
  auto quota = std::make_unique<BlockQuota>(*pool, 1, 1, "test");
  const Block block = quota->try_take().block;
  std::memset(pool->home(block), 'p', kSmall);
  // It does not know that a forked child has no other threads.
  if (test::kThreadSanitizer) pool->wait_until_warm();
  const auto body = [&] {
    unsigned char resident;
    const bool absent = mincore(pool->home(block), 4096, &resident) == -1 && errno == ENOMEM;
    void* own = mmap(pool->homes(), kSmall, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own == MAP_FAILED) return 2;
    *static_cast<char*>(own) = 'c';
    quota.reset();
    pool.reset();
    return absent && *static_cast<char*>(own) == 'c' ? 0 : 1;
  };
  EXPECT_EQ(test::in_child(body), 0);
  EXPECT_EQ(*pool->home(block), std::byte{'p'});
  quota->give_back(block);
}

TEST(BlockPoolDeathTest, BrokenContractsEndWithALine) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto* pool = new BlockPool({.pool_bytes = kSmall, .block_bytes = kSmall, .name = "mine"});
        BlockQuota quota(*pool, 1, 1, "user");
        delete pool;
      },
      "pool 'mine' is destroyed while 1 of its users still live");
  EXPECT_DEATH(
      {
        BlockPool pool({.pool_bytes = kSmall, .block_bytes = kSmall});
        BlockQuota quota(pool, 1, 1, "a user");
        (void)quota.try_take();
      },
      "a user ends while it still holds 1 blocks");
  EXPECT_DEATH(
      {
        BlockPool pool({.pool_bytes = kSmall, .block_bytes = kSmall});
        BlockQuota quota(pool, 1, 1, "a user");
        Reservation space({.bytes = kSmall});
        const Block block = quota.try_take().block;
        (void)pool.place(block, space.begin());
        quota.give_back(block);
      },
      "gives back block 0 of pool 'pool' while it is placed");
  EXPECT_DEATH(
      {
        BlockPool pool({.pool_bytes = kSmall, .block_bytes = kSmall, .checked_homes = true});
        BlockQuota quota(pool, 1, 1, "a user");
        Reservation space({.bytes = kSmall});
        const Block block = quota.try_take().block;
        (void)pool.place(block, space.begin());
        *reinterpret_cast<volatile char*>(pool.home(block)) = 1;
        _exit(0);
      },
      "");
}

}  // namespace

}  // namespace vortex::block_pool_test

// Tests of the abilities that only pools of aliases have, and of the calls that the system may
// refuse them. block_pool_test tests the abilities that they share with pools that move.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/readable.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"
#include "tests/vortex/placed_blocks.h"
#include "tests/vortex/placing.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/memory_budget.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"

namespace vortex::alias_pool_test { namespace {

const testing::Environment* const by_signals =
    testing::AddGlobalTestEnvironment(new test::BySignals(__FILE__));

using test::kSmall;
using test::map_count;
using test::PlacedBlocks;

BlockPoolOptions aliases(std::size_t blocks, std::size_t block_bytes = kSmall) {
  return {.pool_bytes = blocks * block_bytes,
          .block_bytes = block_bytes,
          .warming = Warming::kEager,
          .kind = PoolKind::kAliases};
}

// Blocks at random places, several times over, against a table of what lies where.
TEST(AliasPool, BlocksAtManyAddressesAgainstATable) {
  constexpr std::size_t kBlocks = 6, kPlaces = 24;
  for (const std::size_t block_bytes : {kSmall, std::size_t{2} << 20}) {
    PlacedBlocks placed(aliases(kBlocks, block_bytes), kPlaces);
    BlockPool& pool = placed.pool;
    ASSERT_TRUE(pool.aliases());
    placed.take_all();
    std::vector<std::byte> stamp(kBlocks);
    std::vector<int> at(kPlaces, -1);
    auto random = test::test_random(block_bytes);
    const auto put_stamp = [&](std::byte* begin) {
      const auto value = static_cast<std::byte>(random() | 1);
      begin[0] = begin[block_bytes - 1] = value;
      return value;
    };
    for (std::uint32_t i = 0; i < kBlocks; ++i) stamp[i] = put_stamp(pool.home(Block{i}));
    for (int step = 0; step < 2000; ++step) {
      const std::size_t place = random() % kPlaces;
      std::byte* const address = placed.at(place);
      const auto first = static_cast<std::uint32_t>(random() % kBlocks);
      const std::size_t count =
          1 + random() % std::min<std::size_t>(kBlocks - first, kPlaces - place);
      if (random() % 3 != 0) {
        ASSERT_EQ(pool.map_also(Block{first}, count, address, Rights::kReadWrite), 0);
        for (std::size_t i = 0; i < count; ++i) at[place + i] = static_cast<int>(first + i);
      } else {
        ASSERT_EQ(placed.space.vacate(address, count * block_bytes), 0);
        std::fill_n(at.begin() + static_cast<std::ptrdiff_t>(place), count, -1);
      }
      // Written at one address, or at home.
      const std::size_t writer = random() % kPlaces;
      if (at[writer] >= 0) {
        const auto block = static_cast<std::size_t>(at[writer]);
        stamp[block] = put_stamp(step % 2 == 0 ? placed.at(writer)
                                               : pool.home(Block{static_cast<uint32_t>(block)}));
      }
      for (std::size_t i = 0; i < kPlaces; ++i) {
        const std::byte* const here = placed.at(i);
        if (at[i] < 0) {
          // Each time the one that changed, since asking takes a system call.
          ASSERT_FALSE(i == place && test::readable(here));
        } else {
          ASSERT_EQ(here[0], stamp[static_cast<std::size_t>(at[i])]) << "step " << step;
          ASSERT_EQ(here[block_bytes - 1], stamp[static_cast<std::size_t>(at[i])]);
        }
      }
    }
  }
}

TEST(AliasPool, BlocksThatAreDrawnInOrderShareAMap) {
  constexpr std::size_t kBlocks = 64;
  BlockPool pool(aliases(kBlocks));
  BlockQuota quota(pool, kBlocks, kBlocks, "test");
  Reservation space({.bytes = 4 * kBlocks * kSmall});
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) blocks.push_back(quota.try_take().block);
  const std::size_t before = map_count();
  for (std::size_t i = 0; i < 4 * kBlocks; ++i) {
    ASSERT_EQ(pool.map_also(blocks[i % kBlocks], 1, space.begin() + i * kSmall, Rights::kRead), 0);
  }
  EXPECT_LE(map_count(), before + 4 + 2) << "a map for each time around";
  // And again in that order after they came back in another.
  auto random = test::test_random(1);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const Block block : blocks) quota.give_back(block);
  for (std::uint32_t i = 0; i < kBlocks; ++i) EXPECT_EQ(quota.try_take().block.index, i);
  for (std::uint32_t i = 0; i < kBlocks; ++i) quota.give_back(Block{i});
}

// However often it is mapped.
TEST(AliasPool, MemoryIsHeldOnce) {
  if (test::kShadowMemory) GTEST_SKIP() << "shadow memory hides what the process takes";
  constexpr std::size_t kBlockBytes = std::size_t{2} << 20, kBlocks = 8, kTimes = 16;
  const std::size_t before = held_bytes();
  const std::size_t resident = process_memory().resident_bytes;
  PlacedBlocks placed(aliases(kBlocks, kBlockBytes), kTimes * kBlocks);
  BlockPool& pool = placed.pool;
  placed.take_all();
  for (std::size_t time = 0; time < kTimes; ++time) {
    std::byte* const begin = placed.at(time * kBlocks);
    ASSERT_EQ(pool.map_also(Block{0}, kBlocks, begin, Rights::kReadWrite), 0);
    std::memset(begin, 1, pool.pool_bytes());
  }
  constexpr std::size_t kSlack = std::size_t{1} << 20;
  EXPECT_LT(held_bytes(), before + pool.pool_bytes() + kSlack);
  EXPECT_GE(process_memory().resident_bytes, resident + kTimes * pool.pool_bytes())
      << "which is why top shows more";
}

TEST(AliasPoolDeathTest, AReaderMayNotWrite) {
  const auto body = [] {
    BlockPool pool(aliases(1));
    BlockQuota quota(pool, 1, 1, "test");
    Reservation space({.bytes = kSmall});
    const Block block = quota.try_take().block;
    if (pool.map_also(block, 1, space.begin(), Rights::kRead) != 0) _exit(1);
    std::signal(SIGSEGV, [](int) { _exit(7); });
    *reinterpret_cast<volatile char*>(space.begin()) = 1;
    _exit(2);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(7), "");
}

TEST(AliasPool, PoolsThatMoveHaveNoAliases) {
  BlockPool pool({.pool_bytes = kSmall, .block_bytes = kSmall, .kind = PoolKind::kMoves});
  EXPECT_FALSE(pool.aliases());
  Reservation space({.bytes = kSmall});
  EXPECT_EQ(pool.map_also(Block{0}, 1, space.begin(), Rights::kRead), EOPNOTSUPP);
}

// Linux before 5.7 cannot move memory without leaving a hole.
TEST(AliasPool, TakesThePlaceOfMovesWhereTheKernelHasNone) {
  os::set_failure_hook(
      +[](os::MemoryCall call) noexcept { return call == os::MemoryCall::kMove ? EINVAL : 0; });
  BlockPoolOptions options{.pool_bytes = kSmall, .block_bytes = kSmall};
  options.kind = PoolKind::kMoves;
  EXPECT_THROW(BlockPool{options}, Error);
  for (const PoolKind kind : {PoolKind::kOneThread, PoolKind::kThreads, PoolKind::kAliases}) {
    options.kind = kind;
    PlacedBlocks placed(options, 1);
    EXPECT_TRUE(placed.pool.aliases());
    EXPECT_EQ(placed.pool.place(placed.take(), placed.at(0)), 0);
  }
  os::set_failure_hook(nullptr);
}

TEST(AliasPool, GivesWayToMovesWhereTheSystemHasNoSuchMemory) {
  os::set_failure_hook(
      +[](os::MemoryCall call) noexcept { return call == os::MemoryCall::kAlias ? ENOSYS : 0; });
  BlockPoolOptions options{.pool_bytes = kSmall, .block_bytes = kSmall, .name = "mine"};
  options.kind = PoolKind::kThreads;
  EXPECT_FALSE(BlockPool{options}.aliases());
  options.kind = PoolKind::kAliases;
  EXPECT_TRUE(test::fails([&] { BlockPool pool(options); }, ENOSYS, "PoolKind::kMoves"));
  os::set_failure_hook(nullptr);
}

// 0 if a pool of these options is refused with `error` and words that name `limit`.
int look_at_refusal(const BlockPoolOptions& options, int error, const char* limit) {
  return test::fails([&] { BlockPool pool(options); }, error, limit) ? 0 : 10;
}

// Runs the body, which returns 0, in a child with a limit.
template <typename Body>
void expect_zero_under(int resource, std::size_t bytes, Body body) {
  const auto limited = [&] {
    const rlimit limit{bytes, bytes};
    return setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ? 1 : body();
  };
  EXPECT_EXIT(_exit(limited()), testing::ExitedWithCode(0), "");
}

// The memory counts as a file, and to make a file too long raises a signal.
TEST(AliasPoolDeathTest, ALimitOnFilesIsNamedAndKillsNobody) {
  expect_zero_under(RLIMIT_FSIZE, kSmall, [] {
    BlockPoolOptions options{.pool_bytes = 4 * kSmall, .block_bytes = kSmall};
    options.kind = PoolKind::kThreads;
    if (BlockPool(options).aliases()) return 2;
    options.kind = PoolKind::kAliases;
    return look_at_refusal(options, EFBIG, "RLIMIT_FSIZE");
  });
}

TEST(AliasPoolDeathTest, ALimitOnAddressSpaceIsNamed) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's own memory counts against RLIMIT_AS";
  expect_zero_under(RLIMIT_AS, std::size_t{4} << 30, [] {
    // The homes fit, and those for readers do not.
    return look_at_refusal({.pool_bytes = std::size_t{3} << 30,
                            .warming = Warming::kOnDemand,
                            .kind = PoolKind::kAliases},
                           ENOMEM, "RLIMIT_AS");
  });
}

// Private writable memory alone counts.
TEST(AliasPoolDeathTest, IsNotCountedAgainstRlimitData) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's own memory counts against RLIMIT_DATA";
  expect_zero_under(RLIMIT_DATA, std::size_t{32} << 20, [] {
    BlockPool pool({.pool_bytes = std::size_t{128} << 20,
                    .warming = Warming::kOnDemand,
                    .kind = PoolKind::kAliases});
    BlockQuota quota(pool, 1, 1, "test");
    Reservation space({.bytes = pool.block_bytes()});
    const Block block = quota.try_take().block;
    if (pool.place(block, space.begin()) != 0) return 2;
    if (pool.withdraw(block) != 0) return 3;
    quota.give_back(block);
    return 0;
  });
}

// A forked child finds nothing at an alias, though the memory is shared.
TEST(AliasPool, AForkedChildHasNoAliases) {
  BlockPool pool(aliases(2));
  BlockQuota quota(pool, 2, 2, "test");
  Reservation space({.bytes = 2 * kSmall});
  const Block first = quota.try_take().block, second = quota.try_take().block;
  ASSERT_EQ(pool.map_also(first, 1, space.begin(), Rights::kReadWrite), 0);
  ASSERT_EQ(pool.map_also(second, 1, space.begin() + kSmall, Rights::kRead), 0);
  *space.begin() = std::byte{'p'};
  *pool.home(second) = std::byte{'p'};
  EXPECT_EQ(test::in_child([&] {
              // The thread sanitizer's runtime maps memory in the child, perhaps in these places.
              const auto there = [](const std::byte* at) {
                return test::kThreadSanitizer ? test::byte_at(at) == std::byte{'p'}
                                              : test::readable(at);
              };
              const bool any = there(space.begin()) || there(space.begin() + kSmall) ||
                               there(pool.home(first)) || there(pool.home(second));
              return any ? 1 : 0;
            }),
            0);
  EXPECT_EQ(*pool.home(first), std::byte{'p'});
  quota.give_back(first);
  quota.give_back(second);
}

// Several threads map and vacate each other's neighbours, and every one finds what it wrote.
TEST(AliasPool, ThreadsMapAndVacateAtOnce) {
  constexpr std::size_t kThreads = 4, kBlocks = 4;
  PlacedBlocks placed(aliases(kThreads * kBlocks), kThreads * 64);
  placed.take_all();
  std::atomic<int> wrong{0};
  test::run_together(kThreads, [&](std::size_t t) {
    for (std::size_t i = 0; i < 2000; ++i) {
      const Block block{static_cast<std::uint32_t>(t * kBlocks + i % kBlocks)};
      std::byte* const at = placed.at(t * 64 + i % 64);
      wrong += placed.pool.map_also(block, 1, at, Rights::kReadWrite) != 0;
      std::memcpy(at + 8, &i, sizeof i);
      wrong += std::memcmp(placed.pool.home(block) + 8, &i, sizeof i) != 0;
      if (i % 16 == 15) wrong += placed.space.vacate(at - 15 * kSmall, 16 * kSmall) != 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace

}  // namespace vortex::alias_pool_test

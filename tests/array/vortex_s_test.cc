// Vortex-S: Algorithm 9 of the paper by faults, against std::sort, with every engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/fault/engine_suite.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/radix_sort.h"

namespace vortex::vortex_s_test { namespace {

constexpr std::size_t kKiB = 1024;

std::vector<std::uint64_t> keys_of(
    std::size_t count, const std::function<std::uint64_t(std::size_t, std::uint64_t)>& key_at) {
  auto random = test::test_random(count);
  std::vector<std::uint64_t> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = key_at(i, random());
  return keys;
}
std::vector<std::uint64_t> random_keys(std::size_t count) {
  return keys_of(count, [](std::size_t, std::uint64_t word) { return word; });
}

// A sealed array on a pool that has just what it must.
struct Memory {
  Memory(std::size_t count, std::size_t block_bytes, int bits, PoolKind kind = PoolKind::kOneThread)
      : own((count * 8 + block_bytes - 1) / block_bytes),
        blocks({.pool_bytes = (own + bucket_sort_extra_blocks(bits)) * block_bytes,
                .block_bytes = block_bytes,
                .warming = Warming::kOnDemand,
                .kind = kind}),
        pool(blocks, own + bucket_sort_extra_blocks(bits)),
        array(pool, count) {}

  const std::size_t own;
  BlockPool blocks;
  StreamPool pool;
  VanishingArray<std::uint64_t> array;
};

void expect_sorts(const std::vector<std::uint64_t>& keys, std::size_t block_bytes,
                  const BucketSortOptions& options, std::size_t few, PoolKind kind) {
  SCOPED_TRACE(std::to_string(keys.size()) + " keys, blocks of " + std::to_string(block_bytes) +
               ", " + std::to_string(options.bits) + " bits" +
               (options.write_combining ? ", combined" : ""));
  auto expected = keys;
  std::sort(expected.begin(), expected.end());
  Memory memory(keys.size(), block_bytes, options.bits, kind);
  memory.array.load(keys);
  const BucketSortReport report = bucket_sort(memory.array, options);
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), memory.array.data()));
  ASSERT_EQ(memory.array.size(), keys.size());
  // Every block of the keys is read in the array, written in a bucket, and written in the array.
  EXPECT_GE(report.faults, 3 * memory.own);
  EXPECT_GE(report.peak_blocks, memory.own);
  EXPECT_LE(report.peak_blocks, memory.own + (std::size_t{1} << options.bits) + few);
  // Beside blocks only the ends of the buckets on each level, and their buffers.
  const std::size_t beside =
      (std::size_t{1} << options.bits) * (2048 + 8 * (64 / options.bits + 3));
  EXPECT_LE(report.epsilon_bytes, (report.peak_blocks - memory.own) * block_bytes + beside);
  EXPECT_EQ(memory.pool.blocks_in_use(), memory.own) << "nothing is left but the array";
}

template <typename EngineType>
class VortexS : public test::EngineTest<EngineType> {
 protected:
  // The kinds of pool that the engine has.
  static std::vector<PoolKind> kinds() {
    if (EngineType::kEngine == Engine::kUserfaultfd) return {PoolKind::kOneThread};
    return {PoolKind::kMoves, PoolKind::kAliases};
  }
};
TYPED_TEST_SUITE(VortexS, test::AllEngines, test::EngineNames);

TYPED_TEST(VortexS, SortsInTheMemoryOfTheKeysAndABlockForEachBucket) {
  for (const PoolKind kind : this->kinds()) {
    for (const std::size_t count : {1, 129, 5000, 100'003}) {
      const auto keys = random_keys(count);
      for (const std::size_t block_bytes : {16 * kKiB, 64 * kKiB}) {
        for (const int bits : {1, 3, 7, 8}) {
          // A reader keeps up to four blocks behind it on each level of more than a block.
          std::size_t levels = 1;
          for (std::size_t bytes = count * 8 >> bits; bytes > block_bytes; bytes >>= bits) ++levels;
          expect_sorts(keys, block_bytes, {.bits = bits, .write_combining = false}, 4 * levels,
                       kind);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

// The worst for the bound: blocks that the last reader of a bucket leaves, with no store behind
// them; and data of many levels in one bucket.
TYPED_TEST(VortexS, KeysThatAgreeInManyDigits) {
  constexpr std::size_t kBlock = 16 * kKiB;
  constexpr std::size_t kCount = 60'001;
  const auto hashed = [](std::uint64_t value) { return value * 0x9e3779b97f4a7c15; };
  const std::vector<std::uint64_t> shapes[] = {
      keys_of(kCount, [](std::size_t, std::uint64_t) { return ~std::uint64_t{7}; }),
      keys_of(kCount, [](std::size_t, std::uint64_t word) { return word >> 50 << 50; }),
      keys_of(kCount, [](std::size_t, std::uint64_t word) { return word >> 48; }),
      keys_of(kCount,
              [&](std::size_t, std::uint64_t word) { return hashed(word & word >> 16 & 0xff); }),
      keys_of(kCount, [](std::size_t i, std::uint64_t) { return i << 40; }),
      keys_of(kCount, [](std::size_t i, std::uint64_t) { return (kCount - i) << 40; }),
      keys_of(kCount,
              [](std::size_t i, std::uint64_t word) { return i % 2 == 0 ? word : word & 1; }),
  };
  for (const auto& keys : shapes) {
    for (const int bits : {2, 7, 8}) {
      const std::size_t few = bucket_sort_extra_blocks(bits) - (std::size_t{1} << bits);
      expect_sorts(keys, kBlock, {.bits = bits, .write_combining = false}, few,
                   PoolKind::kOneThread);
      if (this->HasFatalFailure()) return;
    }
  }
}

// Two levels are large enough for buffers; the second begins where the first has ended, in the
// middle of a line.
TYPED_TEST(VortexS, CombinesWrites) {
  const auto keys = keys_of((std::size_t{1} << 20) + 999,
                            [](std::size_t, std::uint64_t word) { return word >> 7; });
  expect_sorts(keys, 64 * kKiB, {.write_combining = true}, 8, PoolKind::kOneThread);
}

TEST(VortexSErrors, SaysWhatIsWrong) {
  const auto keys = random_keys(5000);
  Memory memory(keys.size(), 16 * kKiB, 4);
  memory.array.load(keys);
  for (const int bits : {0, 9}) {
    EXPECT_TRUE(test::fails([&] { bucket_sort(memory.array, {.bits = bits}); }, EINVAL, "1 to 8"));
  }
  EXPECT_TRUE(test::fails([&] { bucket_sort(memory.array, {.bits = 8}); }, ENOMEM, "would do"));
  EXPECT_TRUE(std::equal(keys.begin(), keys.end(), memory.array.data())) << "nothing has moved";
  memory.array.load({});
  EXPECT_EQ(bucket_sort(memory.array, {.bits = 4}).faults, 0u);
}

// The array's own reader keeps blocks behind it, at most all; the pool has no block to spare.
TEST(VortexSErrors, CountsTheComebackOfTheArray) {
  const auto keys = random_keys(100'000);
  const std::size_t block_bytes = 16 * kKiB;
  const std::size_t own = (keys.size() * 8 + block_bytes - 1) / block_bytes;
  const std::size_t enough = 2 * own + bucket_sort_extra_blocks(3);
  for (const std::size_t less : {0, 1}) {
    BlockPool blocks({.pool_bytes = enough * block_bytes,
                      .block_bytes = block_bytes,
                      .warming = Warming::kOnDemand});
    StreamPool pool(blocks, enough - less);
    VanishingArray<std::uint64_t> array(pool, keys.size(), {.comeback_blocks = own});
    array.load(keys);
    if (less != 0) {
      EXPECT_TRUE(test::fails([&] { bucket_sort(array, {.bits = 3}); }, ENOMEM, "would do"));
      EXPECT_TRUE(std::equal(keys.begin(), keys.end(), array.data()));
      continue;
    }
    bucket_sort(array, {.bits = 3});
    EXPECT_TRUE(std::is_sorted(array.data(), array.data() + keys.size()));
  }
}

// The blocks behind the contents would be missing for the buckets of keys that agree.
TEST(VortexSErrors, GivesBackWhatLiesBehindTheContents) {
  const auto keys = keys_of(100'000, [](std::size_t, std::uint64_t) { return ~std::uint64_t{7}; });
  Memory memory(keys.size(), 16 * kKiB, 3);
  memory.array.load(keys);
  memory.array.resize(20'000);
  bucket_sort(memory.array, {.bits = 3});
  EXPECT_EQ(memory.array.held_blocks(), (20'000 * 8 + 16 * kKiB - 1) / (16 * kKiB));
  EXPECT_TRUE(std::equal(keys.begin(), keys.begin() + 20'000, memory.array.data()));
}

std::atomic<long> moves{0};
std::atomic<long> fail_at{-1};

// Of any move: the call throws, and every block comes back with the array.
TEST(VortexSErrors, RefusedMovesAreThrown) {
  const auto keys = random_keys(30'000);
  const auto sort_with_failure_at = [&](long at) {
    Memory memory(keys.size(), 16 * kKiB, 3);
    bool thrown = false;
    {
      VanishingArray<std::uint64_t> array(memory.pool, keys.size());
      array.load(keys);
      moves = 0;
      fail_at = at;
      os::set_failure_hook(+[](os::MemoryCall call) noexcept {
        return call == os::MemoryCall::kMove && moves.fetch_add(1) == fail_at ? ENOMEM : 0;
      });
      try {
        bucket_sort(array, {.bits = 3});
      } catch (const Error& error) {
        thrown = true;
        EXPECT_EQ(error.code().value(), ENOMEM) << error.what();
      }
      os::set_failure_hook(nullptr);
      EXPECT_TRUE(thrown || std::is_sorted(array.data(), array.data() + keys.size()));
    }
    // One that is given back at the end is lost, without an error.
    EXPECT_EQ(memory.pool.blocks_in_use(), memory.blocks.statistics().blocks_lost);
    return thrown;
  };
  EXPECT_FALSE(sort_with_failure_at(-1));
  const long all = moves;
  ASSERT_GT(all, 40);
  int thrown = 0;
  for (long at = 0; at < all; at += 7) thrown += sort_with_failure_at(at);
  EXPECT_GE(thrown, all / 14);
}

}  // namespace

}  // namespace vortex::vortex_s_test

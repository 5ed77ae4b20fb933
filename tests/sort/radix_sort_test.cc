#include "sort/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/os_memory.h"

namespace vortex {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kCount = (std::size_t{1} << 20) + 12345;

std::atomic<long> moves{0};
std::atomic<long> fail_at{-1};
int fail_one_move(os::MemoryCall call) noexcept {
  if (call != os::MemoryCall::kMove) return 0;
  return moves.fetch_add(1) == fail_at ? ENOMEM : 0;
}

class RadixSortTest : public testing::Test {
 protected:
  void make(std::size_t extra_blocks) {
    const std::size_t blocks = (kCount * 8 + kBlock - 1) / kBlock + extra_blocks;
    array_.reset();
    pool_.reset();
    BlockPoolOptions options;
    options.pool_bytes = blocks * kBlock;
    options.block_bytes = kBlock;
    options.warming = Warming::kOnDemand;
    blocks_ = std::make_unique<BlockPool>(options);
    pool_ = std::make_unique<StreamPool>(*blocks_, blocks);
    array_ = std::make_unique<VanishingArray<std::uint64_t>>(*pool_, kCount);
  }
  void TearDown() override { os::set_failure_hook(nullptr); }

  void expect_sorted(std::vector<std::uint64_t> values) {
    std::sort(values.begin(), values.end());
    ASSERT_TRUE(std::equal(values.begin(), values.end(), array_->data()));
  }

  std::unique_ptr<BlockPool> blocks_;
  std::unique_ptr<StreamPool> pool_;
  std::unique_ptr<VanishingArray<std::uint64_t>> array_;
};

std::vector<std::uint64_t> keys(const std::function<std::uint64_t(std::uint64_t)>& make) {
  auto random = test::test_random();
  std::vector<std::uint64_t> values(kCount);
  for (auto& value : values) value = make(random());
  return values;
}

// Random keys whose sample never looks uneven, as one of a few hundred of wholly random ones does:
// the high halves are spread by a sequence of low discrepancy.
std::vector<std::uint64_t> even_keys() {
  std::uint64_t count = 0;
  return keys(
      [&count](std::uint64_t word) { return ++count * 0x9e3779b97f4a7c15 ^ (word & 0xffffffff); });
}

TEST_F(RadixSortTest, SortsWithinItsPool) {
  const auto values = even_keys();
  for (int bits : {1, 4, 6, 8}) {
    make(radix_sort_extra_blocks(kCount * 8, kBlock, bits));
    array_->load(values);
    const RadixSortReport report = radix_sort(*array_, {.first_split_bits = bits});
    EXPECT_EQ(report.first_split_bits, bits);
    EXPECT_LE(report.peak_blocks, pool_->block_count());
    expect_sorted(values);
    // Nothing is left but the array.
    EXPECT_EQ(pool_->blocks_in_use(), (kCount * 8 + kBlock - 1) / kBlock);
    array_.reset();
  }
}

TEST_F(RadixSortTest, UnevenKeysAndTightPools) {
  // Uniform for a sample, but one bucket holds a quarter.
  int turn = 0;
  const auto hidden = keys([&turn](std::uint64_t word) {
    return ++turn % 5 == 0 ? 0x2a00000000000000 | word >> 8 : word;
  });
  const auto equal = keys([](std::uint64_t) { return std::uint64_t{7}; });
  const auto small = keys([](std::uint64_t word) { return word >> 40; });
  for (const auto& values : {hidden, equal, small}) {
    make(radix_sort_extra_blocks(kCount * 8, kBlock, 6));
    array_->load(values);
    radix_sort(*array_, {.first_split_bits = 6});
    expect_sorted(values);
    array_.reset();
  }
  make(0);
  array_->load(hidden);
  EXPECT_EQ(radix_sort(*array_).first_split_bits, 0);
  expect_sorted(hidden);
}

TEST_F(RadixSortTest, AFailureOfAnyMoveLeavesAPermutation) {
  // A few buckets of the size of a few blocks, so that moves are many and runs are short.
  const auto values = even_keys();
  std::vector<std::uint64_t> expected = values;
  std::sort(expected.begin(), expected.end());
  make(radix_sort_extra_blocks(kCount * 8, kBlock, 3));
  array_->load(values);
  moves = 0;
  fail_at = -1;
  os::set_failure_hook(&fail_one_move);
  radix_sort(*array_, {.first_split_bits = 3});
  const long all = moves;
  ASSERT_GT(all, 100);
  const long step = test::long_tests() ? 1 : std::max(all / 40, 1l);
  int thrown = 0;
  for (long at = 0; at < all; at += step) {
    os::set_failure_hook(nullptr);
    array_->load(values);
    moves = 0;
    fail_at = at;
    os::set_failure_hook(&fail_one_move);
    bool failed = false;
    try {
      radix_sort(*array_, {.first_split_bits = 3});
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOMEM);
      failed = true;
      ++thrown;
    }
    os::set_failure_hook(nullptr);
    std::vector<std::uint64_t> result(array_->data(), array_->data() + kCount);
    if (failed) std::sort(result.begin(), result.end());
    ASSERT_EQ(result, expected) << "move " << at << " of " << all;
  }
  EXPECT_GT(thrown, 5);
}

}  // namespace
}  // namespace vortex

#include "vortex/radix_sort.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex::partition_test { namespace {

constexpr std::size_t kBlock = std::size_t{16} << 10;

template <std::size_t Bytes>
struct Record {
  std::uint64_t key;
  char rest[Bytes - 8];
};
template <>
struct Record<8> {
  std::uint64_t key;
};

template <typename T>
class PartitionTest : public testing::Test {};
using Types =
    test::TypesOf<testing::Types<Record<8>, Record<16>, Record<24>, Record<64>, Record<104>>,
                  testing::Types<Record<8>, Record<24>, Record<104>>>;
TYPED_TEST_SUITE(PartitionTest, Types);

struct Memory {
  Memory(std::size_t blocks, std::size_t buckets)
      : pool({.pool_bytes = blocks * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand}),
        streams(pool, blocks) {
    for (std::size_t i = 0; i < buckets; ++i) {
      lists.push_back(std::make_unique<BucketStream>(
          streams, BucketStreamOptions{.reserve_bytes = std::uint64_t{1} << 28}));
    }
  }
  BlockPool pool;
  StreamPool streams;
  std::vector<std::unique_ptr<BucketStream>> lists;
};

TYPED_TEST(PartitionTest, LikeVectors) {
  auto random = test::test_random();
  for (const std::size_t ways : {2u, 3u, 64u, 256u, 4096u}) {
    for (const bool skewed : {false, true}) {
      if (ways == 4096 && skewed) continue;  // 4096 streams take a second to make
      const std::size_t count = 50000 / (sizeof(TypeParam) / 8) + random() % 1000;
      const std::size_t blocks = count * sizeof(TypeParam) / kBlock + 2 + ways;
      Memory memory(blocks, ways);
      std::vector<TypeParam> records(count);
      for (auto& record : records) {
        std::memset(static_cast<void*>(&record), static_cast<int>(random() & 0xff), sizeof record);
        record.key = skewed && random() % 8 != 0 ? 1 : random();
      }
      const auto bucket_of = [ways](const TypeParam& record) noexcept {
        return static_cast<unsigned>(record.key % ways);
      };
      std::vector<std::vector<TypeParam>> expected(ways);
      for (const auto& record : records) expected[bucket_of(record)].push_back(record);
      VanishingArray<TypeParam> input(memory.streams, count);
      input.load(records);
      const auto counts = partition(input, memory.lists, bucket_of);
      EXPECT_EQ(input.held_blocks(), 0u);
      for (std::size_t i = 0; i < ways; ++i) {
        ASSERT_EQ(counts[i], expected[i].size());
        if (counts[i] == 0) continue;
        ASSERT_EQ(std::memcmp(memory.lists[i]->bytes(), expected[i].data(),
                              counts[i] * sizeof(TypeParam)),
                  0)
            << "bucket " << i << " of " << ways;
      }
    }
  }
}

TEST(Partition, BucketsAreEmptyAndOnThePoolOfTheInput) {
  Memory memory(8, 2), elsewhere(8, 2);
  VanishingArray<std::uint64_t> input(memory.streams, 1 << 16);
  const std::vector<std::uint64_t> values(kBlock / 8, 1);
  const auto first = [](std::uint64_t) noexcept { return 0u; };
  input.load(values);
  const auto refused = [&](const auto& lists) {
    return test::fails([&] { partition(input, lists, first); }, EINVAL);
  };
  EXPECT_TRUE(refused(elsewhere.lists));
  memory.lists[1]->bytes()[0] = std::byte{7};
  EXPECT_TRUE(refused(memory.lists));
  EXPECT_EQ(memory.lists[1]->bytes()[0], std::byte{7});
  EXPECT_EQ(input.size(), values.size());
  EXPECT_EQ(input.data()[0], 1u) << "nothing has moved";
}

TEST(Partition, SaysWhatIsWrong) {
  Memory memory(4, 2);
  VanishingArray<std::uint64_t> input(memory.streams, 1 << 16);
  input.load(std::vector<std::uint64_t>(4 * kBlock / 8, 1));
  const auto first = [](std::uint64_t) noexcept { return 0u; };
  memory.lists.resize(1);
  EXPECT_TRUE(test::fails([&] { partition(input, memory.lists, first); }, EINVAL, {"2 to 4096"}));
  memory.lists.push_back(std::make_unique<BucketStream>(memory.streams));
  // Every block holds input, none is left for a bucket.
  EXPECT_TRUE(test::fails([&] { partition(input, memory.lists, first); }, EAGAIN));
}

}  // namespace

}  // namespace vortex::partition_test

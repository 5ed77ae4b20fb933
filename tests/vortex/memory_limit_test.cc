// The memory limit is a contract: streaming any amount takes the pool, and 4 MiB at most beside it,
// page tables included.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "tests/support/random_seed.h"
#include "vortex/input_stream.h"
#include "vortex/memory_budget.h"
#include "vortex/output_stream.h"

namespace vortex::memory_limit_test { namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::size_t kAllowed = 4 * kMiB;

std::uint64_t bytes_to_stream() { return test::long_tests() ? 64 * kGiB : kGiB / 2; }

struct Shape {
  std::size_t block_bytes;
  std::size_t pool_blocks;
  std::size_t comeback;
};

class MemoryLimit : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(reset_peak_resident());
    before_ = process_memory();
  }

  void expect_within(const BlockPool& pool) const {
    const ProcessMemory now = process_memory();
    const std::size_t grown = now.peak_resident_bytes - before_.resident_bytes +
                              (now.page_table_bytes - before_.page_table_bytes);
    EXPECT_LE(grown, pool.pool_bytes() + kAllowed)
        << "peak " << now.peak_resident_bytes << ", before " << before_.resident_bytes
        << ", page tables " << now.page_table_bytes << ", before " << before_.page_table_bytes;
    EXPECT_LE(pool.statistics().peak_blocks_in_use, GetParam().comeback + 1);
  }

  BlockPoolOptions pool_options() const {
    return {.pool_bytes = GetParam().block_bytes * GetParam().pool_blocks,
            .block_bytes = GetParam().block_bytes};
  }

  ProcessMemory before_;
};

std::size_t leave_as_it_is(std::span<std::byte> block, std::uint64_t) { return block.size(); }

TEST_P(MemoryLimit, ReadingInOrder) {
  BlockPool pool(pool_options());
  const std::uint64_t length = bytes_to_stream();
  auto stream = input_from_callback<std::byte>(pool, leave_as_it_is,
                                               {.comeback_blocks = GetParam().comeback}, length);
  for (std::uint64_t at = 0; at < length; at += 4096) {
    (void)*const_cast<const volatile std::byte*>(stream.data() + at);
  }
  expect_within(pool);
}

TEST_P(MemoryLimit, ReadingWithJumpsOverHundredsOfGiB) {
  BlockPool pool(pool_options());
  const std::uint64_t length = 600 * kGiB;
  auto stream = input_from_callback<std::byte>(pool, leave_as_it_is,
                                               {.comeback_blocks = GetParam().comeback}, length);
  auto random = test::test_random();
  for (std::uint64_t at = 0; at < length; at += random() % (64 * kMiB)) {
    (void)*const_cast<const volatile std::byte*>(stream.data() + at);
  }
  expect_within(pool);
}

TEST_P(MemoryLimit, Writing) {
  BlockPool pool(pool_options());
  std::uint64_t drained = 0;
  auto stream = output_to_callback<std::byte>(
      pool, [&](std::span<const std::byte> block, std::uint64_t) { drained += block.size(); },
      {.comeback_blocks = GetParam().comeback});
  const std::uint64_t length = bytes_to_stream();
  for (std::uint64_t at = 0; at < length; at += 4096) stream.data()[at] = std::byte{1};
  stream.finish(length);
  EXPECT_EQ(drained, length);
  expect_within(pool);
}

// Throws everything away, and does not mind what was never written.
class Nowhere final : public Sink {
 public:
  Nowhere(BlockPool& pool, std::size_t blocks) : quota_(pool, blocks, blocks, "nowhere") {}
  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return quota_.minimum(); }
  Taken take(std::uint64_t) noexcept override { return {quota_.try_take().block, {}}; }
  Status complete(std::uint64_t, Block block, std::size_t) noexcept override {
    quota_.give_back(block);
    return {};
  }
  Status skip(std::uint64_t, std::uint64_t) noexcept override { return {}; }
  void discard(Block block) noexcept override { quota_.give_back(block); }

 private:
  BlockQuota quota_;
};

TEST_P(MemoryLimit, WritingWithJumpsOverHundredsOfGiB) {
  BlockPool pool(pool_options());
  const std::uint64_t length = 600 * kGiB;
  OutputStream<std::byte> stream(std::make_unique<Nowhere>(pool, GetParam().comeback + 1),
                                 {.comeback_blocks = GetParam().comeback});
  auto random = test::test_random();
  for (std::uint64_t at = 0; at < length; at += random() % (64 * kMiB)) {
    stream.data()[at] = std::byte{1};
  }
  expect_within(pool);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MemoryLimit,
                         testing::Values(Shape{16 * kKiB, 4, 0}, Shape{64 * kKiB, 8, 3},
                                         Shape{1 * kMiB, 4, 1}, Shape{2 * kMiB, 2, 1},
                                         Shape{4 * kMiB, 3, 2}, Shape{6 * kMiB, 2, 0}),
                         [](const auto& info) {
                           return std::to_string(info.param.block_bytes / kKiB) + "KiB_comeback" +
                                  std::to_string(info.param.comeback);
                         });

}  // namespace

}  // namespace vortex::memory_limit_test

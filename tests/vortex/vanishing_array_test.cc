#include "vortex/vanishing_array.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/vortex/pooled_test.h"
#include "vortex/block_pool.h"
#include "vortex/guarded.h"

namespace vortex { namespace {

using test::kBlock;
using test::kWords;

using VanishingArrayTest = test::PooledTest;

std::vector<std::uint64_t> random_words(std::size_t count) {
  auto random = test::test_random(count);
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) value = random();
  return values;
}

TEST_F(VanishingArrayTest, MemoryFlowsInAndAway) {
  make_pool(10);
  VanishingArray<std::uint64_t> array(*pool_, 10 * kWords);
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
  for (std::size_t i = 0; i < 10 * kWords; ++i) array.data()[i] = i * i;
  EXPECT_EQ(pool_->blocks_in_use(), 10u);
  array.seal();
  for (std::size_t i = 0; i < 10 * kWords; ++i) {
    ASSERT_EQ(array.data()[i], i * i);
    ASSERT_EQ(pool_->blocks_in_use(), 10 - i / kWords);
  }
  array.finish_reading();
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
}

TEST_F(VanishingArrayTest, TheResultFlowsBackIn) {
  // Room for the array and one block more: read it all into another that shares the pool, and back.
  make_pool(9);
  VanishingArray<std::uint64_t> array(*pool_, 8 * kWords);
  VanishingArray<std::uint64_t> other(*pool_, 8 * kWords);
  const auto values = random_words(8 * kWords);
  array.load(values);
  for (int trip = 0; trip < 3; ++trip) {
    array.seal();
    for (std::size_t i = 0; i < values.size(); ++i) other.data()[i] = array.data()[i];
    array.finish_reading();
    other.seal();
    for (std::size_t i = 0; i < values.size(); ++i) array.data()[i] = other.data()[i];
    other.finish_reading();
  }
  array.seal();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(array.data()[i], values[i]);
}

TEST_F(VanishingArrayTest, AWriterFollowsTheReader) {
  make_pool(17);
  const std::size_t distance = kWords + 77;
  for (std::size_t comeback : {0u, 1u}) {
    VanishingArray<std::uint64_t> array(*pool_, 16 * kWords, {.comeback_blocks = comeback});
    const auto values = random_words(16 * kWords);
    array.load(values);
    array.seal();
    const std::size_t behind = distance + comeback * kWords;
    // Each element moves to the place of the one `behind` places before it, doubled.
    for (std::size_t read = 0; read < values.size(); ++read) {
      const std::uint64_t value = array.data()[read];
      if (read >= behind) array.data()[read - behind] = 2 * value;
    }
    array.finish_reading();
    array.seal();
    for (std::size_t i = 0; i + behind < values.size(); ++i) {
      ASSERT_EQ(array.data()[i], 2 * values[i + behind]) << "element " << i;
    }
  }
}

TEST_F(VanishingArrayTest, LoadsAFileWithoutACopy) {
  make_pool(8);
  const auto values = random_words(7 * kWords + 123);
  std::string path = testing::TempDir() + "/vanishing_array_XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  unlink(path.c_str());
  const std::size_t bytes = values.size() * sizeof values[0];
  ASSERT_EQ(write(fd, values.data(), bytes), static_cast<ssize_t>(bytes));
  VanishingArray<std::uint64_t> array(*pool_, values.size());
  array.load_with(
      values.size(),
      [fd](std::span<std::uint64_t> part, std::uint64_t first) {
        // The part is accessible to the system call: no short count, no EFAULT.
        ASSERT_EQ(pread(fd, part.data(), part.size_bytes(), static_cast<off_t>(first * 8)),
                  static_cast<ssize_t>(part.size_bytes()));
      },
      2 * kBlock);
  close(fd);
  EXPECT_EQ(array.size(), values.size());
  EXPECT_EQ(std::vector<std::uint64_t>(array.data(), array.data() + array.size()), values);
}

TEST_F(VanishingArrayTest, ElementsMayStraddleBlocksWithAComeback) {
  struct Odd {
    char bytes[24];
  };
  make_pool(8);
  const std::size_t count = 6 * kBlock / sizeof(Odd);
  VanishingArray<Odd> array(*pool_, count, {.comeback_blocks = 1});
  for (std::size_t i = 0; i < count; ++i) {
    Odd value{};
    std::memcpy(value.bytes, &i, sizeof i);
    std::memcpy(value.bytes + 16, &i, sizeof i);
    array.data()[i] = value;
  }
  array.seal();
  for (std::size_t i = 0; i < count; ++i) {
    const Odd value = array.data()[i];
    ASSERT_EQ(std::memcmp(value.bytes, &i, sizeof i), 0) << i;
    ASSERT_EQ(std::memcmp(value.bytes + 16, &i, sizeof i), 0) << i;
  }
  EXPECT_LE(pool_->blocks_in_use(), 2u);
}

TEST_F(VanishingArrayTest, SaysWhatIsWrong) {
  make_pool(2);
  VanishingArray<std::uint64_t> array(*pool_, 8 * kWords);
  try {
    array.load(random_words(3 * kWords));
    FAIL() << "three blocks out of a pool of two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EAGAIN);
    EXPECT_NE(std::string(error.what()).find("make the pool larger"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(pool_->blocks_in_use(), 0u);
  EXPECT_THROW(array.load(random_words(9 * kWords)), Error);
  EXPECT_THROW(array.resize(8 * kWords + 1), Error);
  const Failure failure =
      guarded([&] { (void)*const_cast<volatile std::uint64_t*>(array.data() + 100); });
  EXPECT_EQ(failure.error, EFAULT) << failure.message();
}

}  // namespace

}  // namespace vortex

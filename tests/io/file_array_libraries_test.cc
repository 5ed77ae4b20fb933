// Code that has never heard of blocks changes files larger than the memory of their array.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/file_array.h"

namespace vortex {
namespace {

constexpr std::size_t kMemory = (test::kShadowMemory ? 1 : 2) * (std::size_t{1} << 20);
constexpr std::size_t kNumbers = 4 * kMemory / sizeof(std::uint32_t);

class FileArrayLibraries : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers[0]) * kNumbers);
  }
  FileArray<std::uint32_t> open() {
    FileArray<std::uint32_t> array(path, {.memory_bytes = kMemory,
                                          .block_bytes = std::size_t{64} << 10,
                                          .request_bytes = std::size_t{64} << 10,
                                          .reserve_bytes = 8 * kMemory});
    EXPECT_EQ(array.statistics().pool_bytes, kMemory);
    return array;
  }
  bool file_is(const std::vector<std::uint32_t>& wanted) const {
    std::ifstream in(path, std::ios::binary);
    std::vector<std::uint32_t> there(wanted.size() + 1);
    in.read(reinterpret_cast<char*>(there.data()),
            static_cast<std::streamsize>(sizeof(there[0]) * there.size()));
    const auto bytes = static_cast<std::size_t>(in.gcount());
    there.resize(bytes / sizeof(there[0]));
    return there == wanted;
  }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder;
  std::string path = folder.file("numbers");
  std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(kNumbers);
};

TEST_F(FileArrayLibraries, StdSort) {
  {
    auto array = open();
    std::sort(array.begin(), array.end());
    array.flush();
    std::sort(numbers.begin(), numbers.end());
    EXPECT_TRUE(std::equal(array.begin(), array.end(), numbers.begin(), numbers.end()));
  }
  EXPECT_TRUE(file_is(numbers));
}

TEST_F(FileArrayLibraries, Qsort) {
  const auto order = [](const void* one, const void* other) {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    std::memcpy(&left, one, sizeof left);
    std::memcpy(&right, other, sizeof right);
    return left < right ? -1 : static_cast<int>(left > right);
  };
  {
    auto array = open();
    std::qsort(array.data(), array.size(), sizeof(std::uint32_t), order);
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_TRUE(file_is(numbers));
}

// memcpy() and memmove() of the C library begin at both ends.
TEST_F(FileArrayLibraries, CopiesOfTheWholeFile) {
  const std::string other = folder.file("other");
  std::ofstream(other).close();
  {
    const auto array = open();
    FileArray<std::uint32_t> copy(other, {.block_bytes = std::size_t{64} << 10,
                                          .request_bytes = std::size_t{64} << 10,
                                          .reserve_bytes = 8 * kMemory});
    copy.resize(kNumbers);
    std::memcpy(copy.data(), array.data(), kNumbers * sizeof(std::uint32_t));
    EXPECT_EQ(std::memcmp(copy.data(), numbers.data(), kNumbers * sizeof(std::uint32_t)), 0);
    // Within one array, over itself, upwards and downwards.
    std::memmove(copy.data() + 1, copy.data(), (kNumbers - 1) * sizeof(std::uint32_t));
    std::memmove(copy.data(), copy.data() + 1, (kNumbers - 1) * sizeof(std::uint32_t));
    std::copy(copy.begin(), copy.begin() + kNumbers / 2, copy.begin() + kNumbers / 2);
    std::copy_backward(copy.begin(), copy.end() - 9, copy.end());
  }
  std::copy(numbers.begin(), numbers.begin() + kNumbers / 2, numbers.begin() + kNumbers / 2);
  std::copy_backward(numbers.begin(), numbers.end() - 9, numbers.end());
  path = other;
  EXPECT_TRUE(file_is(numbers));
}

TEST_F(FileArrayLibraries, ReverseRotateAndAccumulate) {
  {
    auto array = open();
    std::reverse(array.begin(), array.end());
    std::rotate(array.begin(), array.begin() + kNumbers / 3, array.end());
    std::partial_sum(array.begin(), array.end(), array.begin());
  }
  std::reverse(numbers.begin(), numbers.end());
  std::rotate(numbers.begin(), numbers.begin() + kNumbers / 3, numbers.end());
  std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
  EXPECT_TRUE(file_is(numbers));
}

}  // namespace
}  // namespace vortex

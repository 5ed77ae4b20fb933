// Code that has never heard of blocks changes files larger than the memory of their array.
#include <gtest/gtest.h>
#include <zlib.h>

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

namespace vortex { namespace {

constexpr std::size_t kMemory = (test::kShadowMemory ? 1 : 2) * (std::size_t{1} << 20);
constexpr std::size_t kNumbers = 4 * kMemory / sizeof(std::uint32_t);

class FileArrayLibraries : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers[0]) * kNumbers);
  }
  // All files are four times as large as the memory.
  FileArray<std::uint32_t> open() { return open(path, kNumbers); }
  FileArray<std::uint32_t> open(const std::string& file, std::uint64_t size) {
    FileArray<std::uint32_t> array(file, {.memory_bytes = kMemory,
                                          .block_bytes = std::size_t{64} << 10,
                                          .request_bytes = std::size_t{64} << 10,
                                          .make = true,
                                          .reserve_bytes = 8 * kMemory});
    EXPECT_EQ(array.statistics().pool_bytes, kMemory);
    array.resize(size);
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

// glibc before 2.37 sorts in a copy on the heap where the machine's memory has room for one.
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
  {
    const auto array = open();
    auto copy = open(other, kNumbers);
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

// In one call, which reads what it has written: far back for copies, and all again for the
// checksum.
TEST_F(FileArrayLibraries, InflateIntoAnArray) {
  for (std::uint32_t& number : numbers) number &= 0x0f0f0f0f;
  std::vector<Bytef> packed(compressBound(sizeof(numbers[0]) * kNumbers));
  uLongf packed_size = packed.size();
  ASSERT_EQ(compress(packed.data(), &packed_size, reinterpret_cast<const Bytef*>(numbers.data()),
                     sizeof(numbers[0]) * kNumbers),
            Z_OK);
  path = folder.file("unpacked");
  {
    auto unpacked = open();
    z_stream all{};
    ASSERT_EQ(inflateInit(&all), Z_OK);
    all.next_in = packed.data();
    all.avail_in = static_cast<uInt>(packed_size);
    all.next_out = reinterpret_cast<Bytef*>(unpacked.data());
    all.avail_out = static_cast<uInt>(sizeof(numbers[0]) * kNumbers);
    EXPECT_EQ(inflate(&all, Z_FINISH), Z_STREAM_END);
    EXPECT_EQ(inflateEnd(&all), Z_OK);
  }
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

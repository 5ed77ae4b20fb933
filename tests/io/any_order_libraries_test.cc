// Code that has never heard of blocks, on files larger than the memory of their reader.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/file_reader.h"

namespace vortex { namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kFile = (test::kShadowMemory ? 2 : 16) * (std::size_t{1} << 20) + 12345;

class AnyOrderLibraries : public testing::Test {
 protected:
  // Requests of one block, so that the memory stays small.
  template <typename T>
  std::unique_ptr<FileReader<T>> open() {
    auto in = std::make_unique<FileReader<T>>(
        path, FileReaderOptions{.block_bytes = kBlock, .read_ahead = 2, .request_bytes = kBlock});
    EXPECT_LE(in->statistics().pool_bytes, in->size() * sizeof(T) / 2);
    return in;
  }
  template <typename T>
  void put(const T& values) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(values[0])));
  }
  std::string random_text(std::size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 16);
    return text;
  }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

// memcpy() and memmove() of the C library begin at both ends.
TEST_F(AnyOrderLibraries, CopiesOfTheWholeFile) {
  const std::string text = random_text(kFile);
  put(text);
  const auto in = open<char>();
  std::string copy(kFile, '\0');
  std::memcpy(copy.data(), in->data(), kFile);
  EXPECT_TRUE(copy == text);
  std::fill(copy.begin(), copy.end(), '\0');
  std::memmove(copy.data(), in->data(), kFile);
  EXPECT_TRUE(copy == text);
  std::fill(copy.begin(), copy.end(), '\0');
  std::copy(in->data(), in->data() + in->size(), copy.begin());
  EXPECT_TRUE(copy == text);
  std::reverse_copy(in->data(), in->data() + in->size(), copy.begin());
  EXPECT_TRUE(std::equal(copy.rbegin(), copy.rend(), text.begin(), text.end()));
  EXPECT_EQ(std::memcmp(in->data(), text.data(), kFile), 0);
}

// The whole input of inflate() in one call.
TEST_F(AnyOrderLibraries, Inflate) {
  const std::string text = random_text(2 * kFile);
  std::vector<Bytef> packed(compressBound(text.size()));
  uLongf packed_size = packed.size();
  ASSERT_EQ(compress(packed.data(), &packed_size, reinterpret_cast<const Bytef*>(text.data()),
                     text.size()),
            Z_OK);
  packed.resize(packed_size);
  put(packed);
  const auto in = open<Bytef>();
  std::string unpacked(text.size(), '\0');
  z_stream all{};
  ASSERT_EQ(inflateInit(&all), Z_OK);
  all.next_in = const_cast<Bytef*>(in->data());
  all.avail_in = static_cast<uInt>(in->size());
  all.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  all.avail_out = static_cast<uInt>(unpacked.size());
  EXPECT_EQ(inflate(&all, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(inflateEnd(&all), Z_OK);
  EXPECT_TRUE(unpacked == text);
}

// A file with its table of contents at the end, as archives have it: found from the end backward,
// it says where the parts are.
TEST_F(AnyOrderLibraries, ADirectoryAtTheEnd) {
  constexpr std::uint64_t kMagic = 0x5f656e645f686572;
  std::string file;
  std::string directory;
  const auto append = [](std::string& to, std::uint64_t value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::vector<std::uint32_t> sums;
  while (file.size() < kFile) {
    const std::string part = random_text(random() % (3 * kBlock));
    append(directory, file.size());
    append(directory, part.size());
    sums.push_back(static_cast<std::uint32_t>(
        adler32(1, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()))));
    file += part;
  }
  const std::uint64_t begin = file.size();
  file += directory;
  append(file, kMagic);
  append(file, begin);
  append(file, sums.size());
  file += random_text(100);  // a comment
  put(file);

  const auto in = open<char>();
  const auto number = [&](std::uint64_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, in->data() + at, sizeof value);
    return value;
  };
  std::uint64_t end = in->size() - 3 * sizeof(std::uint64_t);
  while (number(end) != kMagic) --end;
  ASSERT_EQ(number(end + 16), sums.size());
  const std::uint64_t entries = number(end + 8);
  // The directory in order, its parts at random.
  std::vector<std::size_t> order(sums.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    const auto* const part = reinterpret_cast<const Bytef*>(in->data() + number(entries + 16 * i));
    EXPECT_EQ(adler32(1, part, static_cast<uInt>(number(entries + 16 * i + 8))), sums[i]);
  }
}

TEST_F(AnyOrderLibraries, BinarySearch) {
  std::vector<std::uint64_t> values(kFile / 8);
  for (std::uint64_t& value : values) value = random() % (8 * values.size());
  std::sort(values.begin(), values.end());
  put(values);
  const auto in = open<std::uint64_t>();
  const std::uint64_t* const begin = in->data();
  const std::uint64_t* const end = begin + in->size();
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t wanted = random() % (8 * values.size());
    EXPECT_EQ(std::binary_search(begin, end, wanted),
              std::binary_search(values.begin(), values.end(), wanted));
    EXPECT_EQ(std::lower_bound(begin, end, wanted) - begin,
              std::lower_bound(values.begin(), values.end(), wanted) - values.begin());
  }
}

// Two passes: the length, and then the contents.
TEST_F(AnyOrderLibraries, TwoPasses) {
  std::string text = random_text(kFile);
  text.replace(kFile - 5, 3, "XYZ");
  put(text);
  const auto in = open<char>();
  ASSERT_EQ(std::strlen(in->data()), kFile);
  EXPECT_EQ(std::strstr(in->data(), "XYZ") - in->data(), static_cast<std::ptrdiff_t>(kFile - 5));
  EXPECT_EQ(std::count(in->data(), in->data() + kFile, 'a'),
            std::count(text.begin(), text.end(), 'a'));
  EXPECT_GE(in->statistics().any_order.reread_bytes, kFile);
}

// A merge of parts of one file, which are sorted each.
TEST_F(AnyOrderLibraries, AMergeOfPartsOfOneFile) {
  std::vector<std::uint32_t> values(kFile / 4 / 4 * 4);
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random());
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half));
  std::sort(values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  put(values);
  const auto in = open<std::uint32_t>();
  std::vector<std::uint32_t> merged(values.size());
  std::merge(in->data(), in->data() + half, in->data() + half, in->data() + in->size(),
             merged.begin());
  std::sort(values.begin(), values.end());
  EXPECT_TRUE(merged == values);
  EXPECT_EQ(in->statistics().any_order.cursors, 2u);
}

}  // namespace

}  // namespace vortex

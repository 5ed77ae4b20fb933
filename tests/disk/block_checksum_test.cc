// Checksums of blocks: what a disk may do to a block changes them, and every machine has the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/file/block_checksum.h"
#include "tests/support/random_seed.h"

namespace vortex::test::block_checksum_test { namespace {

using Bytes = std::vector<std::byte>;

std::uint32_t of(const Bytes& bytes) { return block_checksum(bytes.data(), bytes.size()); }

// Random ones, or zeros, which hide half of each product.
Bytes some_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  if (random() % 2 == 0) return bytes;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(BlockChecksum, IsTheSameHoweverItIsMade) {
  auto random = test_random();
  for (std::size_t count = 0; count < 1000; ++count) {
    const Bytes bytes = some_bytes(count, random);
    for (const std::size_t begin : {std::size_t{0}, count / 3}) {
      EXPECT_EQ(block_checksum(bytes.data() + begin, count - begin),
                plain_block_checksum(bytes.data() + begin, count - begin));
    }
  }
}

TEST(BlockChecksum, AnyBitChangesIt) {
  auto random = test_random();
  for (const std::size_t count : {1, 63, 64, 65, 200, 4096}) {
    Bytes bytes = some_bytes(count, random);
    const std::uint32_t before = of(bytes);
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_NE(of(bytes), before) << bit << " of " << count << " bytes";
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    bytes.push_back(std::byte{0});
    EXPECT_NE(of(bytes), before) << "a zero behind " << count << " bytes";
  }
}

TEST(BlockChecksum, SectorsThatAreOldOrElsewhereChangeIt) {
  auto random = test_random();
  constexpr std::size_t kSector = 512;
  constexpr std::size_t kSectors = 32;
  for (int round = 0; round < 500; ++round) {
    Bytes bytes(kSector * kSectors);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 3);
    const std::uint32_t before = of(bytes);
    const auto sector = [&](std::size_t i) {
      return bytes.begin() + static_cast<std::ptrdiff_t>(i % kSectors * kSector);
    };
    const std::size_t one = random();
    const std::size_t other = one + 1 + random() % (kSectors - 1);
    std::swap_ranges(sector(one), sector(one) + kSector, sector(other));
    EXPECT_NE(of(bytes), before);
    std::swap_ranges(sector(one), sector(one) + kSector, sector(other));
    std::fill_n(sector(one), (1 + random() % (kSectors - one % kSectors)) * kSector, std::byte{3});
    EXPECT_NE(of(bytes), before);
  }
}

}  // namespace

}  // namespace vortex::test::block_checksum_test

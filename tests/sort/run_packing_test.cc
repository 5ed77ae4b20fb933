// Blocks are packed and come back as they were; runs are packed where that pays.
#include "sort/runs/run_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "io/stream/file_sink.h"
#include "io/stream/file_source.h"
#include "sort/runs/run.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"

namespace vortex::test::run_packing_test { namespace {

constexpr std::size_t kChunk = BlockPacker::kChunkBytes;
using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count, unsigned different, std::mt19937_64& random) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % different);
  return bytes;
}

// Chunks of random bytes, of few bytes, and of one.
Bytes mixed_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes;
  while (bytes.size() < count) {
    constexpr unsigned kDifferent[] = {1, 2, 256};
    const Bytes more = random_bytes(std::min(count - bytes.size(), kChunk),
                                    kDifferent[random() % std::size(kDifferent)], random);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

// 0: of any length. More than one block of the smallest, too.
constexpr std::size_t kRecordSizes[] = {0, 1, 4, 8, 12, 16, 100, 256, 1000, 20000};

class BlockPackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!BlockPacker::available()) GTEST_SKIP() << "built without LZ4";
  }
};

// Bytes behind a block, which nothing may touch.
constexpr std::size_t kGuard = 64;

TEST_F(BlockPackerTest, PackedBlocksComeBack) {
  auto random = test_random();
  for (const std::size_t block : {kChunk / 4, kChunk, 3 * kChunk, 16 * kChunk}) {
    const std::size_t record = kRecordSizes[random() % std::size(kRecordSizes)];
    SCOPED_TRACE(::testing::Message() << "records of " << record << ", blocks of " << block);
    BlockPacker packer(block, record);
    std::vector<std::size_t> sizes{1, 2, 100, block / 2, block - 1, block};
    for (const std::size_t near : {kChunk - 1, kChunk, kChunk + 1, kChunk + 20}) {
      if (near <= block) sizes.push_back(near);
    }
    for (int i = 0; i < 20; ++i) sizes.push_back(1 + random() % block);
    // Of some short ones just as many bytes are saved as their lengths take.
    for (std::size_t bytes = 3; bytes < 400; ++bytes) sizes.push_back(bytes);
    for (const std::size_t bytes : sizes) {
      const Bytes original =
          bytes < 1000 ? random_bytes(bytes, 4, random) : mixed_bytes(bytes, random);
      Bytes memory(block + kGuard, std::byte{0x5a});
      std::copy(original.begin(), original.end(), memory.begin());
      const std::size_t packed = packer.pack(memory.data(), bytes);
      ASSERT_LE(packed, bytes);
      if (packed < bytes) {
        // What a disk does not give back may be anything.
        std::fill(memory.begin() + static_cast<std::ptrdiff_t>(packed), memory.end() - kGuard,
                  std::byte{0xa5});
        ASSERT_EQ(packer.unpack(memory.data(), packed), bytes);
      }
      ASSERT_TRUE(std::equal(original.begin(), original.end(), memory.begin())) << bytes;
      ASSERT_EQ(std::count(memory.end() - kGuard, memory.end(), std::byte{0x5a}), kGuard);
    }
  }
}

// Sorted numbers, with what belongs to them behind each: how little is left of a run of so many
// bytes, in hundredths.
struct Shrinking {
  const char* name;
  std::size_t record_bytes;
  unsigned most_left;
  void (*fill)(std::byte* record, std::size_t number, std::mt19937_64& random);
};
void write_big_endian(std::byte* to, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) *to++ = static_cast<std::byte>(number >> shift);
}
constexpr Shrinking kShrinking[] = {
    {"few bytes of u32", 4, 40,
     [](std::byte* record, std::size_t number, std::mt19937_64& random) {
       const auto key = static_cast<std::uint32_t>(3 * number + random() % 3);
       std::memcpy(record, &key, sizeof key);
     }},
    {"u64 of the whole range", 8, 80,
     [](std::byte* record, std::size_t number, std::mt19937_64& random) {
       const std::uint64_t key = (std::uint64_t{number} << 44) + (random() >> 20);
       std::memcpy(record, &key, sizeof key);
     }},
    {"u64 of a narrow range", 8, 20,
     [](std::byte* record, std::size_t number, std::mt19937_64&) {
       const std::uint64_t key = number / 7;
       std::memcpy(record, &key, sizeof key);
     }},
    {"pairs of a key and a place", 16, 70,
     [](std::byte* record, std::size_t number, std::mt19937_64& random) {
       const std::uint64_t pair[] = {(std::uint64_t{number} << 44) + (random() >> 20),
                                     random() % 1000000};
       std::memcpy(record, pair, sizeof pair);
     }},
    {"records with text", 100, 40,
     [](std::byte* record, std::size_t number, std::mt19937_64& random) {
       write_big_endian(record, (std::uint64_t{number} << 44) + (random() >> 20));
       std::memset(record + 8, 'A' + static_cast<int>(random() % 26), 92);
     }},
};

TEST_F(BlockPackerTest, SortedRecordsShrink) {
  auto random = test_random();
  constexpr std::size_t kBlock = 16 * kChunk;
  for (const auto& [name, record_bytes, most_left, fill] : kShrinking) {
    SCOPED_TRACE(name);
    Bytes bytes(kBlock / record_bytes * record_bytes);
    for (std::size_t i = 0; i < bytes.size() / record_bytes; ++i) {
      fill(bytes.data() + i * record_bytes, i, random);
    }
    Bytes memory = bytes;
    const std::size_t packed = BlockPacker(kBlock, record_bytes).pack(memory.data(), bytes.size());
    EXPECT_LE(packed, bytes.size() / 100 * most_left);
    memory.resize(kBlock);
    EXPECT_EQ(BlockPacker(kBlock).unpack(memory.data(), packed), bytes.size());
    memory.resize(bytes.size());
    EXPECT_EQ(memory, bytes);
  }
}

TEST_F(BlockPackerTest, OnlyWhatBecomesSmallerIsPacked) {
  auto random = test_random();
  BlockPacker packer(4 * kChunk);
  Bytes bytes = random_bytes(4 * kChunk, 256, random);
  const Bytes original = bytes;
  EXPECT_EQ(packer.pack(bytes.data(), bytes.size()), bytes.size());
  EXPECT_EQ(bytes, original);
  Bytes few = random_bytes(4 * kChunk, 2, random);
  EXPECT_LT(packer.pack(few.data(), few.size()), few.size() * 3 / 4);
  EXPECT_EQ(packer.pack(bytes.data(), 0), 0u);
}

TEST_F(BlockPackerTest, ChunksCanBeReadAlone) {
  auto random = test_random();
  constexpr std::size_t kBlock = 7 * kChunk;
  for (int round = 0; round < 20; ++round) {
    BlockPacker packer(kBlock, kRecordSizes[random() % std::size(kRecordSizes)]);
    const std::size_t bytes = kBlock - random() % (2 * kChunk);
    const Bytes original = mixed_bytes(bytes, random);
    Bytes memory = original;
    const std::size_t packed = packer.pack(memory.data(), bytes);
    if (packed == bytes) continue;
    memory.resize(packed);
    const std::size_t table_bytes = BlockPacker::table_bytes(kBlock, packed);
    const auto table = std::span<const std::byte>(memory).last(table_bytes);
    Bytes chunk(kChunk);
    for (std::size_t i = 0; i * kChunk < bytes; ++i) {
      const auto found = BlockPacker::find_chunk(table, packed, i);
      ASSERT_TRUE(found);
      const std::size_t size = std::min(kChunk, bytes - i * kChunk);
      ASSERT_EQ(packer.unpack_chunk(*found, memory.data() + found->begin, chunk), size);
      ASSERT_EQ(std::memcmp(chunk.data(), original.data() + i * kChunk, size), 0);
    }
    EXPECT_FALSE(BlockPacker::find_chunk(table, packed, (bytes + kChunk - 1) / kChunk));
  }
}

// Whatever the disk has made of a block: no byte outside its room is read or written.
TEST_F(BlockPackerTest, OtherBytesAreRefusedOrHarmless) {
  auto random = test_random();
  constexpr std::size_t kBlock = 3 * kChunk;
  std::size_t refused = 0;
  for (int round = 0; round < 300; ++round) {
    BlockPacker packer(kBlock, kRecordSizes[random() % std::size(kRecordSizes)]);
    Bytes memory = random_bytes(kBlock, 2, random);
    std::size_t packed = packer.pack(memory.data(), kBlock - random() % kChunk);
    switch (random() % 3) {
      case 0:  // a byte of the lengths, or of the data
        memory[random() % 2 == 0 ? packed - 1 - random() % 16 : random() % packed] ^=
            static_cast<std::byte>(1 + random() % 255);
        break;
      case 1:
        packed = random() % packed;
        break;
      default:
        memory = random_bytes(kBlock, 256, random);
        break;
    }
    // The heap ends behind the block, for sanitizers.
    const Bytes table(memory.begin() + static_cast<std::ptrdiff_t>(
                                           packed - BlockPacker::table_bytes(kBlock, packed)),
                      memory.begin() + static_cast<std::ptrdiff_t>(packed));
    for (std::size_t i = 0; i < 4; ++i) {
      const auto found = BlockPacker::find_chunk(table, packed, i);
      if (!found) continue;
      ASSERT_LE(found->begin + found->packed, packed);
      Bytes chunk(kChunk);
      ASSERT_LE(packer.unpack_chunk(*found, memory.data() + found->begin, chunk), kChunk);
    }
    const std::size_t made = packer.unpack(memory.data(), packed);
    ASSERT_LE(made, kBlock);
    refused += made == 0;
  }
  EXPECT_GT(refused, 100u);
}

// A part of a run ends where it is said to, although the rest of its last block comes with it.
TEST_F(BlockPackerTest, PartsOfRunsAreReadToTheirEnds) {
  auto random = test_random();
  constexpr std::size_t kBlock = 2 * kChunk;
  constexpr std::uint64_t kBytes = 3 * kBlock + 1000;
  const TemporaryFolder folder(fast_folder());
  BlockPool pool({.pool_bytes = 16 * kBlock, .block_bytes = kBlock});
  RunStore store(pool, {.folders = {folder.path().string()}});
  for (const RunCompression compression : {RunCompression::kNever, RunCompression::kAlways}) {
    const Bytes data = random_bytes(kBytes, 4, random);
    vortex::Run run(store, kBytes);
    {
      RunPacking packing(compression, kBlock);
      FileSink sink(pool, std::make_unique<RunLayout>(run, &packing), FileSinkOptions{});
      for (std::uint64_t i = 0; i < 4; ++i) {
        const Block block = sink.take(i).block;
        const std::size_t bytes = std::min<std::size_t>(kBlock, kBytes - i * kBlock);
        std::memcpy(pool.home(block), data.data() + i * kBlock, bytes);
        ASSERT_TRUE(sink.complete(i, block, bytes).ok());
      }
      ASSERT_TRUE(sink.finish(kBytes).ok());
    }
    EXPECT_EQ(run.stored.saved_bytes() > kBytes / 8, compression == RunCompression::kAlways);
    BlockPacker packer(kBlock);
    for (const std::size_t behind : {std::size_t{1}, std::size_t{100}, kBlock}) {
      FileSource source(pool, std::make_unique<RunLayout>(run, 1, kBlock + behind, &packer), {});
      for (const std::uint64_t i : {0, 1}) {
        const Source::Taken taken = source.take(i, i);
        ASSERT_EQ(taken.bytes, i == 0 ? kBlock : behind);
        EXPECT_EQ(std::memcmp(pool.home(taken.block), data.data() + (i + 1) * kBlock, taken.bytes),
                  0);
        source.release(i, taken.block);
      }
      EXPECT_EQ(source.take(2, 2).bytes, 0u);
    }
  }
}

// Chunks that lie there as they were, of these lengths by the table, with flags in the highest bit.
Bytes packed_by_hand(std::size_t data_bytes, std::vector<std::uint32_t> lengths) {
  lengths.push_back(static_cast<std::uint32_t>(lengths.size()));
  Bytes packed(data_bytes + lengths.size() * 4, std::byte{1});
  std::memcpy(packed.data() + data_bytes, lengths.data(), lengths.size() * 4);
  return packed;
}

TEST_F(BlockPackerTest, LengthsThatCannotBeAreRefused) {
  constexpr std::uint32_t kPlain = std::uint32_t{1} << 31;
  constexpr auto kWhole = static_cast<std::uint32_t>(kChunk);
  const auto unpacked = [](Bytes packed) {
    BlockPacker packer(4 * kChunk);
    const std::size_t bytes = packed.size();
    packed.resize(4 * kChunk);
    return packer.unpack(packed.data(), bytes);
  };
  EXPECT_EQ(unpacked(packed_by_hand(kChunk + 50, {kPlain | kWhole, kPlain | 50})), kChunk + 50);
  EXPECT_EQ(unpacked(packed_by_hand(kChunk - 50, {kPlain | (kWhole - 100), kPlain | 50})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(2 * kChunk, {kPlain | kWhole, 2 * kWhole})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(2 * kChunk, {2 * kWhole})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(2 * kChunk, {kPlain | (2 * kWhole)})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(kChunk + 50, {kPlain | kWhole, kPlain | 40})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(50, {kPlain | 50, kPlain | 50})), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(5, std::vector<std::uint32_t>(5, kPlain | 1))), 0u);
  EXPECT_EQ(unpacked(packed_by_hand(0, {})), 0u);
  EXPECT_EQ(unpacked(Bytes(3)), 0u);
}

class RunPackingTest : public BlockPackerTest {
 protected:
  // The bytes of a block of a run, once it is packed.
  std::size_t packed_of(RunPacking& packing, unsigned different) {
    Bytes block = random_bytes(kBlock, different, random);
    return packing.pack(block.data(), kBlock);
  }
  static constexpr std::size_t kBlock = 2 * kChunk;
  // Far longer than packing takes, however busy the machine is.
  static constexpr std::uint64_t kHour = 3'600'000'000'000;
  std::mt19937_64 random = test_random();
};

TEST_F(RunPackingTest, DisksThatAreWaitedForGetPackedBlocks) {
  RunPacking packing(RunCompression::kAuto, kBlock);
  EXPECT_TRUE(packing.may_pack());
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(packed_of(packing, 2), kBlock);
    packing.end_run(kBlock, kBlock, kBlock / 4);  // a quarter of a nanosecond a byte
  }
  packing.end_run(kBlock, kBlock, kHour);
  EXPECT_LT(packed_of(packing, 2), kBlock * 3 / 4);
  EXPECT_LT(packed_of(packing, 2), kBlock * 3 / 4);
  // It goes on while that saves something, although nobody waits any more.
  packing.end_run(kBlock, kBlock / 2, 0);
  EXPECT_LT(packed_of(packing, 2), kBlock * 3 / 4);
  packing.end_run(kBlock, kBlock - kBlock / 10, kHour);
  EXPECT_EQ(packed_of(packing, 2), kBlock);
}

TEST_F(RunPackingTest, WhatDoesNotBecomeSmallerIsLeftAlone) {
  RunPacking packing(RunCompression::kAuto, kBlock);
  packing.end_run(kBlock, kBlock, kHour);
  EXPECT_EQ(packed_of(packing, 256), kBlock);
  EXPECT_EQ(packed_of(packing, 2), kBlock);  // it was tried with the block before
  // And tried again some runs later.
  int runs = 0;
  do {
    packing.end_run(kBlock, kBlock, kHour);
    ++runs;
  } while (packed_of(packing, 2) == kBlock && runs < 100);
  EXPECT_GT(runs, 3);
  EXPECT_LT(runs, 20);
}

TEST_F(RunPackingTest, MayBeForcedAndForbidden) {
  RunPacking always(RunCompression::kAlways, kBlock);
  EXPECT_LT(packed_of(always, 2), kBlock * 3 / 4);
  always.end_run(kBlock, kBlock, 0);
  EXPECT_LT(packed_of(always, 2), kBlock * 3 / 4);
  RunPacking never(RunCompression::kNever, kBlock);
  EXPECT_FALSE(never.may_pack());
  never.end_run(kBlock, kBlock, kHour);
  EXPECT_EQ(packed_of(never, 2), kBlock);
}

}  // namespace

}  // namespace vortex::test::run_packing_test

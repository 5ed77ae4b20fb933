// Parts that are written in segments, as where there is little address space for each.
#include "sort/split/part_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/split/partitions.h"
#include "vortex/block_pool.h"

namespace vortex::test::part_files_test { namespace {

TEST(PartFiles, GoOnInTheNextSegment) {
  auto random = test_random();
  for (int round = 0; round < 30; ++round) {
    constexpr std::size_t kBlock = std::size_t{16} << 10;
    constexpr std::size_t kParts = 3;
    const std::size_t bytes = round == 0 ? 3 * kBlock + 5 : random_record_bytes(random);
    const RecordList list =
        make_records(Shape::kRandom, bytes, 1 + random() % (2000000 / bytes + 1), random);
    const TemporaryFolder folder(fast_folder());
    const std::unique_ptr<Disk> disk = open_disk();
    BlockPool pool({.pool_bytes = 2 * kParts * kBlock, .block_bytes = kBlock});
    PartFileOptions options;
    options.segment_bytes = (1 + random() % 5) * kBlock;
    options.extent_bytes = random() % 2 == 0 ? 0 : 4 * kBlock;
    options.writer = {.comeback_blocks = 0,
                      .write_behind = 1,
                      .request_bytes = kBlock,
                      .gaps = Gaps::kUnspecified,
                      .pool = &pool,
                      .reserve_bytes = options.segment_bytes + kBlock};
    PartFiles files(bytes, kBlock, options);
    for (std::size_t i = 0; i < kParts; ++i) {
      files.add(folder.file("part " + std::to_string(i)), *disk, Caching::kAuto);
    }
    files.begin();
    std::vector<std::uint32_t> parts(list.count());
    std::vector<Bytes> expected(kParts);
    for (std::size_t i = 0; i < list.count(); ++i) {
      parts[i] = static_cast<std::uint32_t>(random() % 10 < 7 ? 0 : random() % kParts);
      Bytes& part = expected[parts[i]];
      part.insert(part.end(), list.at(i), list.at(i) + bytes);
    }
    std::size_t extended = 0;
    for (std::size_t done = 0; done < list.count();) {
      guarded([&] {
        done += files.append(list.at(done), list.count() - done, parts.data() + done);
      }).throw_if_failed();
      if (done == list.count()) break;
      files.extend();
      ++extended;
    }
    EXPECT_EQ(folder.entries(), 0U);
    files.publish(false);
    EXPECT_GE(extended, expected[0].size() / options.segment_bytes / 2);
    for (std::size_t i = 0; i < kParts; ++i) {
      EXPECT_EQ(files.bytes(i), expected[i].size());
      ASSERT_TRUE(same_bytes(read_file(files.name(i)), expected[i]))
          << "records of " << bytes << " bytes, segments of " << options.segment_bytes;
    }
  }
}

}  // namespace

}  // namespace vortex::test::part_files_test

// The memory of readers, writers and arrays that have a pool of their own: when it is acquired.
#include "io/file/own_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/fault/engine_suite.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex::test { namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;

template <typename EngineType>
class OwnPool : public EngineTest<EngineType> {};
TYPED_TEST_SUITE(OwnPool, AllEngines, EngineNames);

// Where disks are not told of the memory, the pool acquires it when it is made: the first faults
// would have to, block after block. Elsewhere telling the disk does it, and the pool waits for
// that.
TYPED_TEST(OwnPool, IsThereBeforeTheFirstFaultWhereDisksAreNotToldOfIt) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{5}, std::size_t{70}}) {
    const auto pool = make_own_pool("test", kBlock, blocks);
    EXPECT_GE(pool->block_count(), blocks);
    EXPECT_EQ(pool->may_be_pinned(), TypeParam::kEngine != Engine::kUserfaultfd);
    EXPECT_EQ(pool->statistics().blocks_populated, pool->may_be_pinned() ? 0 : pool->block_count());
  }
}

// Memory of the maps whose missing pages are faults for userfaultfd: the homes of blocks, and
// streams.
std::size_t resident_in_armed_maps() {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  std::size_t in_map = 0;
  std::size_t kilobytes = 0;
  while (std::getline(smaps, line)) {
    unsigned long count = 0;
    if (std::sscanf(line.c_str(), "Rss: %lu", &count) == 1) in_map = count;
    if (line.rfind("VmFlags:", 0) == 0 && (line + " ").find(" um ") != std::string::npos) {
      kilobytes += in_map;
    }
  }
  return kilobytes << 10;
}

class OwnPoolUnderUserfaultfd : public EngineTest<UserfaultfdEngine> {
 protected:
  void SetUp() override {
    EngineTest<UserfaultfdEngine>::SetUp();
    if (IsSkipped()) return;
    std::ofstream(path_, std::ios::binary) << std::string(40 * kBlock, 'x');
    ASSERT_EQ(resident_in_armed_maps(), 0U);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(OwnPoolUnderUserfaultfd, OfAReader) {
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    const FileReader<char> in(path_, {.block_bytes = kBlock, .order = order});
    EXPECT_EQ(resident_in_armed_maps(), in.statistics().pool_bytes);
  }
}

TEST_F(OwnPoolUnderUserfaultfd, OfAWriter) {
  const FileWriter<char> out(folder_.file("made"), {.block_bytes = kBlock});
  EXPECT_EQ(resident_in_armed_maps(), out.statistics().pool_bytes);
}

TEST_F(OwnPoolUnderUserfaultfd, OfAnArray) {
  // As large as the pool.
  std::ofstream(path_, std::ios::binary) << std::string(100 * kBlock, 'x');
  const FileArray<char> array(path_, {.block_bytes = kBlock});
  EXPECT_EQ(resident_in_armed_maps(), array.statistics().pool_bytes);
}

// What a file has no blocks for is taken when it grows.
TEST_F(OwnPoolUnderUserfaultfd, OfAnArrayThatIsSmallComesAsItIsTouched) {
  FileArray<char> array(path_, {.block_bytes = kBlock});
  ASSERT_GT(array.statistics().pool_bytes, 40 * kBlock + (std::size_t{2} << 20));
  EXPECT_EQ(resident_in_armed_maps(), 0U);
  array.data()[0] = 'y';
  EXPECT_GE(resident_in_armed_maps(), kBlock);
  EXPECT_LT(resident_in_armed_maps(), array.statistics().pool_bytes);
}

// A pool that others bring acquires its memory as they chose.
TEST_F(OwnPoolUnderUserfaultfd, IsNoOthersPool) {
  BlockPool pool({.pool_bytes = 96 * kBlock,
                  .block_bytes = kBlock,
                  .warming = Warming::kOnDemand,
                  .huge_pages = false});
  const FileArray<char> array(path_, {.pool = &pool});
  EXPECT_EQ(pool.statistics().blocks_populated, 0U);
  EXPECT_EQ(resident_in_armed_maps(), 0U);
}

}  // namespace

}  // namespace vortex::test

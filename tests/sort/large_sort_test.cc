// More than 2^32 records, and runs beyond 4 GiB: records of one byte, and files that are holes.
// Minutes of work, so only with VORTEX_LONG_TESTS=1.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/merge/run_merge.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/format_order.h"
#include "sort/runs/run_store.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort.h"

namespace vortex::test::large_sort_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBeyond = (std::uint64_t{1} << 32) + 1000;

RecordFormat bytes_format() { return RecordFormat(1, {parse_record_key("0:1")}); }

class LargeSort : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!long_tests()) GTEST_SKIP() << "2^32 records take minutes: set VORTEX_LONG_TESTS=1";
  }

  // Zeros but for ones here and there, on both sides of 2^31 and 2^32 too.
  std::string make_input() const {
    const std::string path = folder_.file("in");
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file, kBeyond), 0);
    for (const std::uint64_t place : kOnes) {
      EXPECT_EQ(pwrite(file, "\1", 1, static_cast<off_t>(place)), 1);
    }
    close(file);
    return path;
  }
  ExternalSortOptions options() const {
    ExternalSortOptions result;
    result.inputs = {make_input()};
    result.output = folder_.file("out");
    result.format = bytes_format();
    result.resources.memory_bytes = 512 * kMiB;
    return result;
  }

  static constexpr std::uint64_t kOnes[] = {0,
                                            (std::uint64_t{1} << 31) - 1,
                                            std::uint64_t{1} << 31,
                                            (std::uint64_t{1} << 32) - 1,
                                            std::uint64_t{1} << 32,
                                            kBeyond - 1};
  TemporaryFolder folder_;
};

TEST_F(LargeSort, CountsRecordsThatAreDropped) {
  ExternalSortOptions unique = options();
  unique.unique = true;
  const SortReport report = external_sort(unique);
  EXPECT_EQ(report.records_in, kBeyond);
  EXPECT_EQ(report.records_out, 2U);
  EXPECT_GE(report.runs, 8U);
}

struct Counter final : RecordOutput {
  std::span<std::byte> room(std::size_t most_bytes) override {
    return std::span(buffer).first(std::min(most_bytes, buffer.size()));
  }
  void written(std::size_t bytes) override {
    records += bytes;
    for (std::size_t at = 0; at < bytes; ++at) sum += static_cast<unsigned>(buffer[at]);
  }
  std::vector<std::byte> buffer = std::vector<std::byte>(4096);
  std::uint64_t records = 0;
  std::uint64_t sum = 0;
};

// One run of more than 4 GiB and a short one, of slots that were never written: holes, which are
// read as zeros.
TEST_F(LargeSort, MergesRunsBeyondFourGibibytes) {
  const FormatOrder order(bytes_format());
  BlockPool pool({.pool_bytes = 16 * kMiB, .block_bytes = 2 * kMiB});
  RunStoreOptions for_store;
  for_store.folders = {folder_.path().string()};
  RunStore store(pool, for_store);
  const ForecastKeys keys(order);
  std::vector<vortex::Run> runs;
  std::vector<std::byte> block(pool.block_bytes());
  for (const std::uint64_t bytes : {std::uint64_t{1000}, kBeyond}) {
    vortex::Run run(store, bytes);
    for (std::uint64_t at = 0; at < bytes; at += pool.block_bytes()) {
      ASSERT_TRUE(run.places.add_unit());
    }
    run.end();
    run.bytes = run.records = bytes;
    run.forecast_keys.resize(run.blocks() * keys.bytes());
    runs.push_back(std::move(run));
  }
  EXPECT_EQ(runs.back().bytes_of_block(runs.back().blocks() - 1), 1000U);
  // The last block holds a one; its place in the file is beyond 4 GiB.
  PlacedRequest write;
  block[999] = std::byte{1};
  EXPECT_GT(runs.back().places.locate(runs.back().blocks() - 1).offset, std::uint64_t{1} << 32);
  std::byte last{};
  const auto placed = [&] {
    return RunBytes(runs.back()).read_last_record(runs.back().blocks() - 1, {&last, 1});
  };
  EXPECT_EQ(placed(), 0);
  EXPECT_EQ(last, std::byte{0});
  BlockQuota quota(pool, 1, 1, "test");
  const BlockGrant grant = quota.try_take();
  std::copy(block.begin(), block.begin() + 1000, pool.home(grant.block));
  write.aim(Operation::kWrite, runs.back().places.locate(runs.back().blocks() - 1), 0, 1000, true);
  write.request.set_memory(pool.home(grant.block), write.request.bytes);
  store.disk(0).submit(write.request);
  EXPECT_TRUE(store.disk(0).wait(write.request));
  EXPECT_EQ(write.request.error, 0);
  quota.give_back(grant.block);
  EXPECT_EQ(placed(), 0);
  EXPECT_EQ(last, std::byte{1});
  keys.make(&last, runs.back().forecast_keys.data() + (runs.back().blocks() - 1) * keys.bytes());

  Counter counter;
  RunMergeOptions merge;
  merge.read_buffers = 7;
  EXPECT_EQ(merge_runs(order, store, std::move(runs), counter, merge), kBeyond + 1000);
  EXPECT_EQ(counter.records, kBeyond + 1000);
  EXPECT_EQ(counter.sum, 1U);
}

}  // namespace

}  // namespace vortex::test::large_sort_test

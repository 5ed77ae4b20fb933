// More than 2^32 records, and runs beyond 4 GiB: records of one byte, and files and memory that are
// holes. What takes minutes, or as much memory, only with VORTEX_LONG_TESTS=1.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/merge/run_merge.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/format_order.h"
#include "sort/runs/bucket_sorters.h"
#include "sort/runs/run_formation.h"
#include "sort/runs/run_store.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/external_sort.h"
#include "vortex/sort.h"

namespace vortex::test::large_sort_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBeyond = (std::uint64_t{1} << 32) + 4 * kMiB + 1000;

// All are zeros but for ones here and there, on both sides of 2^31 and 2^32 too.
constexpr std::uint64_t kOnes[] = {0,
                                   (std::uint64_t{1} << 31) - 1,
                                   std::uint64_t{1} << 31,
                                   (std::uint64_t{1} << 32) - 1,
                                   std::uint64_t{1} << 32,
                                   (std::uint64_t{1} << 32) + 2'000'000,
                                   kBeyond - 1};

RecordFormat bytes_format() { return RecordFormat(1, {parse_record_key("0:1")}); }

class LargeSort : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!long_tests()) GTEST_SKIP() << "2^32 records take minutes: set VORTEX_LONG_TESTS=1";
  }

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

// Where the bytes that are not zero come.
struct OnesFound final : RecordOutput {
  std::span<std::byte> room(std::size_t most_bytes) override {
    return std::span(buffer).first(std::min<std::size_t>(most_bytes, buffer.size()));
  }
  void written(std::size_t bytes) override {
    const std::byte* const begin = buffer.data();
    for (const std::byte* at = begin;;) {
      at = static_cast<const std::byte*>(
          std::memchr(at, 1, bytes - static_cast<std::size_t>(at - begin)));
      if (at == nullptr) break;
      places.push_back(records + static_cast<std::uint64_t>(at++ - begin));
    }
    records += bytes;
  }
  std::vector<std::byte> buffer = std::vector<std::byte>(std::size_t{1} << 20);
  std::uint64_t records = 0;
  std::vector<std::uint64_t> places;
};

struct ValueOfByte {
  std::uint8_t operator()(const std::uint8_t& byte) const noexcept { return byte; }
};
using RulesOfBytes = detail::KeyRules<std::uint8_t, ValueOfByte>;
// Says of a bucket that it is in order, without looking.
class OrderOfAnyBucket final : public detail::OrderBy<RulesOfBytes> {
 public:
  OrderOfAnyBucket() : OrderBy(RulesOfBytes(ValueOfByte())) {}
  std::optional<std::size_t> scratch_to_index(std::size_t) const noexcept override { return 64; }
  RecordIndex index_bucket(std::byte*, std::size_t, std::span<std::byte>) const noexcept override {
    return {.order = RecordIndex::Order::kGiven};
  }
};

// Pages of a private mapping that nobody has stored to are one page of zeros.
TEST(LargeBucket, IsPassedOnBySeveralThreads) {
  if (kShadowMemory) GTEST_SKIP() << "shadows of 4 GiB";
  void* const memory = mmap(nullptr, kBeyond, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(memory);
  for (const std::uint64_t place : kOnes) bytes[place] = std::byte{1};
  const OrderOfAnyBucket order;
  std::vector<std::byte> scratch(1024);
  {
    BucketSorters sorters(order, kBeyond, 1, 8, scratch);
    ASSERT_TRUE(sorters.hand_over({bytes, kBeyond}));
    EXPECT_TRUE(sorters.copies());
    OnesFound out;
    sorters.await();
    sorters.pass_on(out);
    sorters.done_with_it();
    EXPECT_EQ(out.records, kBeyond);
    EXPECT_TRUE(std::ranges::equal(out.places, kOnes));
  }
  munmap(memory, kBeyond);
}

// The zeros are all in one bucket, in order: to sort so many in pieces takes many minutes.
TEST_F(LargeSort, FormsABucket) {
  constexpr std::size_t kBlock = 2 * kMiB;
  const detail::OrderBy<RulesOfBytes> order{RulesOfBytes(ValueOfByte())};
  const std::size_t blocks = kBeyond / kBlock + 64;
  BlockPool pool({.pool_bytes = blocks * kBlock, .block_bytes = kBlock});
  StreamPool streams(pool, blocks);
  RunFormation runs(order, streams, {.buckets = 16, .scratch_bytes = 64 * kMiB, .fits = true});
  std::vector<std::byte> some(16 * kMiB);
  for (std::uint64_t first = 0; first < kBeyond; first += some.size()) {
    const std::size_t here = std::min<std::uint64_t>(some.size(), kBeyond - first);
    if (first + here == kBeyond) some[here - 1] = std::byte{1};
    ASSERT_EQ(runs.push(some.data(), here), here);
  }
  EXPECT_EQ(runs.records(), kBeyond);
  OnesFound out;
  runs.emit(out);
  EXPECT_EQ(out.records, kBeyond);
  EXPECT_EQ(out.places, std::vector{kBeyond - 1});
}

TEST_F(LargeSort, SortsKeysInMemory) {
  std::vector<std::uint8_t> keys(kBeyond);
  for (const std::uint64_t place : kOnes) keys[place] = 1;
  sort(std::span(keys), {.threads = 2});
  EXPECT_EQ(std::ranges::count(keys, 1), std::ranges::ssize(kOnes));
  EXPECT_TRUE(std::ranges::is_sorted(keys));
}

}  // namespace

}  // namespace vortex::test::large_sort_test

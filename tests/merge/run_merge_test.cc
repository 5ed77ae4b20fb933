// Runs written to disks and merged from them, against std::stable_sort.
#include "sort/merge/run_merge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sort/job/sort_folders.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/format_order.h"
#include "sort/record/slice_merge.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "tests/disk/test_disk.h"
#include "tests/sort/record_lists.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/policy_name.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/record_order.h"
#include "vortex/thread/activity.h"

namespace vortex::test::run_merge_test { namespace {

constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr std::size_t kWriteBehind = 3;
constexpr std::size_t kWorkingBytes = std::size_t{1} << 20;
constexpr unsigned kThreads[] = {1, 2, 7};
constexpr RunCompression kAnyRuns[] = {RunCompression::kNever, RunCompression::kAlways};

std::size_t least_read_buffers(PrefetchKind kind, std::uint32_t runs, unsigned disks,
                               std::size_t block_bytes, std::size_t record_bytes) {
  const std::size_t held = runs * blocks_for_records(block_bytes, record_bytes);
  return minimum_read_buffers(kind, {.disks = disks, .held_blocks = held}, runs);
}

// So many that a merge by several threads holds two blocks of each run.
constexpr std::size_t many_buffers(std::size_t runs) { return 8 * runs; }

using Bytes = std::vector<std::byte>;

enum class Keys { kRandom, kFew, kAllEqual, kExtreme };
constexpr Keys kAllKeys[] = {Keys::kRandom, Keys::kFew, Keys::kAllEqual, Keys::kExtreme};

// Sorted records. Keys of few values in the bytes that `order` calls a word, or at the front, and
// other bytes that tell equal ones apart.
Bytes sorted_records(const RecordOrder& order, std::uint64_t count, Keys keys,
                     std::mt19937_64& random) {
  const auto* const format = dynamic_cast<const FormatOrder*>(&order);
  const std::optional<WordKey> word = format == nullptr ? std::nullopt : format->rules().word_key();
  const std::size_t record_bytes = order.record_bytes();
  Bytes bytes(count * record_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::uint64_t i = 0; i < count && keys != Keys::kRandom; ++i) {
    std::byte* const record = bytes.data() + i * record_bytes + (word ? word->offset : 0);
    const std::size_t key_bytes = word ? 8 : std::min<std::size_t>(record_bytes, 16);
    const int few = static_cast<int>(random() % 3);
    const int extreme = random() % 4 == 0 ? 0 : 0xff;
    const int value = keys == Keys::kFew ? few : keys == Keys::kAllEqual ? 0xff : extreme;
    std::memset(record, value, key_bytes);
  }
  return stably_sorted(order, {record_bytes, std::move(bytes)}).bytes;
}

// The bytes that a stable merge of the runs must give.
Bytes expected_merge(const RecordOrder& order, const std::vector<Bytes>& runs,
                     bool unique = false) {
  RecordList all{order.record_bytes(), {}};
  for (const Bytes& run : runs) all.bytes.insert(all.bytes.end(), run.begin(), run.end());
  const RecordList sorted = stably_sorted(order, all);
  return unique ? firsts_of_equal(order, sorted).bytes : sorted.bytes;
}

struct StoreShape {
  unsigned folders = 1;
  AllocationStrategy strategy = AllocationStrategy::kRandomCyclic;
  DiskBackend backend = DiskBackend::kThreads;
  bool direct = false;
  std::shared_ptr<FaultPlan> faults = nullptr;
  std::optional<std::size_t> faulty_folder = {};  // none: all of them
};

// A pool with not one block more than asked for, and a store on it.
struct House {
  House(std::size_t blocks, const StoreShape& shape, std::uint64_t seed = 1)
      : folders(shape.folders),
        pool({.pool_bytes = blocks * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand}),
        store(pool, options(shape, seed)) {}
  ~House() {
    EXPECT_EQ(store.bytes_in_use(), 0U) << "slots are lost";
    for (const RunStoreDiskStatistics& disk : store.statistics()) {
      EXPECT_EQ(disk.slots_in_use, 0U) << "slots are lost in " << disk.folder;
    }
    EXPECT_EQ(pool.statistics().blocks_in_use, 0U) << "blocks are lost";
  }

  RunStoreOptions options(const StoreShape& shape, std::uint64_t seed) {
    RunStoreOptions options;
    for (const TemporaryFolder& folder : folders) options.folders.push_back(folder.path().string());
    options.strategy = shape.strategy;
    options.direct = shape.direct;
    options.seed = seed;
    options.open_disk = [shape](std::size_t index) {
      DiskOptions disk;
      disk.name = "disk " + std::to_string(index);
      disk.backend = shape.backend;
      disk.depth = shape.backend == DiskBackend::kThreads ? 2 : 0;
      const bool faulty = shape.faulty_folder.value_or(index) == index;
      return with_faults(open_disk(disk), faulty ? shape.faults : nullptr);
    };
    return options;
  }

  std::vector<TemporaryFolder> folders;
  BlockPool pool;
  RunStore store;
};

vortex::Run write_run(const RecordOrder& order, RunStore& store, const Bytes& records,
                      RunCompression compression = RunCompression::kNever) {
  RunPacking packing(compression, kBlock, order.record_bytes());
  RunWriter writer(order, store, kWriteBehind, std::uint64_t{64} << 20, &packing);
  const std::size_t record_bytes = order.record_bytes();
  const Failure failure = guarded(
      [&] { append_records(writer, records.data(), records.size() / record_bytes, record_bytes); });
  failure.throw_if_failed();
  return writer.finish();
}

// The same in parts, from the last one on, with wide rooms where the pool has blocks for them. A
// run that is not packed may be foretold to be whole, and is then, or is shorter. The first of a
// store lies there as in a file.
vortex::Run write_falling_run(const RecordOrder& order, RunStore& store, const Bytes& records,
                              RunCompression compression, bool is_first, std::mt19937_64& random) {
  const std::size_t record_bytes = order.record_bytes();
  RunPacking packing(compression, kBlock, record_bytes);
  const bool is_foretold = !packing.may_pack() && random() % 2 == 0;
  const std::uint64_t longer = random() % 2 == 0 ? 0 : random() % (4 * kBlock) / record_bytes;
  const std::size_t most_wide =
      store.pool().block_count() - RunWriter::blocks_needed(kBlock, record_bytes, kWriteBehind);
  const std::size_t wide = random() % (std::min<std::size_t>(most_wide, 6) + 1);
  FallingRunWriter writer(order, store, kWriteBehind + wide, std::uint64_t{64} << 20,
                          is_foretold ? records.size() + longer * record_bytes : 0, &packing, {},
                          kAsLongAsMayBe, wide);
  const std::size_t most = 1 + random() % ((random() % 4 == 0 ? 40 : 6) * kBlock) / record_bytes;
  for (std::size_t left = records.size() / record_bytes; left > 0;) {
    const std::size_t count = std::min<std::size_t>(left, 1 + random() % most);
    left -= count;
    writer.begin_part(count * record_bytes);
    const Failure failure = guarded(
        [&] { append_records(writer, records.data() + left * record_bytes, count, record_bytes); });
    failure.throw_if_failed();
  }
  vortex::Run run = writer.finish();
  if (is_foretold && longer == 0 && store.files() == 1) {
    EXPECT_EQ(run.skipped, 0U);
    EXPECT_TRUE(!is_first || run.begins_file());
  }
  return run;
}

std::vector<vortex::Run> write_runs(const RecordOrder& order, RunStore& store,
                                    const std::vector<Bytes>& runs,
                                    RunCompression compression = RunCompression::kNever) {
  std::vector<vortex::Run> result;
  for (const Bytes& run : runs) result.push_back(write_run(order, store, run, compression));
  return result;
}

// Around the borders of blocks, and anything up to `most_bytes`.
std::uint64_t random_count(std::size_t record_bytes, std::uint64_t most_bytes,
                           std::mt19937_64& random) {
  const std::uint64_t most = std::max<std::uint64_t>(most_bytes / record_bytes, 1);
  const std::uint64_t edges[] = {0,
                                 1,
                                 (kBlock - 1) / record_bytes,
                                 kBlock / record_bytes,
                                 kBlock / record_bytes + 1,
                                 2 * kBlock / record_bytes,
                                 random() % (most + 1),
                                 random() % (most + 1)};
  return std::min(edges[random() % std::size(edges)], most);
}

std::vector<Bytes> random_runs(const RecordOrder& order, unsigned count, Keys keys,
                               std::uint64_t most_bytes, std::mt19937_64& random) {
  std::vector<Bytes> runs;
  for (unsigned i = 0; i < count; ++i) {
    runs.push_back(sorted_records(
        order, random_count(order.record_bytes(), most_bytes / count, random), keys, random));
  }
  return runs;
}

// Records of one or two words, one of them the key: what is merged by slices.
FormatOrder random_word_format(std::mt19937_64& random) {
  constexpr const char* kTypes[] = {"u64", "u64be", "i64", "i64be", "f64", "f64be", "bytes"};
  const std::size_t size = random() % 2 == 0 ? 8 : 16;
  return FormatOrder(RecordFormat(size, {{.offset = random() % (size / 8) * 8,
                                          .length = 8,
                                          .type = parse_key_type(kTypes[random() % 7], "key"),
                                          .descending = random() % 2 == 0}}));
}

// A format with keys that leading bits decide, that need the normalised key, or the whole record.
FormatOrder random_format(std::mt19937_64& random) {
  if (random() % 3 == 0) return random_word_format(random);
  constexpr std::size_t kSizes[] = {1, 2, 3, 7, 8, 16, 100, 104, 128, 500, 1000};
  const std::size_t size =
      random() % 2 == 0 ? kSizes[random() % std::size(kSizes)] : 1 + random() % 1000;
  std::vector<RecordKey> keys;
  if (size >= 12 && random() % 3 == 0) {
    keys.push_back({.offset = 0, .length = 10, .type = {}});
  } else if (size >= 12 && random() % 2 == 0) {
    // Comes at the end of the record, in the next block where it straddles.
    keys.push_back({.offset = size - 4,
                    .length = 4,
                    .type = parse_key_type("u32be", "key"),
                    .descending = random() % 2 == 0});
  } else if (random() % 2 == 0) {
    keys.push_back({.offset = 0, .length = std::min<std::size_t>(size, 3), .type = {}});
  }
  return FormatOrder(RecordFormat(size, keys));
}

class RunMerge : public ::testing::TestWithParam<PrefetchKind> {
 protected:
  static RunMergeOptions with(std::size_t read_buffers) {
    return {.kind = GetParam(), .read_buffers = read_buffers};
  }

  // Writes `data` as runs and merges them.
  static Bytes merged(const RecordOrder& order, House& house, const std::vector<Bytes>& data,
                      std::size_t read_buffers, unsigned threads = 1,
                      RunCompression compression = RunCompression::kNever) {
    RecordCollector out(order.record_bytes());
    RunMergeOptions options = with(read_buffers);
    options.threads = threads;
    options.working_bytes = kWorkingBytes;
    merge_runs(order, house.store, write_runs(order, house.store, data, compression), out, options);
    return out.list.bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(, RunMerge, ::testing::ValuesIn(kAllPrefetchKinds), policy_name);

AllocationStrategy random_strategy(std::mt19937_64& random) {
  constexpr AllocationStrategy kAll[] = {
      AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
      AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom};
  return kAll[random() % std::size(kAll)];
}

TEST_P(RunMerge, GivesWhatAStableSortGives) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 1000 : 20;
  for (unsigned round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const FormatOrder order = random_format(random);
    SCOPED_TRACE(to_string(order.format()));
    const StoreShape shape = {
        .folders = 1 + static_cast<unsigned>(random() % 4),
        .strategy = random_strategy(random),
        .backend = random() % 4 == 0 ? DiskBackend::kBest : DiskBackend::kThreads,
        .direct = random() % 8 == 0,
        .faults = nullptr,
        .faulty_folder = {}};
    const auto count = static_cast<unsigned>(round % 5 == 0 ? 1 + random() % 3 : 1 + random() % 40);
    const std::vector<Bytes> data =
        random_runs(order, count, kAllKeys[random() % std::size(kAllKeys)],
                    order.record_bytes() < 8 ? 256 << 10 : 1 << 20, random);
    const std::size_t least =
        least_read_buffers(GetParam(), count, shape.folders, kBlock, order.record_bytes());
    const std::size_t more = random() % 2 == 0 ? random() % 20 : many_buffers(count);
    const std::size_t buffers = least + (round % 2 == 0 ? 0 : more);
    const std::size_t for_writing =
        RunWriter::blocks_needed(kBlock, order.record_bytes(), kWriteBehind);
    House house(std::max(buffers, for_writing), shape, random());
    const RunCompression compression = kAnyRuns[random() % 2];
    std::vector<vortex::Run> runs;
    for (const Bytes& records : data) {
      runs.push_back(
          random() % 2 == 0 || records.empty()
              ? write_run(order, house.store, records, compression)
              : write_falling_run(order, house.store, records, compression, runs.empty(), random));
    }
    std::uint64_t bytes = 0;
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_EQ(runs[i].bytes - runs[i].skipped, data[i].size());
      ASSERT_LE(runs[i].stored_bytes(), data[i].size() + kBlock);
      ASSERT_EQ(runs[i].records, data[i].size() / order.record_bytes());
      bytes += data[i].size();
    }
    RecordCollector out(order.record_bytes());
    MergePrefetcherStatistics statistics;
    std::uint64_t told = 0;
    RunMergeOptions options = with(buffers);
    options.working_bytes = random() % 4 == 0 ? 0 : kWorkingBytes;
    options.threads = kThreads[random() % std::size(kThreads)];
    options.unique = random() % 4 == 0;
    options.punch_holes = random() % 2 == 0;
    options.progress = [&](std::uint64_t merged) { told = merged; };
    options.statistics = &statistics;
    const std::uint64_t appended = merge_runs(order, house.store, std::move(runs), out, options);
    ASSERT_EQ(appended, out.list.bytes.size() / order.record_bytes());
    ASSERT_TRUE(same_bytes(out.list.bytes, expected_merge(order, data, options.unique)));
    ASSERT_EQ(told, bytes);
    ASSERT_LE(statistics.policy.peak_buffers, buffers);
    ASSERT_EQ(statistics.unforeseen, 0U);
    ASSERT_EQ(house.store.bytes_in_use(), 0U);
  }
}

struct Pair {
  std::uint32_t key;
  std::uint32_t value;
};
struct ByKey {
  bool operator()(const Pair& a, const Pair& b) const noexcept { return a.key < b.key; }
};

TEST_P(RunMerge, ComparatorsDecideWithoutLeadingBits) {
  auto random = test_random();
  const detail::ComparatorOrder<Pair, ByKey> order;
  for (const Keys keys : kAllKeys) {
    const std::vector<Bytes> data = random_runs(order, 13, keys, 1 << 20, random);
    for (const unsigned threads : kThreads) {
      const std::size_t buffers =
          std::max(least_read_buffers(GetParam(), 13, 2, kBlock, sizeof(Pair)),
                   threads == 1 ? 0 : many_buffers(13));
      House house(std::max<std::size_t>(buffers, 1 + kWriteBehind), {.folders = 2});
      ASSERT_TRUE(
          same_bytes(merged(order, house, data, buffers, threads), expected_merge(order, data)));
    }
  }
}

// Merges of merges, in a pool that is just large enough; the slots of what has been merged are used
// for what is written.
TEST_P(RunMerge, SeveralPassesUseSlotsAgain) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100, {{.offset = 0, .length = 10, .type = {}}}));
  constexpr unsigned kOrder = 3;
  constexpr unsigned kDisks = 2;
  std::vector<Bytes> data = random_runs(order, 20, Keys::kFew, 2 << 20, random);
  const std::size_t buffers = least_read_buffers(GetParam(), kOrder, kDisks, kBlock, 100) + 2;
  House house(buffers + RunWriter::blocks_needed(kBlock, 100, kWriteBehind), {.folders = kDisks});
  std::vector<vortex::Run> runs = write_runs(order, house.store, data);
  const std::uint64_t written = house.store.bytes_in_use();
  while (runs.size() > 1) {
    std::vector<vortex::Run> next;
    for (std::size_t first = 0; first < runs.size(); first += kOrder) {
      std::vector<vortex::Run> group;
      for (std::size_t i = first; i < std::min(runs.size(), first + kOrder); ++i) {
        group.push_back(std::move(runs[i]));
      }
      RunMergeOptions options = with(buffers);
      RunWriter writer(order, house.store, kWriteBehind, std::uint64_t{64} << 20);
      merge_runs(order, house.store, std::move(group), writer, options);
      next.push_back(writer.finish());
    }
    runs = std::move(next);
  }
  EXPECT_LE(house.store.peak_bytes_in_use(), written + 4 * kBlock)
      << "merging takes hardly more room than the runs themselves";
  for (const RunStoreDiskStatistics& disk : house.store.statistics()) {
    EXPECT_EQ(disk.slots, disk.peak_slots_in_use) << "a free slot was not used again";
  }
  RecordCollector out(100);
  RunMergeOptions options = with(buffers);
  merge_runs(order, house.store, std::move(runs), out, options);
  EXPECT_TRUE(same_bytes(out.list.bytes, expected_merge(order, data)));
}

TEST_P(RunMerge, DelaysShortTransfersAndInterruptionsDoNoHarm) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(104, {{.offset = 0, .length = 8, .type = {}}}));
  for (unsigned round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    RandomFaults::Rates rates;
    rates.short_transfer = 0.2;
    rates.interrupted = 0.1;
    rates.try_again = 0.1;
    rates.late = 0.3;
    StoreShape shape = {.folders = 3};
    shape.faults = std::make_shared<RandomFaults>(random(), rates);
    shape.backend = round % 2 == 0 ? DiskBackend::kThreads : DiskBackend::kBest;
    const std::vector<Bytes> data = random_runs(order, 11, Keys::kFew, 1 << 20, random);
    const std::size_t buffers = least_read_buffers(GetParam(), 11, 3, kBlock, 104) + random() % 8;
    House house(std::max<std::size_t>(buffers, 2 + kWriteBehind), shape);
    ASSERT_TRUE(
        same_bytes(merged(order, house, data, buffers, kThreads[round % 3], kAnyRuns[round % 2]),
                   expected_merge(order, data)));
  }
}

// Whichever read fails, the merge ends with the disk's error, and all blocks and slots are free
// again (House looks).
TEST_P(RunMerge, AReadThatFailsEndsTheMergeAndLosesNothing) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const std::vector<Bytes> data = random_runs(order, 7, Keys::kRandom, 1 << 20, random);
  std::uint64_t blocks = 0;
  for (const Bytes& run : data) blocks += (run.size() + kBlock - 1) / kBlock;
  for (std::uint64_t number = 0; number < blocks; number += 1 + random() % 5) {
    SCOPED_TRACE(number);
    StoreShape shape = {.folders = 2};
    shape.faults = error_at(number / 2, EIO, Operation::kRead);
    const std::size_t buffers = least_read_buffers(GetParam(), 7, 2, kBlock, 100) + 3;
    House house(std::max<std::size_t>(buffers, 2 + kWriteBehind), shape);
    const auto merge = [&] {
      merged(order, house, data, buffers, kThreads[number % std::size(kThreads)],
             kAnyRuns[random() % 2]);
    };
    ASSERT_TRUE(fails(merge, EIO, "reading a temporary file in"));
  }
}

// Blocks that a disk has changed are an error, as the disk's own are; keys that do not decide are
// read from packed blocks, too.
TEST_P(RunMerge, PackedBlocksThatChangedOnTheDiskAreAnError) {
  if (!BlockPacker::available()) GTEST_SKIP() << "built without LZ4";
  for (const std::size_t size : {100, 1000}) {
    const FormatOrder order{RecordFormat(size)};
    std::vector<Bytes> data;
    for (int i = 0; i < 3; ++i) data.push_back(Bytes(4 * kBlock / size * size));
    for (const std::uint64_t from : {0, 5, 100}) {
      StoreShape shape = {.folders = 2};
      shape.faults = damaged_writes(from);
      const std::size_t buffers = least_read_buffers(GetParam(), 3, 2, kBlock, size) + 3;
      House house(std::max<std::size_t>(buffers, 2 + kWriteBehind), shape);
      Bytes result;
      std::string message;
      const int error = error_of(
          [&] { result = merged(order, house, data, buffers, 1, RunCompression::kAlways); },
          &message);
      EXPECT_EQ(error, from == 100 ? 0 : EBADMSG) << message;
      if (error == 0) {
        EXPECT_TRUE(same_bytes(result, expected_merge(order, data)));
      }
    }
  }
}

TEST_P(RunMerge, CanBeCancelled) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(16, {{.offset = 0, .length = 12, .type = {}}}));
  const unsigned threads = kThreads[random() % std::size(kThreads)];
  std::vector<Bytes> data;
  for (unsigned i = 0; i < 5; ++i) {
    data.push_back(sorted_records(order, 10000, Keys::kRandom, random));
  }
  const std::size_t buffers =
      least_read_buffers(GetParam(), 5, 2, kBlock, 16) + (random() % 2 == 0 ? 4 : many_buffers(5));
  House house(buffers, {.folders = 2});
  RecordCollector out(16);
  std::atomic<bool> cancelled{false};
  RunMergeOptions options = with(buffers);
  options.cancelled = &cancelled;
  options.threads = threads;
  options.working_bytes = kWorkingBytes;
  options.progress = [&](std::uint64_t merged) {
    if (merged > 20000 * 16) cancelled = true;
  };
  const auto merge = [&] {
    merge_runs(order, house.store, write_runs(order, house.store, data), out, options);
  };
  ASSERT_TRUE(fails(merge, ECANCELED));
  EXPECT_GT(out.list.bytes.size(), 20000U * 16);
  EXPECT_LT(out.list.bytes.size(), 50000U * 16);
}

TEST_P(RunMerge, SaysHowManyBuffersWouldDo) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const std::vector<Bytes> data(4, sorted_records(order, 500, Keys::kRandom, random));
  const std::size_t least = least_read_buffers(GetParam(), 4, 1, kBlock, 100);
  House house(least + 2 + kWriteBehind, {});
  ASSERT_TRUE(fails([&] { merged(order, house, data, least - 1); }, ENOBUFS,
                    "at least " + std::to_string(least)));
}

// Four threads merge together where two blocks of each run are half of the buffers, two, and those
// whose memory others may want, where they are a quarter. Threads of a ring have a track from their
// beginning.
TEST(RunMergeThreads, HoldTwoBlocksOfEachRun) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(128));
  const std::vector<Bytes> data(10, sorted_records(order, 500, Keys::kRandom, random));
  const std::size_t two_each = 2 * data.size();
  for (const auto& [threads, lent, buffers, together] : {std::tuple{2U, false, 4 * two_each, true},
                                                         {2U, false, 4 * two_each - 1, false},
                                                         {4U, false, 2 * two_each, true},
                                                         {4U, false, 2 * two_each - 1, false},
                                                         {4U, true, 4 * two_each, true},
                                                         {4U, true, 4 * two_each - 1, false}}) {
    SCOPED_TRACE(testing::Message() << threads << " threads, " << buffers << " buffers" << lent);
    House house(buffers + kWriteBehind, {});
    const auto runs =
        std::make_shared<std::vector<vortex::Run>>(write_runs(order, house.store, data));
    const std::vector<RecordPart> whole = divide_runs(order, *runs, {}, 1, 1, 0);
    ASSERT_EQ(whole.size(), 1U);
    RunMergeOptions options;
    options.read_buffers = buffers;
    options.threads = threads;
    options.working_bytes = kWorkingBytes;
    RunningMerges running;
    if (lent) options.running = &running;
    ActivityLog log(1000);
    RecordCollector out(128);
    {
      const Working working(&log, "caller");
      PartMerge merge(order, house.store, runs, whole[0], options);
      merge.merge_to(out);
    }
    const auto workers = std::ranges::count(log.tracks(), "worker", &ActivityLog::Track::name);
    EXPECT_EQ(workers, together ? threads - 1 : 0);
    EXPECT_TRUE(same_bytes(out.list.bytes, expected_merge(order, data)));
  }
}

// Threads that merge hold a second block of each run only where that leaves buffers enough.
TEST_P(RunMerge, TheLeastBuffersDoForSeveralThreads) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(128));
  for (const unsigned runs : {1U, 2U, 5U}) {
    for (const unsigned disks : {1U, 6U, 12U}) {
      SCOPED_TRACE(testing::Message() << runs << " runs on " << disks << " disks");
      const std::vector<Bytes> data = random_runs(order, runs, Keys::kRandom, 1 << 20, random);
      const std::size_t buffers = least_read_buffers(GetParam(), runs, disks, kBlock, 128);
      House house(std::max<std::size_t>(buffers, 1 + kWriteBehind), {.folders = disks});
      ASSERT_TRUE(same_bytes(merged(order, house, data, buffers, 2), expected_merge(order, data)));
    }
  }
}

TEST(RunWriter, AWriteThatFailsIsAnErrorAndLosesNothing) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const Bytes records = sorted_records(order, 3000, Keys::kRandom, random);
  for (unsigned number = 0; number < 9; ++number) {
    SCOPED_TRACE(number);
    for (const int error_number : {EIO, ENOSPC}) {
      // An error of one disk, or all of them full.
      StoreShape shape = {.folders = 2};
      shape.faults = error_at(number, error_number, Operation::kWrite, error_number == ENOSPC);
      House house(2 + kWriteBehind, shape);
      std::string message;
      ASSERT_EQ(error_of([&] { write_run(order, house.store, records); }, &message), error_number);
      EXPECT_TRUE(contains(message, "a temporary file in '"));
      EXPECT_EQ(static_cast<bool>(contains(message, "more room")), error_number == ENOSPC)
          << message;
    }
  }
}

// Blocks that a full disk refuses, and those that it would have got later, go to the others.
TEST(RunWriter, ARunGoesOnElsewhereWhenADiskIsFull) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const std::vector<Bytes> data = {sorted_records(order, 3000, Keys::kRandom, random),
                                   sorted_records(order, 3000, Keys::kRandom, random)};
  const std::size_t buffers = least_read_buffers(PrefetchKind::kOptimal, 2, 3, kBlock, 100);
  for (unsigned number = 0; number < 12; ++number) {
    SCOPED_TRACE(number);
    StoreShape shape = {.folders = 3};
    shape.faults = error_at(number, number % 2 == 0 ? ENOSPC : EDQUOT, Operation::kWrite, true);
    shape.faulty_folder = 1;
    House house(std::max<std::size_t>(buffers, 2 + kWriteBehind), shape);
    std::vector<vortex::Run> runs = write_runs(order, house.store, data, kAnyRuns[number / 2 % 2]);
    const auto disks = house.store.statistics();
    EXPECT_EQ(disks[1].slots_in_use, number);
    // The blocks that it would have got are scattered over both others.
    EXPECT_GT(disks[0].slots_in_use, runs[0].blocks() / 2);
    EXPECT_GT(disks[2].slots_in_use, runs[0].blocks() / 2);
    RecordCollector out(100);
    RunMergeOptions options;
    options.read_buffers = buffers;
    merge_runs(order, house.store, std::move(runs), out, options);
    EXPECT_TRUE(same_bytes(out.list.bytes, expected_merge(order, data)));
  }
}

// The same with file systems whose room goes to somebody else while a run is written.
TEST(RunWriter, ARunGoesOnElsewhereWhenAFileSystemFillsUp) {
  constexpr std::uint64_t kSystemBytes = std::uint64_t{16} << 20;
  const SmallFileSystem one("tmpfs", kSystemBytes);
  const SmallFileSystem other("tmpfs", kSystemBytes);
  if (!one.refusal.empty()) END_TEST_WITHOUT(one.environment, one.refusal);
  if (!other.refusal.empty()) END_TEST_WITHOUT(other.environment, other.refusal);
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  constexpr std::size_t kRecords = 60000;
  const Bytes records = sorted_records(order, kRecords, Keys::kRandom, random);
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    one.leave(kSystemBytes);
    other.leave(kSystemBytes);
    const std::size_t buffers = least_read_buffers(PrefetchKind::kOptimal, 1, 2, kBlock, 100);
    BlockPool pool({.pool_bytes = std::max<std::size_t>(buffers, 2 + kWriteBehind) * kBlock,
                    .block_bytes = kBlock,
                    .warming = Warming::kOnDemand});
    RunStoreOptions options;
    options.folders = {one.file("."), other.file(".")};
    RunStore store(pool, options);
    {
      RunWriter writer(order, store, kWriteBehind, records.size());
      const auto append = [&](std::size_t begin, std::size_t end) {
        guarded([&] {
          append_records(writer, records.data() + begin * 100, end - begin, 100);
        }).throw_if_failed();
      };
      append(0, kRecords / 2);
      one.leave(0);
      if (both) other.leave(0);
      try {
        append(kRecords / 2, kRecords);
        std::vector<vortex::Run> runs;
        runs.push_back(writer.finish());
        EXPECT_FALSE(both) << "there was no room";
        const auto disks = store.statistics();
        EXPECT_GT(disks[0].slots_in_use, runs[0].blocks() / 8);
        EXPECT_LT(disks[0].slots_in_use, runs[0].blocks() * 7 / 16);
        RecordCollector out(100);
        RunMergeOptions merge;
        merge.read_buffers = buffers;
        merge_runs(order, store, std::move(runs), out, merge);
        EXPECT_TRUE(same_bytes(out.list.bytes, records));
      } catch (const Error& error) {
        EXPECT_TRUE(both) << error.what();
        EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
        EXPECT_TRUE(contains(error.what(), "more room"));
      }
    }
    EXPECT_EQ(store.bytes_in_use(), 0U);
  }
}

// Each disk gets what its speed allows, but no more than fits on it.
TEST(RunStore, SharesFollowSpeedsAndRoom) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const Bytes records = sorted_records(order, 60000, Keys::kRandom, random);
  const auto shares = [&](const std::vector<double>& weights,
                          const std::vector<std::string>& folders) {
    BlockPool pool({.pool_bytes = (2 + kWriteBehind) * kBlock,
                    .block_bytes = kBlock,
                    .warming = Warming::kOnDemand});
    RunStoreOptions options;
    options.folders = folders;
    options.weights = weights;
    RunStore store(pool, options);
    const vortex::Run run = [&] {
      RunWriter writer(order, store, kWriteBehind, records.size());
      guarded([&] { append_records(writer, records.data(), 60000, 100); }).throw_if_failed();
      return writer.finish();
    }();
    std::vector<double> result;
    for (const RunStoreDiskStatistics& disk : store.statistics()) {
      result.push_back(static_cast<double>(disk.slots_in_use) / static_cast<double>(run.blocks()));
    }
    return result;
  };
  const TemporaryFolder a, b, c;
  const std::vector<std::string> folders = {a.path().string(), b.path().string(),
                                            c.path().string()};
  const std::vector<double> by_speed = shares({2e8, 2e8, 1e8}, folders);
  EXPECT_NEAR(by_speed[0], 0.4, 0.02);
  EXPECT_NEAR(by_speed[1], 0.4, 0.02);
  EXPECT_NEAR(by_speed[2], 0.2, 0.02);
  for (const double share : shares({}, folders)) EXPECT_NEAR(share, 1.0 / 3, 0.02);

  const SmallFileSystem small("tmpfs", std::uint64_t{2} << 20);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  const double fits = static_cast<double>(small.free_bytes()) / static_cast<double>(records.size());
  const std::vector<double> by_room = shares({9, 1}, {small.file("."), folders[0]});
  EXPECT_LE(by_room[0], fits + 0.02);
  EXPECT_GT(by_room[0], fits * 0.8);
}

TEST(RunWriter, AnUnfinishedRunIsGivenBack) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100));
  const Bytes records = sorted_records(order, 3000, Keys::kRandom, random);
  House house(2 + kWriteBehind, {});
  {
    RunWriter writer(order, house.store, kWriteBehind, 3000 * 100);
    append_records(writer, records.data(), 3000, 100);
    EXPECT_EQ(writer.records(), 3000U);
    EXPECT_GT(house.store.bytes_in_use(), 0U);
  }
  EXPECT_EQ(house.store.bytes_in_use(), 0U);
}

// Rooms of several blocks, filled from their ends on by several threads.
TEST(RunWriter, WideRoomsMakeTheSameRun) {
  auto random = test_random();
  constexpr std::size_t kBehind = 6;
  for (const std::size_t record_bytes : {std::size_t{8}, std::size_t{100}, kBlock * 2 / 3}) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    const std::uint64_t count = 20 * kBlock / record_bytes + random() % 50;
    const Bytes records = sorted_records(order, count, Keys::kRandom, random);
    std::vector<std::byte> keys;
    for (const std::size_t wide : {0, 1, 3, 5, 9}) {
      SCOPED_TRACE(std::to_string(record_bytes) + " bytes, " + std::to_string(wide) + " wide");
      House house(2 + kBehind, {});
      RunWriter writer(order, house.store, kBehind, 2 * records.size(), nullptr, {}, kAsLongAsMayBe,
                       wide);
      std::size_t most_blocks = 0;
      guarded([&] {
        for (std::size_t done = 0; done < records.size();) {
          const std::size_t left = records.size() - done;
          const std::size_t wanted = random() % 2 == 0 ? left : random() % left + 1;
          const std::size_t most = std::max<std::size_t>(wanted / record_bytes, 1) * record_bytes;
          const std::span<std::byte> room = writer.room(most);
          ASSERT_EQ(room.size() % record_bytes, 0U);
          most_blocks = std::max(most_blocks, room.size() / kBlock);
          const std::size_t half = room.size() / 2;
          std::thread other([&] {
            std::memcpy(room.data() + half, records.data() + done + half, room.size() - half);
          });
          other.join();
          std::memcpy(room.data(), records.data() + done, half);
          writer.written(room.size());
          done += room.size();
        }
      }).throw_if_failed();
      const std::size_t least = record_bytes == 8 ? std::min<std::size_t>(wide, kBehind - 1) : 0;
      EXPECT_GE(most_blocks, least);
      const vortex::Run run = writer.finish();
      EXPECT_EQ(run.records, count);
      Bytes written(records.size());
      EXPECT_EQ(RunBytes(run).read_checked(0, written), 0);
      EXPECT_TRUE(same_bytes(written, records));
      if (wide == 0) keys = run.forecast_keys;
      EXPECT_EQ(run.forecast_keys, keys);
      EXPECT_EQ(keys.size() / ForecastKeys(order).bytes(), run.blocks());
    }
  }
}

// Beyond the address space that it has reserved nothing would stop it but the end of the process.
TEST(RunWriter, RefusesMoreThanWasAnnounced) {
  House house(1 + kWriteBehind, {});
  const FormatOrder order(RecordFormat(64));
  const Bytes record(64);
  RunWriter writer(order, house.store, kWriteBehind, 2 * kBlock);
  for (std::size_t i = 0; i < 2 * kBlock / 64; ++i) append_records(writer, record.data(), 1, 64);
  EXPECT_TRUE(fails([&] { append_records(writer, record.data(), 1, 64); }, EFBIG));
}

TEST(RunWriter, RefusesRecordsLargerThanBlocks) {
  House house(8, {});
  const FormatOrder order(RecordFormat(kBlock + 1));
  EXPECT_THROW(RunWriter(order, house.store, 2, 2 * kBlock), Error);
}

// Records of a whole block, and of nearly two thirds: every one of them straddles.
TEST_P(RunMerge, RecordsAsLargeAsBlocks) {
  auto random = test_random();
  for (const std::size_t size : {kBlock, kBlock - 1, kBlock * 2 / 3, kBlock / 2}) {
    SCOPED_TRACE(size);
    const FormatOrder order(RecordFormat(size, {{.offset = 0, .length = 10, .type = {}}}));
    std::vector<Bytes> data;
    for (unsigned i = 0; i < 6; ++i) {
      data.push_back(sorted_records(order, random() % 12, Keys::kFew, random));
    }
    const std::size_t buffers = least_read_buffers(GetParam(), 6, 3, kBlock, size);
    House house(std::max<std::size_t>(buffers, 2 + kWriteBehind), {.folders = 3});
    ASSERT_TRUE(same_bytes(merged(order, house, data, buffers), expected_merge(order, data)));
  }
}

TEST(RunStore, RefusesWhatItCannotUse) {
  BlockPool pool({.pool_bytes = 4 * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand});
  EXPECT_THROW(RunStore(pool, {}), Error);
  RunStoreOptions options;
  options.folders = {"/no/such/folder"};
  EXPECT_THROW(RunStore(pool, options), Error);
  TemporaryFolder folder;
  options.folders = {folder.path().string()};
  options.weights = {1.0, 2.0};
  EXPECT_THROW(RunStore(pool, options), Error);
}

TEST(RunStore, LeavesNothingInTheFolder) {
  House house(8, {});
  const FormatOrder order(RecordFormat(100));
  const vortex::Run run = write_run(order, house.store, Bytes(10000));
  EXPECT_EQ(house.folders[0].entries(), 0U);
  const auto statistics = house.store.statistics();
  ASSERT_EQ(statistics.size(), 1U);
  EXPECT_EQ(statistics[0].slots_in_use, 1U);
  EXPECT_EQ(statistics[0].disk.writes, 1U);
}

// 1 MiB of runs on a disk that has room for more than 32 such, and then not.
TEST(RunStore, PunchesHolesWhereTheSpaceMayBeMissed) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const test::SmallFileSystem system("ext4", 64 * kBytes);
  if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
  const FormatOrder order(RecordFormat(64));
  for (const bool direct : {true, false}) {
    BlockPool pool({.pool_bytes = 8 * kBlock, .block_bytes = kBlock});
    RunStoreOptions options;
    options.folders = {system.root};
    options.direct = direct;
    RunStore store(pool, options);
    unlink(system.file("ballast").c_str());
    ASSERT_GT(system.free_bytes(), 40 * kBytes);
    EXPECT_EQ(store.punching_pays(), !direct);
    const vortex::Run run = write_run(order, store, Bytes(kBytes));
    EXPECT_EQ(store.punching_pays(), !direct);
    system.leave(30 * kBytes);
    EXPECT_TRUE(store.punching_pays());
  }
}

// The room that the nameless files of a folder take on the disk, in bytes.
std::uint64_t bytes_on_disk(const std::filesystem::path& folder) {
  std::map<ino_t, std::uint64_t> bytes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat status {};
    if (error || target.find(folder.string() + "/") != 0) continue;
    if (stat(entry.path().c_str(), &status) != 0) continue;
    bytes[status.st_ino] = static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  std::uint64_t sum = 0;
  for (const auto& [inode, size] : bytes) sum += size;
  return sum;
}

TEST(RunMergeSpace, TheLastMergeGivesTheSpaceBackAsItGoes) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(64));
  std::vector<Bytes> data;
  for (unsigned i = 0; i < 4; ++i) {
    data.push_back(sorted_records(order, 20000, Keys::kRandom, random));
  }
  const std::size_t buffers = least_read_buffers(PrefetchKind::kOptimal, 4, 1, kBlock, 64) + 4;
  House house(buffers, {});
  if (!punches_holes(house.folders[0].path().string())) {
    GTEST_SKIP() << "the file system of " << house.folders[0].path() << " punches no holes";
  }
  std::vector<vortex::Run> runs = write_runs(order, house.store, data);
  const std::uint64_t before = bytes_on_disk(house.folders[0].path());
  EXPECT_GE(before, 4U * 20000 * 64);
  RecordCollector out(64);
  RunMergeOptions options;
  options.read_buffers = buffers;
  options.punch_holes = true;
  std::uint64_t halfway = 0;
  options.progress = [&](std::uint64_t merged) {
    if (halfway == 0 && merged > 2U * 20000 * 64) {
      halfway = bytes_on_disk(house.folders[0].path());
    }
  };
  merge_runs(order, house.store, std::move(runs), out, options);
  EXPECT_LT(halfway, before * 2 / 3);
  EXPECT_LT(bytes_on_disk(house.folders[0].path()), before / 10);
  EXPECT_TRUE(same_bytes(out.list.bytes, expected_merge(order, data)));
}

// While one thread punches holes, others take and free slots; the last one leaves nothing.
TEST(RunMergeSpace, IsGivenBackByManyThreads) {
  constexpr std::size_t kThreads = 4, kSlots = 6;
  constexpr int kTurns = 5;
  const TemporaryFolder folder;
  if (!punches_holes(folder.path().string())) {
    GTEST_SKIP() << "the file system of " << folder.path() << " punches no holes";
  }
  constexpr std::size_t kLarge = std::size_t{256} << 10;  // it takes a while to punch them
  BlockPool pool({.pool_bytes = kLarge, .block_bytes = kLarge, .warming = Warming::kOnDemand});
  std::atomic<unsigned> twice = 0;
  const unsigned rounds = long_tests() ? 3000 : 60;
  for (unsigned round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::size_t few = 1 + round % kSlots;
    RunStore store(pool, {.folders = {folder.path().string()}});
    std::vector<std::atomic<bool>> taken(kThreads * kSlots * kTurns);
    std::latch all_give_back(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, random = test_random(round * kThreads + i)]() mutable {
        std::vector<std::uint32_t> slots;
        for (int turn = kTurns; turn > 0; --turn) {
          const std::size_t more = 1 + random() % few;
          const std::size_t most = slots.size() + more;
          store.promise_slots(more);
          while (slots.size() < most) {
            slots.push_back(store.take_slot(0));
            const FileLayout::Place place = store.locate({0, slots.back()});
            EXPECT_EQ(pwrite(place.file->descriptor(), "x", 1, static_cast<off_t>(place.offset)),
                      1);
            if (taken.at(slots.back()).exchange(true)) ++twice;
          }
          store.take_promise_back(more);
          std::shuffle(slots.begin(), slots.end(), random);
          if (turn == 1) all_give_back.arrive_and_wait();
          const std::size_t left = turn == 1 ? 0 : random() % (slots.size() + 1);
          for (; slots.size() > left; slots.pop_back()) {
            taken[slots.back()] = false;
            store.free_slot(0, slots.back(), true);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(twice, 0U);
    EXPECT_EQ(store.bytes_in_use(), 0U);
    EXPECT_EQ(bytes_on_disk(folder.path()), 0U);
  }
}

// All of the inputs, some records at a time.
Bytes merged_in_steps(const RecordOrder& order, const std::vector<Bytes>& data,
                      const MergeRoom& room, std::uint64_t most_at_once, std::mt19937_64& random) {
  std::vector<MergeInput> inputs;
  for (const Bytes& part : data) {
    inputs.push_back({part.data(), part.size() / order.record_bytes()});
  }
  const std::unique_ptr<RecordMerge> merge = order.merge(inputs, room);
  RecordCollector out(order.record_bytes());
  merge->start();
  while (const std::uint64_t left = merge->records_left()) {
    merge->merge(1 + random() % std::min(left, most_at_once), out);
  }
  return out.list.bytes;
}

TEST(RecordMerge, MergesAnyNumberOfInputs) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 5000 : 300;
  for (unsigned round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const FormatOrder order = random_format(random);
    std::vector<Bytes> data;
    const auto count = static_cast<unsigned>(random() % 41);
    for (unsigned i = 0; i < count; ++i) {
      data.push_back(
          sorted_records(order, random() % 12, kAllKeys[random() % std::size(kAllKeys)], random));
    }
    ASSERT_TRUE(same_bytes(merged_in_steps(order, data, {}, ~std::uint64_t{0}, random),
                           expected_merge(order, data)));
  }
}

// By several threads: inputs that end early, alike and one behind the other; of records of one or
// two words, with rounds that are one slice and many, and of all others, with any keys.
TEST(RecordMerge, MergesByThreads) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 800 : 40;
  for (unsigned round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const FormatOrder order = round % 2 == 0 ? random_word_format(random) : random_format(random);
    SCOPED_TRACE(to_string(order.format()));
    const auto count = static_cast<unsigned>(2 + random() % (round % 4 == 0 ? 100 : 6));
    const MergeRoom room = {
        .block_bytes = std::size_t{4096} << (2 + random() % 7),
        .working_bytes = std::size_t{1} << (20 + random() % 4),
        .threads = kThreads[random() % std::size(kThreads)],
        .window_blocks =
            (order.record_bytes() % 8 == 0 && order.record_bytes() <= 16 ? 1 : 2) + random() % 2};
    const std::uint64_t most_records =
        std::min<std::uint64_t>(600000, (std::uint64_t{16} << 20) / order.record_bytes());
    const bool disjoint = random() % 4 == 0;
    std::vector<Bytes> data;
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t most = random() % 4 == 0 ? 3 : most_records / count;
      data.push_back(sorted_records(order, random() % (most + 1),
                                    kAllKeys[random() % std::size(kAllKeys)], random));
    }
    if (disjoint) {
      // The inputs become slices of one sorted list: no record of one lies between two of another.
      RecordList all{order.record_bytes(), {}};
      for (const Bytes& part : data) all.bytes.insert(all.bytes.end(), part.begin(), part.end());
      all = stably_sorted(order, all);
      auto at = all.bytes.begin();
      for (Bytes& part : data) {
        const auto end = at + static_cast<std::ptrdiff_t>(part.size());
        part.assign(at, end);
        at = end;
      }
    }
    ASSERT_TRUE(
        same_bytes(merged_in_steps(order, data, room, 50000, random), expected_merge(order, data)));
  }
}

// More inputs of words than slices are made of.
TEST(RecordMerge, HundredsOfInputsOfWordsByAllThreads) {
  auto random = test_random();
  constexpr std::size_t kInputs = 600, kWords = 2000;
  const FormatOrder order{
      RecordFormat(8, {{.offset = 0, .length = 8, .type = {KeyKind::kUnsigned, 8}}})};
  std::vector<Bytes> data;
  std::vector<MergeInput> inputs;
  for (std::size_t i = 0; i < kInputs; ++i) {
    data.push_back(sorted_records(order, kWords, kAllKeys[i % std::size(kAllKeys)], random));
    inputs.push_back({data[i].data(), kWords});
  }
  const Bytes expected = expected_merge(order, data);
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    const MergeRoom room = {.block_bytes = std::size_t{64} << 10,
                            .working_bytes = std::size_t{128} << 20,
                            .threads = threads,
                            .window_blocks = 2};
    const bool by_pieces = dynamic_cast<detail::ParallelMerge<FormatRules>*>(
                               order.merge(inputs, room).get()) != nullptr;
    EXPECT_EQ(by_pieces, threads > 1);
    EXPECT_TRUE(same_bytes(merged_in_steps(order, data, room, 50000, random), expected));
  }
}

// Asking for more threads never leads to fewer.
TEST(RecordMerge, AsManyThreadsAsHaveRoom) {
  using Merge = SliceMerge<CodedWord>;
  for (const std::size_t kib : {1, 500, 1000, 2000, 4000, 16000}) {
    unsigned before = 1;
    for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
      const MergeRoom room = {.working_bytes = kib << 10, .threads = threads};
      const unsigned used = Merge::threads_in(room);
      EXPECT_LE(before, used) << kib;
      const auto fit = [&](std::size_t n) {
        return n * Merge::worker_bytes(Merge::Dense::kMax) + 2 * Merge::kSliceBytes <= kib << 10;
      };
      EXPECT_TRUE(used == 1 || fit(used)) << kib;
      EXPECT_TRUE(used == threads || !fit(used + 1)) << kib;
      before = used;
    }
  }
}

// Where a block of each input lies in memory, slices are short, and still as many as there is room
// for are under way.
TEST(RecordMerge, ShortSlicesAreSortedByAllThreads) {
  constexpr std::size_t kInputs = 16, kWords = 40000;
  std::vector<std::uint64_t> words(kInputs * kWords);
  std::vector<MergeInput> inputs;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i % kWords * kInputs + i / kWords;
  for (std::size_t i = 0; i < kInputs; ++i) {
    inputs.push_back({reinterpret_cast<const std::byte*>(words.data() + i * kWords), kWords});
  }
  const FormatRules rules(
      RecordFormat(8, {{.offset = 0, .length = 8, .type = {KeyKind::kUnsigned, 8}}}));
  for (const unsigned threads : {2U, 4U, 16U}) {
    const MergeRoom room = {.block_bytes = 16384,
                            .working_bytes = std::size_t{64} << 20,
                            .threads = threads,
                            .window_blocks = 1};
    SliceMerge<CodedWord> merge(rules, CodedWord::small_sort(), inputs, room);
    RecordCollector out(8);
    merge.start();
    merge.merge(1, out);
    EXPECT_EQ(merge.under_way(), 2 * threads + 1);
    merge.merge(merge.records_left(), out);
    std::vector<std::uint64_t> merged(words.size());
    ASSERT_EQ(out.list.bytes.size(), words.size() * 8);
    std::memcpy(merged.data(), out.list.bytes.data(), out.list.bytes.size());
    EXPECT_TRUE(std::ranges::is_sorted(merged));
    EXPECT_EQ(merged.back(), words.size() - 1);
  }
}

// A run that may be longer than all room there is goes to its folders as one that is as long as
// expected.
TEST(RunStore, SharesAreThoseOfTheExpectedLength) {
  const TemporaryFolder fast, slow;
  constexpr std::size_t kLarge = std::size_t{4} << 20;
  BlockPool pool({.pool_bytes = kLarge, .block_bytes = kLarge, .warming = Warming::kOnDemand});
  RunStore store(
      pool,
      {.folders = {fast.path().string(), slow.path().string()}, .weights = {2, 1}, .sparse = true});
  const std::uint64_t most = 4 * std::filesystem::space(fast.path()).available;
  for (const auto& [expected, of_fast] : {std::pair{most, 15}, {std::uint64_t{kLarge}, 20}}) {
    SpreadSequence places = store.next_sequence(most, expected);
    int found = 0;
    for (std::uint64_t unit = 0; unit < 30; ++unit) {
      ASSERT_TRUE(places.add_unit());
      found += places.place(unit).file == 0;
    }
    EXPECT_NEAR(found, of_fast, 1);
  }
}

}  // namespace

}  // namespace vortex::test::run_merge_test

// Partitions that end before they are whole leave nothing behind, whatever ends them; and how much
// memory they take.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/disk.h"
#include "tests/split/partitions.h"
#include "tests/support/child_peak.h"
#include "tests/support/environment.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"

namespace vortex::test::partition_ends_test { namespace {

PartitionCase small_case(std::size_t records = 12000, unsigned folders = 2) {
  auto random = test_random();
  PartitionCase made(RecordFormat(36, {parse_record_key("0:6")}),
                     {make_records(Shape::kRandom, 36, records, random),
                      make_records(Shape::kFewValues, 36, records, random)},
                     folders);
  made.options.parts = 5;
  made.options.resources.block_bytes = std::size_t{16} << 10;
  return made;
}

void expect_nothing_left(const PartitionCase& made) { EXPECT_EQ(made.files(), 0U); }

class PartitionFaults : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(, PartitionFaults, ::testing::ValuesIn(kAllBackends),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(PartitionFaults, AtEveryRequest) {
  PartitionCase made = small_case();
  const auto requests = counted();
  made.options.resources.open_disk = sort_disks(GetParam(), requests);
  const auto report = external_partition(made.options);
  expect_ranges(made, made.parts_of(report));
  for (const PartReport& part : report.parts) unlink(part.path.c_str());
  const std::uint64_t all = requests->attempts();
  ASSERT_GT(all, 60U);
  for (std::uint64_t i = 0; i < all; ++i) {
    const auto fault = error_at(i, EIO);
    made.options.resources.open_disk = sort_disks(GetParam(), fault);
    std::string message;
    const int error = error_of([&] { external_partition(made.options); }, &message);
    // What is read ahead for a sample may not be used.
    if (error != 0) {
      EXPECT_EQ(error, EIO) << message;
      EXPECT_TRUE(contains(message, "offset"));
      EXPECT_TRUE(message.find("input") != std::string::npos ||
                  message.find("part.0000") != std::string::npos)
          << message;
      expect_nothing_left(made);
      continue;
    }
    EXPECT_EQ(made.files(), 5U) << "request " << i << " failed, and nobody was told";
    expect_ranges(made, made.parts_of(external_partition(made.options)));
    for (const PartReport& part : report.parts) unlink(part.path.c_str());
  }
}

TEST(PartitionEnds, AFaultOfAWriteIsAlwaysTold) {
  PartitionCase made = small_case();
  const auto requests = counted(Operation::kWrite);
  made.options.resources.open_disk = sort_disks(Backend::kThreads, requests);
  const auto report = external_partition(made.options);
  for (const PartReport& part : report.parts) unlink(part.path.c_str());
  for (std::uint64_t i = 0; i < requests->attempts(); ++i) {
    made.options.resources.open_disk =
        sort_disks(Backend::kThreads, error_at(i, ENOSPC, Operation::kWrite));
    ASSERT_TRUE(fails([&] { external_partition(made.options); }, ENOSPC, "part.0000")) << i;
    expect_nothing_left(made);
  }
}

TEST(PartitionEnds, WhenItIsStopped) {
  PartitionCase made = small_case(60000);
  std::uint64_t reports = 0;
  made.options.resources.progress = [&](const SortProgress&) { ++reports; };
  const auto report = external_partition(made.options);
  for (const PartReport& part : report.parts) unlink(part.path.c_str());
  ASSERT_GT(reports, 3U);
  for (std::uint64_t when = 0; when < reports; ++when) {
    std::stop_source stop;
    made.options.resources.stop = stop.get_token();
    std::uint64_t told = 0;
    made.options.resources.progress = [&](const SortProgress&) {
      if (told++ == when) stop.request_stop();
    };
    EXPECT_TRUE(fails([&] { external_partition(made.options); }, ECANCELED));
    expect_nothing_left(made);
  }
}

TEST(PartitionEnds, WhenTheDiskIsFull) {
  const SmallFileSystem small("tmpfs", 1 << 20);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  PartitionCase made = small_case(40000, 0);
  made.options.prefix = small.file("part");
  std::string message;
  EXPECT_EQ(error_of([&] { external_partition(made.options); }, &message), ENOSPC) << message;
  EXPECT_TRUE(contains(message, "part.0000"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(small.root)) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 0U);
}

TEST(PartitionEnds, InAFullDiskThatHasJustTheRoom) {
  constexpr std::uint64_t kBytes = std::uint64_t{8} << 20;
  const SmallFileSystem small("tmpfs", kBytes + (256 << 10));
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  auto random = test_random();
  PartitionCase made(RecordFormat(8, {}), {make_records(Shape::kRandom, 8, kBytes / 8, random)}, 0);
  made.options.parts = 4;
  made.options.prefix = small.file("part");
  made.options.resources.block_bytes = std::size_t{64} << 10;
  external_partition(made.options);
}

TEST(PartitionEnds, WhatIsWrongIsRefused) {
  PartitionCase made = small_case();
  const auto refused = [&](const std::string& words, int error = EINVAL) {
    const auto result = fails([&] { external_partition(made.options); }, error, words);
    expect_nothing_left(made);
    return result;
  };
  // Before an input is opened.
  const ExternalPartitionOptions good = made.options;
  made.options.inputs = {"/nowhere/at all"};
  made.options.parts = 0;
  EXPECT_TRUE(refused("into 0 parts"));
  made.options.parts = kMostParts + 1;
  EXPECT_TRUE(refused("into 32769 parts"));
  made.options.splitters.resize(35);
  EXPECT_TRUE(refused("whole records of 36"));
  made.options.splitters.resize(36);
  made.options.parts = good.parts;
  EXPECT_TRUE(refused("1 splitters make 2 parts, not 5"));
  made.options.parts = 0;
  made.options.divide_equal_keys = true;
  EXPECT_TRUE(refused("splitters are given"));
  made.options = good;
  made.options.prefix = "a/b";
  EXPECT_TRUE(refused("has a folder"));
  made.options.prefix.clear();
  EXPECT_TRUE(refused("needs a name"));
  made.options = good;
  made.options.inputs.clear();
  EXPECT_TRUE(refused("needs an input"));
  made.options.inputs = {"/nowhere/at all"};
  EXPECT_TRUE(refused("/nowhere/at all", ENOENT));
  made.options = good;
  made.options.format = RecordFormat(7, {});
  EXPECT_TRUE(refused("no multiple of the record's 7"));
  made.options.format.reset();
  EXPECT_TRUE(refused("a record format or an order"));
  made.options = good;
  made.options.resources.memory_bytes = 64 << 10;
  std::string message;
  EXPECT_EQ(error_of([&] { external_partition(made.options); }, &message), ENOMEM);
  ASSERT_TRUE(contains(message, "the least is "));
  made.options.resources.memory_bytes = std::uint64_t{512} << 10;
  expect_ranges(made, made.parts_of(external_partition(made.options)));
}

TEST(PartitionEnds, APipeThatNobodyReadsIsNoPart) {
  const PartitionCase made = small_case(3000, 0);
  const std::string part = made.options.prefix + ".00001";
  ASSERT_EQ(mkfifo(part.c_str(), 0600), 0);
  EXPECT_TRUE(fails([&] { external_partition(made.options); }, EINVAL, {part, "is no file"}));
  unlink(part.c_str());
  expect_nothing_left(made);
}

TEST(PartitionEnds, WhenAnInputChanges) {
  PartitionCase made = small_case(60000);
  bool changed = false;
  made.options.resources.progress = [&](const SortProgress& now) {
    if (now.bytes == 0 || std::exchange(changed, true)) return;
    std::ofstream(made.options.inputs[0], std::ios::app | std::ios::binary) << "x";
  };
  EXPECT_TRUE(fails([&] { external_partition(made.options); }, EBUSY, "was changed"));
  expect_nothing_left(made);
}

TEST(PartitionEnds, FilesOfTheNameAreReplacedAndMayBeInputs) {
  PartitionCase made = small_case(3000, 0);
  made.options.inputs = {made.options.prefix + ".00001"};
  write_file(made.options.inputs[0], made.all().bytes);
  expect_ranges(made, made.parts_of(external_partition(made.options)));
}

// Parts are written in several segments then; still the function is asked once for each record.
TEST(PartitionEnds, InLittleAddressSpace) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer takes more address space than there would be";
  constexpr std::uint64_t kNumbers = std::uint64_t{1} << 20;
  std::vector<std::uint64_t> numbers(kNumbers);
  std::iota(numbers.begin(), numbers.end(), 0);
  PartitionCase made(RecordFormat(8, {}), {{8, bytes_of(numbers)}}, 1);
  made.options.format.reset();
  made.options.parts = 256;
  made.options.resources.block_bytes = std::size_t{16} << 10;
  made.options.resources.memory_bytes = std::uint64_t{24} << 20;
  peak_of([&] {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1 << 30);
    const rlimit limit = {most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) throw Error(errno, "limit the address space");
    std::uint64_t next = 0;
    external_partition_by<std::uint64_t>(made.options, [&next](std::uint64_t number) {
      // A record that comes twice is in no part.
      return number == next++ ? (number % 16 == 0 ? number % 256 : 3) : kMostParts;
    });
  });
  std::vector<Bytes> expected(256);
  for (const std::uint64_t number : numbers) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    Bytes& part = expected[number % 16 == 0 ? number % 256 : 3];
    part.insert(part.end(), bytes, bytes + 8);
  }
  const std::string folder = made.options.resources.folders[0];
  for (std::size_t i = 0; i < 256; ++i) {
    std::string number = std::to_string(100000 + i).substr(1);
    ASSERT_TRUE(same_bytes(read_file(folder + "/part." + number), expected[i])) << "part " << i;
  }
}

struct MemorySetting {
  std::uint64_t memory_bytes;
  std::size_t parts;
  DiskBackend backend;
};

TEST(PartitionMemory, StaysWithinWhatItIsGiven) {
  if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  for (const MemorySetting& setting : {MemorySetting{8 * kMiB, 2, DiskBackend::kBest},
                                       MemorySetting{32 * kMiB, 256, DiskBackend::kBest},
                                       MemorySetting{32 * kMiB, 256, DiskBackend::kThreads},
                                       MemorySetting{96 * kMiB, 1000, DiskBackend::kBest}}) {
    const TemporaryFolder folder(fast_folder());
    const std::string input = folder.file("input");
    peak_of([&] {
      std::ofstream file(input, std::ios::binary);
      auto random = test_random();
      for (std::uint64_t i = 0; i < (64 * kMiB) / 8; ++i) {
        const std::uint64_t number = random();
        file.write(reinterpret_cast<const char*>(&number), sizeof number);
      }
    });
    const std::uint64_t peak = peak_beyond_start([&] {
      ExternalPartitionOptions options;
      options.inputs = {input};
      options.prefix = folder.file("part");
      options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
      options.parts = setting.parts;
      options.resources.memory_bytes = setting.memory_bytes;
      options.resources.backend = setting.backend;
      external_partition(options);
    });
    // What of the program and its libraries is not there before, and does not grow.
    EXPECT_LE(peak, setting.memory_bytes + 2 * kMiB)
        << setting.parts << " parts: " << peak / kMiB << " MiB";
    EXPECT_GT(peak, setting.memory_bytes / 4);
  }
}

}  // namespace

}  // namespace vortex::test::partition_ends_test

// A sort stays within its memory, with all that the process takes meanwhile but pages of programs
// and libraries: a fiftieth is for how the heap rounds, 4 MiB of little memory.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "io/sequence/seeded_random.h"
#include "tests/support/cases.h"
#include "tests/support/child_peak.h"
#include "tests/support/temporary_folder.h"
#include "vortex/external_sort.h"
#include "vortex/file_writer.h"
#include "vortex/sorter.h"

namespace vortex::test::sort_memory_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Setting {
  const char* name;
  std::uint64_t memory_bytes;
  std::uint64_t data_bytes;
  std::size_t record_bytes;
  DiskBackend backend;
  const char* key = "0:8";
  std::size_t block_bytes = 0;
  unsigned threads = 0;
  // Each word is likely to be greater, or less, than those far in front of it.
  enum class Order { kNone, kDrifting, kDescending } order = Order::kNone;
  RunCompression compression = RunCompression::kAuto;
};
constexpr Setting kSettings[] = {
    {"Records100In8", 8 * kMiB, 24 * kMiB, 100, DiskBackend::kBest},
    {"Numbers8In16By2", 16 * kMiB, 32 * kMiB, 8, DiskBackend::kBest, "0:8", 0, 2},
    {"Numbers8In16By1", 16 * kMiB, 32 * kMiB, 8, DiskBackend::kBest, "0:8", 0, 1},
    {"Numbers8In16By7", 16 * kMiB, 32 * kMiB, 8, DiskBackend::kBest, "0:8", 0, 7},
    {"Pairs16In32By7", 32 * kMiB, 64 * kMiB, 16, DiskBackend::kBest, "0:8", 0, 7},
    {"Records100In8By7", 8 * kMiB, 24 * kMiB, 100, DiskBackend::kBest, "0:8", 0, 7},
    {"Records1000In32", 32 * kMiB, 64 * kMiB, 1000, DiskBackend::kBest},
    {"ThreadsRecords100In16", 16 * kMiB, 40 * kMiB, 100, DiskBackend::kThreads},
    {"AllInMemory", 128 * kMiB, 64 * kMiB, 100, DiskBackend::kBest},
    {"LittleInMuch", 512 * kMiB, 8 * kMiB, 100, DiskBackend::kBest},
    {"SmallBlocksIn512", 512 * kMiB, 768 * kMiB, 100, DiskBackend::kBest, "0:8", 32 << 10, 0,
     Setting::Order::kNone, RunCompression::kNever},
    {"SmallPackedBlocksIn512", 512 * kMiB, 768 * kMiB, 100, DiskBackend::kBest, "0:8", 32 << 10, 0,
     Setting::Order::kNone, RunCompression::kAlways},
    {"DriftingIn512", 512 * kMiB, 768 * kMiB, 8, DiskBackend::kBest, "0:8", 0, 2,
     Setting::Order::kDrifting},
    {"DescendingIn512", 512 * kMiB, 768 * kMiB, 8, DiskBackend::kBest, "0:8", 0, 2,
     Setting::Order::kDescending},
    {"DescendingRecords100In16", 16 * kMiB, 40 * kMiB, 100, DiskBackend::kBest, "0:8", 0, 2,
     Setting::Order::kDescending},
    {"LongKeysIn16", 16 * kMiB, 64 * kMiB, 64 << 10, DiskBackend::kBest, "0:65536"},
    {"LongestKeysIn32", 32 * kMiB, 80 * kMiB, 1 << 20, DiskBackend::kBest, "0:1048576"},
};

class SortMemory : public ::testing::TestWithParam<Setting> {
 protected:
  // One in three settings of much memory is tried, in one of the forms.
  static bool leave_out(unsigned form) {
    return GetParam().memory_bytes >= 512 * kMiB &&
           !has_turn(std::hash<std::string_view>()(GetParam().name) + form, 9);
  }
  void expect_within(std::uint64_t peak_bytes) const {
    RecordProperty("peak_MiB", static_cast<int>(peak_bytes / kMiB));
    const std::uint64_t memory = GetParam().memory_bytes;
    EXPECT_LE(peak_bytes, memory + std::max(memory / 50, 4 * kMiB)) << peak_bytes / kMiB << " MiB";
    EXPECT_GT(peak_bytes, std::min(GetParam().memory_bytes, GetParam().data_bytes) / 2);
  }
  static std::uint64_t word(std::uint64_t index) {
    const std::uint64_t random = mix_bits(index + 1);
    if (GetParam().order == Setting::Order::kNone) return random;
    const std::uint64_t words = GetParam().data_bytes / sizeof(std::uint64_t);
    const std::uint64_t rising = (~std::uint64_t{0} / words / 64 * 63) * index + random / 64;
    return __builtin_bswap64(GetParam().order == Setting::Order::kDrifting ? rising : ~rising);
  }

  // By a child, whose memory is not that of the sort.
  static void make_input(const std::string& path) {
    const std::uint64_t bytes =
        GetParam().data_bytes / GetParam().record_bytes * GetParam().record_bytes;
    peak_of([&] {
      FileWriter<std::uint64_t> file(path);
      for (std::uint64_t i = 0; i < (bytes + 7) / 8; ++i) file.data()[i] = word(i);
      file.finish_bytes(bytes);
    });
  }
  static SortResources resources_in(const TemporaryFolder& folder) {
    SortResources resources;
    resources.folders = {folder.path().string()};
    resources.memory_bytes = GetParam().memory_bytes;
    resources.backend = GetParam().backend;
    resources.block_bytes = GetParam().block_bytes;
    resources.threads = GetParam().threads;
    resources.compression = GetParam().compression;
    return resources;
  }
  static std::uint64_t peak_of_sort(const TemporaryFolder& folder, const std::string& input) {
    return peak_beyond_start([&] {
      ExternalSortOptions options;
      options.inputs = {input};
      options.output = folder.file("output");
      options.format = RecordFormat(GetParam().record_bytes, {parse_record_key(GetParam().key)});
      options.resources = resources_in(folder);
      external_sort(options);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(, SortMemory, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SortMemory, OfFiles) {
  if (leave_out(0)) GTEST_SKIP() << kNotItsTurn;
  const TemporaryFolder folder;
  make_input(folder.file("input"));
  expect_within(peak_of_sort(folder, folder.file("input")));
}

TEST_P(SortMemory, OfAPipe) {
  if (leave_out(1)) GTEST_SKIP() << kNotItsTurn;
  const TemporaryFolder folder;
  const std::string input = folder.file("input");
  const std::string pipe = folder.file("pipe");
  make_input(input);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    execlp("cp", "cp", input.c_str(), pipe.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  expect_within(peak_of_sort(folder, pipe));
  int status = 0;
  waitpid(writer, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_P(SortMemory, OfPushedRecords) {
  if (leave_out(2)) GTEST_SKIP() << kNotItsTurn;
  const TemporaryFolder folder;
  expect_within(peak_beyond_start([&] {
    const std::size_t record_bytes = GetParam().record_bytes;
    RecordSorter sorter(resources_in(folder),
                        RecordFormat(record_bytes, {parse_record_key(GetParam().key)}));
    std::vector<std::byte> record(record_bytes);
    for (std::uint64_t i = 0; i < GetParam().data_bytes / record_bytes; ++i) {
      const std::uint64_t number = word(i);
      std::memcpy(record.data(), &number, sizeof number);
      sorter.push(record.data());
    }
    sorter.sort();
    for (std::uint64_t i = 1; i < sorter.size(); ++i) {
      const std::byte* const at = sorter.data() + i * record_bytes;
      if (std::memcmp(at - record_bytes, at, 8) > 0) throw std::runtime_error("not sorted");
    }
  }));
}

// Each thread reads each input and writes a part of the output.
TEST(SortMemoryOfMerges, ByManyThreads) {
  const TemporaryFolder folder;
  for (const auto& [inputs, memory, threads] :
       {std::tuple{4U, 64 * kMiB, 16U}, {40U, 64 * kMiB, 7U}, {100U, 256 * kMiB, 16U}}) {
    SCOPED_TRACE(inputs);
    const std::uint64_t each = 200 * kMiB / inputs / 8;
    ExternalSortOptions options;
    for (unsigned i = 0; i < inputs; ++i) {
      options.inputs.push_back(folder.file(std::to_string(i)));
      peak_of([&] {
        FileWriter<std::uint64_t> file(options.inputs.back());
        for (std::uint64_t j = 0; j < each; ++j) {
          file.data()[j] = __builtin_bswap64(j * ((~std::uint64_t{0} >> 8) / each) + i);
        }
        file.finish(each);
      });
    }
    options.output = folder.file("output");
    options.format = RecordFormat(8, {parse_record_key("0:8")});
    options.merge_inputs = true;
    options.resources.folders = {folder.path().string()};
    options.resources.memory_bytes = memory;
    options.resources.threads = threads;
    EXPECT_GT(plan_external_sort(options).merge_parts, 1U);
    const std::uint64_t peak = peak_beyond_start([&] { external_sort(options); });
    EXPECT_LE(peak, memory + 4 * kMiB) << peak / kMiB << " MiB";
    EXPECT_GT(peak, memory / 4);
  }
}

}  // namespace

}  // namespace vortex::test::sort_memory_test

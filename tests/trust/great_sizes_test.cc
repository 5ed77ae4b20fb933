// Great numbers and lengths: of inputs, folders, streams, records and bytes. What takes minutes
// runs with VORTEX_LONG_TESTS=1.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/lines/line_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "tests/support/temporary_folder.h"
#include "tests/trust/jobs/whole_jobs.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/line_sort.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"

namespace vortex::test::great_sizes_test { namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;
// On both sides of where numbers of 31, 32 and 40 bits end.
constexpr std::uint64_t kPlaces[] = {0,        2 * kGiB - 1, 2 * kGiB, 4 * kGiB - 1,
                                     4 * kGiB, kTiB - 1,     kTiB,     3 * kTiB + 12'345};

// Zeros, but for a one at each place; the last one is the end.
std::string make_holes(const std::string& path, std::span<const std::uint64_t> places) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (const std::uint64_t place : places) {
    EXPECT_EQ(pwrite(file, "\1", 1, static_cast<off_t>(place)), 1) << std::strerror(errno);
  }
  close(file);
  return path;
}

class GreatSizes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kShadowMemory) GTEST_SKIP() << "a sanitizer's shadow grows with every address";
  }
};

// --- Inputs and folders

struct ManyInputs {
  explicit ManyInputs(std::size_t count, bool lines) {
    auto random = test_random();
    for (std::size_t i = 0; i < count; ++i) {
      std::string bytes =
          lines ? random_lines(random() % 60, random) : random_numbers(random() % 4, random);
      all += bytes;
      bytes = lines ? sorted_lines(bytes) : sorted_numbers(bytes);  // so that they can be merged
      inputs.push_back(folder.file(std::to_string(i)));
      put_file_text(inputs.back(), bytes);
    }
    output = folder.file("out");
    expected = lines ? sorted_lines(all) : sorted_numbers(all);
  }
  template <typename Options>
  void complete(Options& options, bool merge) const {
    options.inputs = inputs;
    options.output = output;
    options.merge_inputs = merge;
    options.resources.memory_bytes = 64 << 20;
    options.resources.sync = false;
  }
  TemporaryFolder folder{fast_folder()};
  std::vector<std::string> inputs;
  std::string all, output, expected;
};

TEST_F(GreatSizes, TenThousandInputs) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < 10'100 || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    GTEST_SKIP() << "no more than " << limit.rlim_max << " files may be open";
  }
  for (const bool lines : {false, true}) {
    const ManyInputs many(10'000, lines);
    for (const bool merge : {false, true}) {
      if (lines) {
        LineSortOptions options;
        many.complete(options, merge);
        sort_lines(options);
      } else {
        ExternalSortOptions options;
        options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
        many.complete(options, merge);
        external_sort(options);
      }
      EXPECT_TRUE(file_text(many.output) == many.expected) << lines << merge;
    }
  }
}

template <typename Kind>
void sort_with_folders(unsigned folders) {
  auto random = test_random();
  Files files(folders);
  const Bytes input = Kind::make_input(false, 3, random);
  files.add_input(input);
  auto options = files.options<typename Kind::Options>();
  Kind::complete(options, random);
  options.resources.block_bytes = std::size_t{16} << 10;
  options.resources.compression = RunCompression::kNever;
  options.resources.memory_bytes = least_memory([&](std::uint64_t bytes) {
    options.resources.memory_bytes = bytes;
    Kind::plan(options);
  });
  const SortReport report = Kind::sort(options);
  EXPECT_TRUE(same_bytes(read_file(files.output()), Kind::sorted(input)));
  ASSERT_EQ(report.folder_bytes.size(), folders);
  EXPECT_EQ(std::count(report.folder_bytes.begin(), report.folder_bytes.end(), 0U), 0);
  files.expect_nothing_left(true);
}

TEST_F(GreatSizes, SixtyFourFolders) {
  sort_with_folders<FixedRecords>(64);
  sort_with_folders<TextLines>(64);
}

// --- Streams

// One in memory for each number, all read in turn.
TEST_F(GreatSizes, TenThousandStreams) {
  constexpr std::size_t kStreams = 10'000, kBlock = std::size_t{16} << 10;
  BlockPool pool(
      {.pool_bytes = kStreams * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand});
  std::vector<std::unique_ptr<InputStream<std::uint64_t>>> streams;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    const auto fill = [i](std::span<std::byte> block, std::uint64_t offset) {
      const std::uint64_t number = i * 1000 + offset / kBlock;
      std::memcpy(block.data(), &number, sizeof number);
      return block.size();
    };
    // Which cannot be moved.
    streams.emplace_back(new InputStream<std::uint64_t>(input_from_callback<std::uint64_t>(
        pool, fill, {.comeback_blocks = 0, .reserve_bytes = 4 * kBlock})));
  }
  for (std::uint64_t block = 0; block < 3; ++block) {
    for (std::uint64_t i = 0; i < kStreams; ++i) {
      ASSERT_EQ(streams[i]->data()[block * kBlock / 8], i * 1000 + block);
    }
  }
}

// A block for every 64 MiB of more than a tebibyte, from a function that counts to one that does,
// and between two threads.
TEST_F(GreatSizes, StreamsOfATebibyte) {
  constexpr std::uint64_t kBlock = std::uint64_t{64} << 20, kBlocks = kTiB / kBlock + 3;
  BlockPool pool({.pool_bytes = 4 * kBlock, .block_bytes = kBlock});
  std::uint64_t written = 0, sum = 0;
  auto in =
      input_from_callback<std::uint64_t>(pool,
                                         [](std::span<std::byte> block, std::uint64_t offset) {
                                           std::memcpy(block.data(), &offset, sizeof offset);
                                           return offset / kBlock == kBlocks ? 0 : block.size();
                                         },
                                         {.reserve_bytes = 2 * kTiB});
  auto out = output_to_callback<std::uint64_t>(
      pool,
      [&](std::span<const std::byte> block, std::uint64_t offset) {
        std::uint64_t number = 0;
        std::memcpy(&number, block.data(), sizeof number);
        sum += number == offset ? 1 : 0;
        written += block.size();
      },
      {.reserve_bytes = 2 * kTiB, .gaps = Gaps::kUnspecified});
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    out.data()[i * kBlock / 8] = in.data()[i * kBlock / 8];
  }
  out.finish(kBlocks * kBlock / 8);
  EXPECT_EQ(written, kBlocks * kBlock);
  EXPECT_EQ(sum, kBlocks);

  Pipeline<std::uint64_t> pipeline({.block_bytes = kBlock, .reserve_bytes = 2 * kTiB});
  auto reader = pipeline.reader();
  std::thread producer([writer = pipeline.writer()]() mutable {
    for (std::uint64_t i = 0; i < kBlocks; ++i) writer.data()[i * kBlock / 8] = i;
    writer.finish(kBlocks * kBlock / 8);
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    wrong += reader.data()[i * kBlock / 8] == i ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(reader.wait_size(), kBlocks * kBlock / 8);
  producer.join();
}

// --- Files

// Holes of tebibytes, through a window of some blocks.
TEST_F(GreatSizes, FilesThatAreHoles) {
  const TemporaryFolder folder(fast_folder());
  const std::string path = make_holes(folder.file("in"), kPlaces);
  const std::size_t block = std::size_t{64} << 10;
  {
    FileReader<char> any(path, {.block_bytes = block});
    FileReader<char> forward(path, {.block_bytes = block, .order = ReadOrder::kForward});
    ASSERT_EQ(any.size(), std::end(kPlaces)[-1] + 1);
    for (const std::uint64_t place : kPlaces) {
      EXPECT_EQ(forward.data()[place], 1) << place;
      EXPECT_EQ(any.data()[any.size() - 1], 1);
      EXPECT_EQ(any.data()[place], 1) << place;
    }
  }
  {
    FileArray<char> array(path, {.block_bytes = block, .reserve_bytes = 4 * kTiB});
    for (const std::uint64_t place : kPlaces) array.data()[place] = 2;
    array.flush();
  }
  const std::string copy = folder.file("out");
  {
    FileWriter<char> out(copy, {.block_bytes = block, .reserve_bytes = 4 * kTiB});
    for (const std::uint64_t place : kPlaces) out.data()[place] = 3;
    out.finish(std::end(kPlaces)[-1] + 1);
  }
  for (const auto& [name, value] : {std::pair(path, 2), std::pair(copy, 3)}) {
    const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(std::filesystem::file_size(name), std::end(kPlaces)[-1] + 1);
    for (const std::uint64_t place : kPlaces) {
      char found = 0;
      EXPECT_EQ(pread(file, &found, 1, static_cast<off_t>(place)), 1);
      EXPECT_EQ(found, value) << name << ' ' << place;
    }
    close(file);
  }
}

// A line longer than the memory is told with its place, however long it is.
TEST_F(GreatSizes, ALineOfFiveGibibytes) {
  const TemporaryFolder folder(fast_folder());
  const std::uint64_t end[] = {5 * kGiB};
  LineSortOptions options;
  options.inputs = {make_holes(folder.file("in"), end)};
  const int file = open(options.inputs[0].c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(pwrite(file, "b\n", 2, 0), 2);
  close(file);
  options.output = folder.file("out");
  options.resources.memory_bytes = 16 << 20;
  EXPECT_TRUE(fails([&] { sort_lines(options); }, EMSGSIZE, {"record 2", "offset 2"}));
}

class VeryGreatSizes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!long_tests()) GTEST_SKIP() << "takes minutes: set VORTEX_LONG_TESTS=1";
  }
  template <typename Options>
  Options options(std::uint64_t bytes) const {
    const std::uint64_t places[] = {bytes / 2, bytes - 1};
    Options options;
    options.inputs = {make_holes(folder_.file("in"), places)};
    options.output = folder_.file("out");
    options.resources.memory_bytes = 512 << 20;
    return options;
  }
  TemporaryFolder folder_;
};

// More than 2^32 records of eight bytes.
TEST_F(VeryGreatSizes, RecordsOfNumbers) {
  const std::uint64_t records = (std::uint64_t{1} << 32) + 1000;
  auto options = this->options<ExternalSortOptions>(records * 8);
  options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
  options.unique = true;
  const SortReport report = external_sort(options);
  EXPECT_EQ(report.records_in, records);
  EXPECT_EQ(report.records_out, 3U);
  EXPECT_GE(report.runs, 32U);
}

// A file of a tebibyte, of which the first records are wanted.
TEST_F(VeryGreatSizes, FileOfATebibyte) {
  auto options = this->options<ExternalSortOptions>(kTiB + 4096);
  options.format = RecordFormat(4096, {parse_record_key("4088:8:u64:desc")});
  options.resources.first_records = 3;
  const SortReport report = external_sort(options);
  EXPECT_EQ(report.input_bytes, kTiB + 4096);
  EXPECT_EQ(report.records_in, kTiB / 4096 + 1);
  const std::string out = file_text(options.output);
  ASSERT_EQ(out.size(), 3U * 4096);
  EXPECT_EQ(out[4095], 1);
  EXPECT_EQ(out[8191], 0);
}

// More than 2^32 lines: empty ones, since NUL ends them.
TEST_F(VeryGreatSizes, Lines) {
  auto options = this->options<LineSortOptions>((std::uint64_t{1} << 32) + 1000);
  options.framing = RecordFraming::delimited('\0');
  options.order.unique = true;
  const SortReport report = sort_lines(options);
  EXPECT_EQ(report.records_in, (std::uint64_t{1} << 32) + 999);  // the last byte ends none
  EXPECT_EQ(report.records_out, 2U);
  EXPECT_EQ(file_text(options.output), std::string("\0\1\0", 3));
}

}  // namespace

}  // namespace vortex::test::great_sizes_test

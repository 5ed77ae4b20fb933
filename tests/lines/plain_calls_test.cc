// The plainest calls of each public header. The reference begins each header's page with what
// stands between its name and the next comment of dashes, so there is nothing else of a test in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "vortex/array_calls.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/output_stream.h"
#include "vortex/pipeline.h"
#include "vortex/radix_sort.h"
#include "vortex/record_arrays.h"
#include "vortex/record_order.h"
#include "vortex/sort.h"
#include "vortex/sort_resources.h"
#include "vortex/sorter.h"
#include "vortex/files/timed_readers.h"
#include "vortex/vanishing_array.h"
#include "vortex/version.h"

namespace vortex::test::plain_calls_test { namespace {

struct Item {
  unsigned price;
  unsigned id;
};

constexpr std::uint64_t kSum = 999'999ull * 1'000'000 / 2;

class PlainCall : public ::testing::Test {
 protected:
  // Files are made and read in an empty folder.
  PlainCall() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    vortex::FileWriter<std::uint64_t> numbers("numbers");
    for (std::uint64_t i = 0; i < 1'000'000; ++i) numbers.data()[i] = 999'999 - i;
    numbers.finish(1'000'000);
    vortex::FileWriter<char> lines("lines");
    const std::string_view text = "pen\ncup\nbook\n";
    std::copy(text.begin(), text.end(), lines.data());
    lines.finish(text.size());
  }
  ~PlainCall() override { std::filesystem::current_path(before_); }

  TemporaryFolder folder_;
  std::filesystem::path before_;
};

TEST_F(PlainCall, OfFiles) {
  {
    // vortex/file_reader.h
    const vortex::FileReader<std::uint64_t> file("numbers");
    const std::uint64_t* begin = file.data();
    const std::uint64_t sum = std::accumulate(begin, begin + file.size(), std::uint64_t{0});
    // ----
    EXPECT_EQ(sum, kSum);
  }
  {
    // vortex/file_writer.h
    vortex::FileWriter<std::uint64_t> file("squares");
    for (std::uint64_t i = 0; i < 1'000'000; ++i) file.data()[i] = i * i;
    file.finish(1'000'000);  // the file gets its name
    // ----
    EXPECT_EQ(vortex::FileReader<std::uint64_t>("squares").data()[7], 49);
  }
  {
    // vortex/file_array.h
    vortex::FileArray<std::uint64_t> file("numbers");
    file.data()[7] += 1;
    file.flush();
    // ----
    EXPECT_EQ(vortex::FileReader<std::uint64_t>("numbers").data()[7], 999'993);
  }
  {
    // vortex/disk.h
    vortex::StripedFile striped({{"disk_a"}, {"disk_b"}}, {});  // one file on each disk
    vortex::FileWriter<std::uint64_t> writer(striped.writing_layout());
    for (std::uint64_t i = 0; i < 1'000'000; ++i) writer.data()[i] = i;
    writer.finish(1'000'000);
    const vortex::FileReader<std::uint64_t> reader(striped.reading_layout());
    // ----
    EXPECT_EQ(reader.data()[999'999], 999'999);
  }
  {
    // vortex/disk.h
    const auto disk = vortex::open_disk();  // one queue for both files
    const vortex::FileReader<std::uint64_t> numbers("numbers", {.disk = disk.get()});
    const vortex::FileReader<char> lines("lines", {.disk = disk.get()});
    // ----
    EXPECT_EQ(numbers.size() + lines.size(), 1'000'013);
  }
}

// vortex/array_calls.h
TEST_F(PlainCall, OfFunctionsThatKeepSomethingForEachThread) {
  std::vector<std::uint32_t> numbers(1'000'000, 7);
  std::vector<std::uint64_t> calls(4);
  vortex::sort(
      std::span(numbers),
      [&](std::uint32_t number) {
        ++calls[vortex::sort_thread()];
        return number;
      },
      {.threads = 4});
  // ----
  EXPECT_GE(calls[0] + calls[1] + calls[2] + calls[3], 1'000'000U);
}

TEST_F(PlainCall, OfFilesAtTheirRates) {
  // vortex/files/timed_readers.h
  const auto disk = vortex::open_disk();
  vortex::TimedReaders group({.disks = {{.disk = disk.get()}}});
  vortex::TimedReader film = group.open("lines", {.bytes_per_s = 1e6});
  std::size_t bytes = 0;
  for (auto part = film.next(); !part.empty(); part = film.next()) bytes += part.size();
  // ----
  EXPECT_EQ(bytes, std::filesystem::file_size("lines"));
}

TEST_F(PlainCall, OfStreams) {
  {
    // vortex/block_pool.h
    vortex::BlockPool pool({.pool_bytes = 64 << 20});  // all memory of its streams
    // ----
    EXPECT_EQ(pool.statistics().blocks_in_use, 0);
  }
  vortex::BlockPool pool({.pool_bytes = 64 << 20});
  {
    // vortex/input_stream.h
    auto zeros_and_ones = vortex::input_from_callback<char>(pool, [](auto block, auto offset) {
      std::ranges::fill(block, static_cast<std::byte>(offset / block.size() % 2));
      return block.size();  // fewer bytes: the end
    });
    const char one = zeros_and_ones.data()[3 << 20];
    // ----
    EXPECT_EQ(one, 1);
  }
  {
    // vortex/output_stream.h
    std::uint64_t bytes = 0;
    auto sink = vortex::output_to_callback<char>(
        pool, [&](std::span<const std::byte> block, std::uint64_t) { bytes += block.size(); });
    for (std::size_t i = 0; i < 10'000'000; ++i) sink.data()[i] = 'x';
    sink.finish(10'000'000);
    // ----
    EXPECT_EQ(bytes, 10'000'000);
  }
  {
    // vortex/input_stream.h
    const std::list<int> list{1, 4, 9};  // or a view, or what a coroutine yields
    auto array = vortex::input_from_range(pool, list);
    const int nine = array.data()[2];
    // ----
    EXPECT_EQ(nine, 9);
  }
  {
    // vortex/pipeline.h
    vortex::Pipeline<std::uint64_t> pipeline({});
    std::jthread producer([out = pipeline.writer()]() mutable {
      for (std::uint64_t i = 0; i < 1'000'000; ++i) out.data()[i] = i;
      out.finish(1'000'000);
    });
    const auto in = pipeline.reader();
    const std::uint64_t sum = std::accumulate(in.data(), in.data() + 1'000'000, std::uint64_t{0});
    // ----
    EXPECT_EQ(sum, kSum);
  }
}

TEST_F(PlainCall, OfMemoryAndItsErrors) {
  vortex::BlockPool pool({.pool_bytes = 64 << 20});
  {
    // vortex/vanishing_array.h
    vortex::StreamPool memory(pool, 8);
    vortex::VanishingArray<std::uint64_t> array(memory, 1'000'000);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) array.data()[i] = i;  // takes blocks
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < 1'000'000; ++i) sum += array.data()[i];  // gives them back
    // ----
    EXPECT_EQ(sum, kSum);
  }
  {
    // vortex/error.h
    const vortex::FileReader<std::uint64_t> file("numbers");
    std::uint64_t sum = 0;
    const vortex::Failure failure = vortex::guarded([&] {
      for (std::uint64_t i = 0; i < file.size(); ++i) sum += file.data()[i];
    });
    if (failure) std::fprintf(stderr, "%s\n", failure.message().c_str());  // a disk error, say
    // ----
    EXPECT_EQ(sum, kSum);
  }
  {
    // vortex/fault_dispatcher.h
    const auto faults = vortex::FaultDispatcher::instance().statistics();
    // ----
    EXPECT_GT(faults.served, 0);
    EXPECT_EQ(faults.failed, 0);
  }
  {
    // vortex/memory_budget.h
    const std::size_t bytes = vortex::process_memory().resident_bytes;
    // ----
    EXPECT_GT(bytes, 0);
  }
  {
    // vortex/version.h
    std::printf("compiled with %s, running with %s\n", VORTEX_VERSION_STRING, vortex::version());
    // ----
  }
}

TEST_F(PlainCall, OfErrors) {
  std::string said;
  // vortex/error.h
  try {
    const vortex::FileReader<char> file("no such file");
  } catch (const vortex::Error& error) {
    said = error.what();  // the operation, the object, and the way out
  }
  // ----
  EXPECT_NE(said.find("no such file"), std::string::npos);
}

TEST_F(PlainCall, OfSortsInMemory) {
  std::vector<Item> items{{30, 1}, {10, 2}, {20, 3}};
  std::vector<std::uint64_t> numbers{3, 1, 2};
  {
    // vortex/sort.h
    vortex::sort(numbers);
    vortex::sort(items, &Item::price);
    // ----
    EXPECT_TRUE(std::ranges::is_sorted(numbers));
    EXPECT_TRUE(std::ranges::is_sorted(items, {}, &Item::price));
  }
  std::vector<double> prices{2.5, 1.5, 3.5};
  std::vector<std::uint32_t> volumes{7, 8, 9};
  {
    // vortex/array_calls.h
    const auto order = vortex::argsort<std::uint32_t>(prices);  // prices[order[0]] is the least
    vortex::sort_by_key(prices, volumes);                       // both, by the prices
    // ----
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 0, 2}));
    EXPECT_EQ(volumes, (std::vector<std::uint32_t>{8, 7, 9}));
  }
  {
    // vortex/array_calls.h
    vortex::select(prices, prices.size() / 2);  // the median lies in the middle
    vortex::partial_sort(prices, 2);            // the first two are in order
    // ----
    EXPECT_EQ(prices[1], 2.5);
  }
  {
    // vortex/array_calls.h
    numbers.resize(vortex::sort_unique(numbers));
    // ----
    EXPECT_EQ(numbers.size(), 3);
  }
  {
    // vortex/array_calls.h
    std::vector<std::uint64_t> first{5, 1};
    std::vector<std::uint64_t> second{4, 2};
    const std::vector<std::span<std::uint64_t>> chunks{first, second};
    vortex::sort_chunks(chunks);  // one sequence, from chunk to chunk
    // ----
    EXPECT_EQ(first, (std::vector<std::uint64_t>{1, 2}));
  }
}

TEST_F(PlainCall, OfSortsOfVanishingArrays) {
  vortex::BlockPool pool({.pool_bytes = 64 << 20});
  {
    // vortex/radix_sort.h
    vortex::StreamPool memory(pool, 32);
    vortex::VanishingArray<std::uint64_t> array(memory, 1'000'000);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) array.data()[i] = 999'999 - i;
    array.resize(1'000'000);
    vortex::radix_sort(array);
    // ----
    EXPECT_EQ(array.data()[0], 0);
  }
  vortex::StreamPool memory(pool, 16);
  vortex::VanishingArray<std::uint64_t> array(memory, 1'000'000);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) array.data()[i] = i;
  array.resize(1'000'000);
  {
    // vortex/radix_sort.h
    std::array<std::unique_ptr<vortex::BucketStream>, 2> buckets;
    for (auto& bucket : buckets) bucket = std::make_unique<vortex::BucketStream>(memory);
    const auto counts =
        vortex::partition(array, std::span<const std::unique_ptr<vortex::BucketStream>>(buckets),
                          [](std::uint64_t number) { return number % 2; });
    // ----
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{500'000, 500'000}));
  }
}

TEST_F(PlainCall, OfSortsOfFiles) {
  {
    // vortex/external_sort.h
    vortex::external_sort<std::uint64_t>({.inputs = {"numbers"}, .output = "sorted"});
    // ----
    EXPECT_EQ(vortex::FileReader<std::uint64_t>("sorted").data()[7], 7);
  }
  {
    // vortex/external_sort.h
    vortex::external_partition_by<std::uint64_t>(
        {.inputs = {"numbers"}, .prefix = "digit", .parts = 10},
        [](std::uint64_t number) { return number % 10; });
    // ----
    EXPECT_EQ(vortex::FileReader<std::uint64_t>("digit.00007").data()[1] % 10, 7);
  }
  {
    vortex::FileWriter<Item> items("items");
    for (unsigned i = 0; i < 1000; ++i) items.data()[i] = {1000 - i, i};
    items.finish(1000);
    // vortex/record_order.h
    vortex::external_sort<Item>({.inputs = {"items"}, .output = "by_price"},
                                vortex::ByKey(&Item::price));
    // ----
    EXPECT_EQ(vortex::FileReader<Item>("by_price").data()[0].price, 1);
  }
  {
    std::vector<std::uint64_t> one = {1, 4, 6}, other = {2, 3, 5}, merged(6);
    // vortex/record_arrays.h
    const auto order =
        vortex::order_of_format(vortex::RecordFormat(8, {vortex::parse_record_key("0:8:u64")}));
    const std::array<vortex::MergeInput, 2> arrays = {
        {{std::as_bytes(std::span(one)).data(), one.size()},
         {std::as_bytes(std::span(other)).data(), other.size()}}};
    vortex::ArrayOutput out(std::as_writable_bytes(std::span(merged)), 8);
    vortex::merge_arrays(*order, arrays, out);
    // ----
    EXPECT_TRUE(std::is_sorted(merged.begin(), merged.end()));
  }
  {
    // vortex/record_order.h
    // Records of 8 bytes, ordered by the first byte and then by the last two.
    const vortex::RecordFormat format(8, {{0, 1, {}, false}, {6, 2, {}, false}});
    vortex::external_sort({.inputs = {"numbers"}, .output = "by_bytes", .format = format});
    // ----
    EXPECT_EQ(std::filesystem::file_size("by_bytes"), 8'000'000);
  }
}

TEST_F(PlainCall, OfWhatSortsTake) {
  {
    // vortex/sort_resources.h
    vortex::external_sort<std::uint64_t>(
        {.inputs = {"numbers"},
         .output = "sorted",
         .resources = {.memory_bytes = 64 << 20, .folders = {"."}, .threads = 2}});
    // ----
    EXPECT_EQ(vortex::FileReader<std::uint64_t>("sorted").data()[7], 7);
  }
  {
    // vortex/sorter.h
    vortex::Sorter<std::uint64_t> sorter({.memory_bytes = 64 << 20});
    for (std::uint64_t i = 0; i < 1'000'000; ++i) sorter.push(i * 7 % 1'000'000);
    sorter.sort();
    const std::uint64_t least = sorter.data()[0];
    // ----
    EXPECT_EQ(least, 0);
  }
  {
    // vortex/memory_budget.h
    const auto budget = vortex::MemoryBudget::make(128 << 20);
    vortex::Sorter<std::uint64_t> first({.memory_bytes = 64 << 20, .budget = budget});
    vortex::Sorter<std::uint64_t> second({.memory_bytes = 96 << 20, .budget = budget});
    // ----
    EXPECT_LE(budget->free_bytes(), std::uint64_t{64} << 20);
  }
}

TEST_F(PlainCall, OfSortsOfLines) {
  {
    // vortex/line_sort.h
    vortex::sort_lines({.inputs = {"lines"}, .output = "sorted"});
    // ----
    EXPECT_EQ(vortex::FileReader<char>("sorted").data()[0], 'b');
  }
  {
    // vortex/line_sort.h
    // As `sort -t, -k 2,2n` has it.
    const vortex::LineOrder order = vortex::line_order({.keys = {"2,2n"}, .separator = ','});
    vortex::sort_lines({.inputs = {"lines"}, .output = "sorted", .order = order});
    // ----
    EXPECT_EQ(std::filesystem::file_size("sorted"), 13);
  }
}

}  // namespace

}  // namespace vortex::test::plain_calls_test

// Every number that a sort takes, with the least and the largest values; and the least memory that
// an error names, which must be enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sort/plan/memory_limits.h"
#include "sort/plan/record_plan.h"
#include "tests/support/child_peak.h"
#include "tests/support/extreme_numbers.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/radix_sort.h"
#include "vortex/record_order.h"
#include "vortex/sort.h"
#include "vortex/sort_resources.h"
#include "vortex/sorter.h"
#include "vortex/vanishing_array.h"

namespace vortex::test::sort_limits_test { namespace {

using Word = std::uint64_t;
using Ends = std::vector<int>;

constexpr std::uint64_t kCount = 3000;
constexpr std::uint64_t kMemory = std::uint64_t{8} << 20;

TemporaryFolder& folder() {
  static TemporaryFolder made;
  return made;
}

Word word(std::uint64_t index) { return index * 0x9E3779B97F4A7C15; }

std::vector<Word> some_words() {
  std::vector<Word> words(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) words[i] = word(i);
  return words;
}

std::vector<Word> sorted_words() {
  std::vector<Word> words = some_words();
  std::sort(words.begin(), words.end());
  return words;
}

template <typename Options>
Options given() {
  return {};
}
template <>
SortResources given<SortResources>() {
  return {.memory_bytes = kMemory, .folders = {folder().path()}, .threads = 1};
}
template <>
SortPlanRequest given<SortPlanRequest>() {
  return {.bytes = std::uint64_t{1} << 30, .record_bytes = 16, .memory_bytes = kMemory};
}
template <>
ExternalSortOptions given<ExternalSortOptions>() {
  const std::string path = folder().file("words");
  const std::vector<Word> words = some_words();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), kCount * sizeof(Word));
  return {.inputs = {path},
          .output = folder().file("sorted words"),
          .resources = given<SortResources>()};
}
template <>
LineSortOptions given<LineSortOptions>() {
  const std::string path = folder().file("lines");
  std::ofstream out(path);
  for (std::uint64_t i = 0; i < kCount; ++i) out << word(i) << '\n';
  return {.inputs = {path},
          .output = folder().file("sorted lines"),
          .resources = given<SortResources>()};
}

// ---- The sorts, each checked against the standard library.

// What comes out of all that is expected.
template <typename Item>
std::vector<Item> wanted(std::vector<Item> expected, const SortResources& resources) {
  const std::uint64_t first = resources.first_records;
  if (first != 0) expected.resize(std::min<std::uint64_t>(expected.size(), first));
  return expected;
}

void sort_files(const ExternalSortOptions& options) {
  external_sort<Word>(options);
  const std::vector<Word> expected = wanted(sorted_words(), options.resources);
  ASSERT_EQ(std::filesystem::file_size(options.output), expected.size() * sizeof(Word));
  std::vector<Word> got(expected.size());
  std::ifstream(options.output, std::ios::binary)
      .read(reinterpret_cast<char*>(got.data()),
            static_cast<std::streamsize>(got.size() * sizeof(Word)));
  ASSERT_EQ(got, expected);
}

template <>
ExternalPartitionOptions given<ExternalPartitionOptions>() {
  return {.inputs = given<ExternalSortOptions>().inputs,
          .prefix = "part",
          .parts = 1,
          .resources = given<SortResources>()};
}
void partition_files(const ExternalPartitionOptions& options) {
  const auto report = external_partition(options, detail::order_of_type<Word>(std::less<Word>()));
  ASSERT_EQ(report.records, kCount);
}

void sort_files_with(const SortResources& resources) {
  ExternalSortOptions options = given<ExternalSortOptions>();
  options.resources = resources;
  sort_files(options);
}

void push_words(const SortResources& resources) {
  Sorter<Word> sorter(resources);
  for (const Word one : some_words()) sorter.push(one);
  sorter.sort();
  const std::vector<Word> expected = wanted(sorted_words(), resources);
  guarded([&] {
    for (std::uint64_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(sorter.data()[i], expected[i]) << i;
    }
  }).throw_if_failed();
}

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void sort_line_files(const LineSortOptions& options) {
  sort_lines(options);
  std::ifstream in(options.inputs.front());
  std::vector<std::string> expected = lines_of(in);
  const std::uint64_t head = std::min<std::uint64_t>(options.header_records, expected.size());
  std::sort(expected.begin() + static_cast<std::ptrdiff_t>(head), expected.end());
  expected = wanted(std::move(expected), options.resources);
  std::ifstream out(options.output);
  ASSERT_EQ(lines_of(out), expected);
}

void sort_line_files_with(const SortResources& resources) {
  LineSortOptions options = given<LineSortOptions>();
  options.resources = resources;
  sort_line_files(options);
}

void push_lines(const SortResources& resources) {
  LineSorter sorter({}, resources);
  for (const Word one : some_words()) sorter.push(std::to_string(one));
  std::vector<std::string> expected;
  for (const Word one : some_words()) expected.push_back(std::to_string(one));
  std::sort(expected.begin(), expected.end());
  expected = wanted(std::move(expected), resources);
  std::size_t read = 0;
  for (std::string_view line; sorter.next(line); ++read) ASSERT_EQ(line, expected.at(read));
  ASSERT_EQ(read, expected.size());
}

void use_all(const SortResources& resources) {
  sort_files_with(resources);
  push_words(resources);
  sort_line_files_with(resources);
  push_lines(resources);
}

// The resources' numbers that only count under a budget.
void use_budget(SortResources resources) {
  resources.budget = MemoryBudget::make(2 * kMemory);
  use_all(resources);
}

void plan(const SortPlanRequest& request) {
  const RecordPlan made = plan_sort(request);
  ASSERT_GE(made.pool_blocks, 1U);
  ASSERT_LE(made.memory_taken_bytes(), made.request.memory_bytes);
  ASSERT_FALSE(to_string(made).empty());
}

void plan_pushed(SortPlanRequest request) {
  request.pushed = true;
  request.bytes.reset();
  plan(request);
}

void sort_in_memory(const SortOptions& options) {
  std::vector<Word> words = some_words();
  sort(words, options);
  ASSERT_EQ(words, sorted_words());
}

template <typename Sort>
void sort_vanishing_by(const Sort& sort) {
  BlockPool pool({.pool_bytes = std::size_t{8} << 20, .block_bytes = kMinBlockBytes});
  StreamPool blocks(pool, 400);
  VanishingArray<Word> array(blocks, kCount);
  array.load(some_words());
  sort(array);
  const std::vector<Word> expected = sorted_words();
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), array.data()));
}
void sort_vanishing_through(const SortOptions& options, int first_split_bits) {
  sort_vanishing_by([&](auto& array) { radix_sort(array, options, first_split_bits); });
}
void sort_vanishing(const SortOptions& options) { sort_vanishing_through(options, 0); }
void sort_by_faults(const BucketSortOptions& options) {
  sort_vanishing_by([&](auto& array) { bucket_sort(array, options); });
}

void use_key(const RecordKey& key) { RecordFormat(16, {key}); }
void use_key_type(const KeyType& type) {
  RecordFormat(16, {{.offset = 0, .length = 4, .type = {KeyKind::kUnsigned, type.bytes}}});
}

template <>
RecordKey given<RecordKey>() {
  return {.offset = 1, .length = 4, .type = {}};
}

const Ends kServed = {0};
const Ends kInvalid = {EINVAL};

const ExtremeNumber kOptions[] = {
    FIELD(SortResources, memory_bytes, kInvalid, use_all),
    FIELD(SortResources, least_memory_bytes, kInvalid, use_all),
    FIELD(SortResources, least_memory_bytes, kInvalid, use_budget),
    FIELD(SortResources, block_bytes, kInvalid, use_all),
    FIELD(SortResources, request_cost_bytes, kServed, use_all),
    FIELD(SortResources, first_records, kServed, use_all),
    FIELD(SortResources, seed, kServed, use_all),
    FIELD(SortResources, threads, kInvalid, use_all),
    FIELD(SortPlanRequest, bytes, kInvalid, plan),
    FIELD(SortPlanRequest, record_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, forecast_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, memory_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, memory_bytes, kInvalid, plan_pushed),
    FIELD(SortPlanRequest, disks, kInvalid, plan),
    FIELD(SortPlanRequest, block_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, request_cost_bytes, kServed, plan),
    FIELD(SortPlanRequest, address_space_bytes, kServed, plan),
    FIELD(SortPlanRequest, stack_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, thread_bytes, kInvalid, plan),
    FIELD(SortPlanRequest, most_maps, kServed, plan),
    FIELD(SortPlanRequest, most_buckets, kInvalid, plan),
    FIELD(SortPlanRequest, threads, kInvalid, plan),
    FIELD(SortPlanRequest, scratch_per_record, kInvalid, plan),
    FIELD(ExternalSortOptions, most_pipe_bytes, kServed, sort_files),
    FIELD(ExternalPartitionOptions, parts, kInvalid, partition_files),
    FIELD(ExternalPartitionOptions, most_pipe_bytes, kServed, partition_files),
    FIELD(LineSortOptions, header_records, kServed, sort_line_files),
    FIELD(SortOptions, threads, kServed, sort_in_memory),
    FIELD(SortOptions, threads, kServed, sort_vanishing),
    FIELD(BucketSortOptions, bits, kInvalid, sort_by_faults),
    FIELD(RecordKey, offset, kInvalid, use_key),
    FIELD(RecordKey, length, kInvalid, use_key),
    FIELD(KeyType, bytes, kInvalid, use_key_type),
};

const ExtremeNumber kCalls[] = {
    CALL("RecordFormat::RecordFormat(record_bytes)", kInvalid, RecordFormat{n}),
    CALL("blocks_for_records(block_bytes, record_bytes)", kServed,
         ASSERT_GE(blocks_for_records(n, n), 1U)),
    CALL("parse_record_key(text)", kInvalid, parse_record_key(std::to_string(n) + "9:1")),
    CALL("ByteSorter::push(count)", kInvalid,
         {
           ByteSorter sorter(given<SortResources>(), order_of_format(RecordFormat(8)));
           const Word one = 1;
           if (n == 1 || n > kMost / 2) sorter.push(reinterpret_cast<const std::byte*>(&one), n);
         }),
    CALL("ByteSorter::push(null, count)", kInvalid,
         {
           ByteSorter sorter(given<SortResources>(), order_of_format(RecordFormat(1)));
           sorter.push(nullptr, n);
         }),
    CALL("MemoryBudget::make(bytes)", kServed,
         {
           const auto budget = MemoryBudget::make(n);
           ASSERT_EQ(budget->free_bytes(), n);
           SortResources resources = given<SortResources>();
           resources.budget = budget;
           push_words(resources);
           ASSERT_EQ(budget->free_bytes(), n);
         }),
    CALL("MemoryBudget::take(least)", Ends{ENOMEM}, MemoryBudget::make(100)->take(n, n)),
    CALL("MemoryBudget::take(most)", kServed,
         ASSERT_LE(MemoryBudget::make(100)->take(0, n).bytes(), 100U)),
    CALL("MemoryShare::grow_to(bytes)", kServed,
         {
           MemoryShare share = MemoryBudget::make(100)->take(0, 10);
           share.grow_to(n);
           ASSERT_LE(share.bytes(), 100U);
           share.shrink_to(n);
           ASSERT_LE(share.bytes(), 100U);
         }),
    CALL("RecordPlan::add_memory_for_merging(bytes)", kServed,
         {
           RecordPlan made = plan_sort(given<SortPlanRequest>());
           const std::size_t before = made.pool_blocks;
           if (n <= 1) return;
           ASSERT_FALSE(made.add_memory_for_merging(n, 2));
           ASSERT_EQ(made.pool_blocks, before);
         }),
    CALL("push_buffer_bytes(memory_bytes, record_bytes)", kServed,
         ASSERT_GE(push_buffer_bytes(n, 7), 7U);
         ASSERT_EQ(push_buffer_bytes(kMemory, n), n > kMemory ? n : (std::size_t{64} << 10) * n)),
    CALL("radix_sort(first_split_bits)", kInvalid, sort_vanishing_through({}, static_cast<int>(n))),
    CALL("sort_lines_in_memory(threads)", kServed,
         {
           std::vector<std::string_view> lines = {"b", "a"};
           ASSERT_EQ(sort_lines_in_memory(lines, {}, static_cast<unsigned>(n)), 2U);
         }),
    CALL("line_order(keys)", kServed,
         {
           if (n > 1) line_order({.keys = {std::to_string(n) + "0." + std::to_string(n) + "0"}});
         }),
};

class SortNumber : public testing::TestWithParam<ExtremeNumber> {};

TEST_P(SortNumber, IsRefusedOrServed) { try_extremes(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Options, SortNumber, testing::ValuesIn(kOptions), name_of_row);
INSTANTIATE_TEST_SUITE_P(Calls, SortNumber, testing::ValuesIn(kCalls), name_of_row);

// ---- The least memory.

template <std::size_t kBytes>
struct Wide {
  Word key;
  std::array<char, kBytes - sizeof(Word)> rest;
};

template <std::size_t kBytes>
void push_wide(const SortResources& resources) {
  using Record = Wide<kBytes>;
  const auto less = [](const Record& a, const Record& b) { return a.key < b.key; };
  Sorter<Record, decltype(less)> sorter(resources, less);
  for (std::uint64_t i = 0; i < 100; ++i) sorter.push({.key = word(i), .rest = {}});
  sorter.sort();
  guarded([&] {
    for (std::uint64_t i = 1; i < 100; ++i) {
      ASSERT_LE(sorter.data()[i - 1].key, sorter.data()[i].key);
    }
  }).throw_if_failed();
}

void merge_files(const SortResources& resources) {
  ExternalSortOptions options = given<ExternalSortOptions>();
  options.resources = given<SortResources>();
  external_sort<Word>(options);
  options.inputs.assign(5, folder().file("merged words"));
  std::filesystem::copy_file(options.output, options.inputs.front(),
                             std::filesystem::copy_options::overwrite_existing);
  options.merge_inputs = true;
  options.resources = resources;
  ASSERT_EQ(external_sort<Word>(options).records_out, 5 * kCount);
}

struct OneSort {
  const char* name;
  std::function<void(const SortResources&)> sort;
};

const OneSort kSorts[] = {
    {"external_sort", sort_files_with},
    {"merge", merge_files},
    {"Sorter", push_words},
    {"SorterOf1000Bytes", push_wide<1000>},
    {"SorterOf100000Bytes", push_wide<100'000>},
    {"sort_lines", sort_line_files_with},
    {"LineSorter", push_lines},
};

class LeastMemory : public testing::TestWithParam<std::tuple<OneSort, unsigned, std::size_t>> {};

// Asked with too little, a sort names a number; given that, it sorts.
TEST_P(LeastMemory, ThatAnErrorNamesIsEnough) {
  const OneSort& one = std::get<0>(GetParam());
  for (const std::uint64_t little :
       {std::uint64_t{1}, std::uint64_t{100'000}, std::uint64_t{240} << 10}) {
    SortResources resources = given<SortResources>();
    resources.memory_bytes = little;
    resources.threads = std::get<1>(GetParam());
    resources.block_bytes = std::get<2>(GetParam());
    SCOPED_TRACE(format_bytes(little));
    std::string message;
    const int ending = ending_of([&] { one.sort(resources); }, &message);
    if (ending == 0) continue;
    if (ending == EINVAL && message.find("hold no whole record") != std::string::npos) continue;
    ASSERT_EQ(ending, ENOMEM) << message;
    const std::uint64_t named = named_memory(message);
    ASSERT_GT(named, little) << message;
    resources.memory_bytes = named;
    std::string again;
    EXPECT_EQ(ending_of([&] { one.sort(resources); }, &again), 0) << message << "\n" << again;
  }
}

INSTANTIATE_TEST_SUITE_P(Sorts, LeastMemory,
                         testing::Combine(testing::ValuesIn(kSorts), testing::Values(1U, 2U, 7U),
                                          testing::Values(std::size_t{0}, std::size_t{16} << 10,
                                                          std::size_t{1} << 20)),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + "_" +
                                  std::to_string(std::get<1>(row.param)) + "threads_" +
                                  std::to_string(std::get<2>(row.param) >> 10) + "KiB";
                         });

// A budget that is smaller than anything gives nobody memory of its own.
TEST(LeastMemory, OfABudgetOfNothingIsNotTheDefault) {
  for (const std::uint64_t bytes : {0, 1, 3}) {
    SortResources resources = given<SortResources>();
    resources.budget = MemoryBudget::make(bytes);
    std::string message;
    EXPECT_EQ(ending_of([&] { push_words(resources); }, &message), ENOMEM) << message;
    EXPECT_EQ(ending_of([&] { push_lines(resources); }, &message), ENOMEM) << message;
  }
}

}  // namespace

}  // namespace vortex::test::sort_limits_test

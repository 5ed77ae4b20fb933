// Partitions of files against ones made a record at a time: kinds of records, splitters and
// folders at random, on all disks.
#include "vortex/external_sort.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/split/partitions.h"
#include "vortex/detail/merge/record_kernels.h"

namespace vortex::test::external_partition_test { namespace {

constexpr std::size_t kParts[] = {1, 2, 7, 256};

template <typename Random>
PartitionCase random_case(Random& random, std::size_t most_bytes = 400000) {
  const std::size_t bytes = random_record_bytes(random);
  const Shape shape = kShapes[random() % std::size(kShapes)];
  std::vector<RecordList> lists(1 + random() % 3);
  for (RecordList& list : lists) {
    list = make_records(shape, bytes, random_count(bytes, most_bytes, random), random);
  }
  PartitionCase made(random_format(bytes, random), lists, random() % 4);
  made.options.resources.seed = random();
  if (random() % 2 == 0) made.options.resources.block_bytes = std::size_t{16} << 10;
  return made;
}

class PartitionOnDisks : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(, PartitionOnDisks, ::testing::ValuesIn(kAllBackends),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(PartitionOnDisks, AsByGivenSplitters) {
  auto random = test_random();
  for (int round = 0; round < 25; ++round) {
    PartitionCase made = random_case(random);
    const std::size_t parts = kParts[random() % std::size(kParts)];
    const std::size_t bytes = made.order().record_bytes();
    RecordList splitters{bytes, {}};
    while (splitters.count() + 1 < parts) {
      const RecordList one = make_records(Shape::kRandom, bytes, 1, random);
      const bool own = made.all().count() != 0 && random() % 4 != 0;
      const std::byte* const record =
          own ? made.all().at(random() % made.all().count()) : one.at(0);
      splitters.bytes.insert(splitters.bytes.end(), record, record + bytes);
    }
    splitters = stably_sorted(made.order(), splitters);
    made.options.splitters = splitters.bytes;
    if (parts == 1) made.options.parts = 1;
    made.options.resources.open_disk = sort_disks(GetParam(), harmless_faults(random));
    const auto report = external_partition(made.options);
    const std::vector<Bytes> expected = divided(made.order(), made.all(), splitters);
    const std::vector<Bytes> found = made.parts_of(report);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(same_bytes(found[i], expected[i])) << "part " << i << " of " << found.size();
    }
  }
}

TEST_P(PartitionOnDisks, BySampledSplittersIntoRanges) {
  auto random = test_random(1);
  for (int round = 0; round < 15; ++round) {
    PartitionCase made = random_case(random);
    made.options.parts = kParts[random() % std::size(kParts)];
    made.options.divide_equal_keys = random() % 2 == 0;
    made.options.resources.open_disk = sort_disks(GetParam());
    const auto report = external_partition(made.options);
    const std::vector<Bytes> parts = made.parts_of(report);
    ASSERT_EQ(parts.size(), made.options.parts);
    expect_ranges(made, parts);
    if (made.options.divide_equal_keys) continue;
    // No key is in two parts.
    const std::size_t bytes = made.order().record_bytes();
    RecordList last{bytes, {}};
    for (const Bytes& part : parts) {
      if (part.empty()) continue;
      const RecordList sorted = stably_sorted(made.order(), {bytes, part});
      ASSERT_TRUE(last.bytes.empty() || made.order().less(last.at(0), sorted.at(0)));
      last.bytes.assign(sorted.at(sorted.count() - 1), sorted.at(sorted.count() - 1) + bytes);
    }
  }
}

PartitionCase numbers(std::size_t count, const std::function<std::uint64_t(std::size_t)>& value,
                      unsigned folders = 1) {
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value(i);
  return {RecordFormat(8, {parse_record_key("0:8:u64")}), {{8, bytes_of(all)}}, folders};
}

TEST(ExternalPartition, PartsOfASampleAreAboutEqual) {
  std::mt19937_64 random;  // always the same: one sample of 30,000 is not about equal
  for (const bool sorted : {false, true}) {
    constexpr std::size_t kCount = 500000;
    PartitionCase made = numbers(kCount, [&](std::size_t i) { return sorted ? i : random(); });
    made.options.parts = 50;
    const auto report = external_partition(made.options);
    made.parts_of(report);
    EXPECT_LT(report.sampled_records, kCount / 10);
    for (const PartReport& part : report.parts) {
      EXPECT_GT(part.records, kCount / 50 * 2 / 3) << "sorted: " << sorted;
      EXPECT_LT(part.records, kCount / 50 * 4 / 3) << "sorted: " << sorted;
    }
  }
}

TEST(ExternalPartition, AllRecordsOfLittleInputAreTheSample) {
  PartitionCase made = numbers(1000, [](std::size_t i) { return i * 7919 % 1000; });
  made.options.parts = 10;
  const auto report = external_partition(made.options);
  EXPECT_EQ(report.sampled_records, 1000U);
  for (const PartReport& part : report.parts) EXPECT_EQ(part.records, 100U);
}

TEST(ExternalPartition, AHotKeyIsInOnePartOrDivided) {
  auto random = test_random();
  constexpr std::size_t kCount = 300000;
  std::size_t hot = 0;
  PartitionCase made = numbers(kCount, [&](std::size_t) {
    if (random() % 2 != 0) return random() % 2000000;
    ++hot;
    return std::uint64_t{1000000};
  });
  made.options.parts = 16;
  const auto most = [&] {
    const auto report = external_partition(made.options);
    expect_ranges(made, made.parts_of(report));
    return std::max_element(
               report.parts.begin(), report.parts.end(),
               [](const PartReport& a, const PartReport& b) { return a.records < b.records; })
        ->records;
  };
  EXPECT_GE(most(), hot);
  made.options.divide_equal_keys = true;
  EXPECT_LT(most(), kCount / 16 * 3 / 2);
}

TEST(ExternalPartition, MorePartsThanRecordsAndNone) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5}}) {
    PartitionCase made = numbers(count, [](std::size_t i) { return 9 - i; });
    made.options.parts = 256;
    const auto report = external_partition(made.options);
    expect_ranges(made, made.parts_of(report));
    EXPECT_EQ(report.parts.size(), 256U);
    for (const PartReport& part : report.parts) EXPECT_LE(part.records, 1U);
  }
}

TEST(ExternalPartition, NeighbouringPartsLieInNeighbouringFolders) {
  auto random = test_random();
  PartitionCase made = numbers(
      1000, [&](std::size_t) { return random(); }, 3);
  made.options.parts = 7;
  std::vector<std::string> firsts;
  for (made.options.resources.seed = 0; made.options.resources.seed < 20;
       ++made.options.resources.seed) {
    const auto report = external_partition(made.options);
    const auto& folders = made.options.resources.folders;
    const auto folder_of_part = [&](std::size_t part) {
      const std::string folder =
          report.parts[part].path.substr(0, report.parts[part].path.rfind('/'));
      return static_cast<std::size_t>(std::find(folders.begin(), folders.end(), folder) -
                                      folders.begin());
    };
    for (std::size_t i = 1; i < 7; ++i) {
      EXPECT_EQ(folder_of_part(i), (folder_of_part(0) + i) % 3);
      EXPECT_NE(report.parts[i].path.find("part.0000" + std::to_string(i)), std::string::npos);
    }
    firsts.push_back(folders[folder_of_part(0)]);
  }
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(std::unique(firsts.begin(), firsts.end()) - firsts.begin(), 3) << "of 20 seeds";
}

TEST(ExternalPartition, ByAFunctionThatIsAskedOnceForEachRecord) {
  PartitionCase made = numbers(100000, [](std::size_t i) { return i; });
  made.options.format.reset();
  made.options.parts = 5;
  std::uint64_t next = 0;
  const auto report =
      external_partition_by<std::uint64_t>(made.options, [&next](const std::uint64_t& number) {
        EXPECT_EQ(number, next++);
        return number * number % 5;
      });
  EXPECT_EQ(next, 100000U);
  std::vector<std::vector<std::uint64_t>> expected(5);
  for (std::uint64_t i = 0; i < 100000; ++i) expected[i * i % 5].push_back(i);
  const std::vector<Bytes> parts = made.parts_of(report);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(same_bytes(parts[i], bytes_of(expected[i])));

  const auto wrong = [&](std::int64_t part) {
    return fails(
        [&] {
          external_partition_by<std::uint64_t>(made.options, [=](const std::uint64_t& number) {
            return number == 50001 ? part : 0;
          });
        },
        EINVAL, {"offset 400008 of", "belongs to none of the 5 parts"});
  };
  EXPECT_TRUE(wrong(5));
  EXPECT_TRUE(wrong(-1));
}

TEST(ExternalPartition, ByAComparator) {
  auto random = test_random();
  PartitionCase made = numbers(50000, [&](std::size_t) { return random() % 1000; });
  made.options.format.reset();
  made.options.parts = 9;
  const auto greater = [](const std::uint64_t& a, const std::uint64_t& b) { return a > b; };
  const auto report =
      external_partition(made.options, detail::order_of_type<std::uint64_t>(greater));
  std::uint64_t least = 1000;
  for (const Bytes& part : made.parts_of(report)) {
    std::uint64_t lowest = least;
    for (std::size_t i = 0; i < part.size(); i += 8) {
      std::uint64_t number = 0;
      std::memcpy(&number, part.data() + i, 8);
      EXPECT_LT(number, least);
      lowest = std::min(lowest, number);
    }
    least = lowest;
  }
}

TEST(ExternalPartition, OfAPipeByGivenSplittersOnly) {
  PartitionCase made = numbers(200000, [](std::size_t i) { return i * 7919 % 200000; });
  const std::string file = made.options.inputs[0];
  const std::string pipe = file + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    const Bytes bytes = read_file(file);
    std::ofstream(pipe, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
  made.options.inputs = {pipe};
  const std::vector<std::uint64_t> at = {50000, 50001, 199000};
  made.options.splitters = bytes_of(at);
  const auto report = external_partition(made.options);
  writer.join();
  const std::vector<Bytes> expected =
      divided(made.order(), made.all(), {8, made.options.splitters});
  EXPECT_EQ(made.parts_of(report), expected);

  made.options.inputs = {"/dev/zero"};
  made.options.splitters.clear();
  made.options.parts = 3;
  EXPECT_TRUE(fails([&] { external_partition(made.options); }, EINVAL, "is no file"));
}

TEST(ExternalPartition, TheReportCountsWhatDisksMoved) {
  auto random = test_random();
  PartitionCase made = numbers(
      1 << 20, [&](std::size_t) { return random(); }, 2);
  made.options.parts = 8;
  const auto report = external_partition(made.options);
  EXPECT_GE(report.read_bytes, report.bytes);
  EXPECT_LT(report.read_bytes, report.bytes + (64 << 10) * 600);
  EXPECT_GE(report.written_bytes, report.bytes);
  EXPECT_LE(report.written_bytes, report.bytes + 8 * report.block_bytes);
  EXPECT_GE(report.faults, report.bytes / report.block_bytes);
  EXPECT_GT(report.seconds, 0);
}

}  // namespace

}  // namespace vortex::test::external_partition_test

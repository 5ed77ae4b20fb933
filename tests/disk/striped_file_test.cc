// Striped files: every strategy, unequal disks, full disks, failing disks; and which disk holds
// which block.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "io/disk/thread_disk.h"
#include "io/file/block_file.h"
#include "io/sequence/block_allocation.h"
#include "study/faulty_disk.h"
#include "study/simulated_disk.h"
#include "tests/disk/test_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/random_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex::striped_file_test { namespace {

using test::random_text;

constexpr AllocationStrategy kAll[] = {
    AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
    AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom};

std::vector<unsigned> disks_of(const BlockAllocation& allocation, unsigned blocks) {
  std::vector<unsigned> disks;
  for (unsigned block = 0; block < blocks; ++block) disks.push_back(allocation.disk(block));
  return disks;
}

TEST(BlockAllocation, StripingIsTheRoundRobin) {
  const BlockAllocation allocation(AllocationStrategy::kStriping, {1, 1, 1}, 7, 5);
  EXPECT_EQ(disks_of(allocation, 7), (std::vector<unsigned>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(BlockAllocation, RoundRobinsPutConsecutiveBlocksOnDifferentDisks) {
  for (const AllocationStrategy strategy :
       {AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
        AllocationStrategy::kRandomCyclic}) {
    for (unsigned disks = 1; disks <= 9; ++disks) {
      for (unsigned sequence = 0; sequence < 20; ++sequence) {
        const BlockAllocation allocation(strategy, std::vector<double>(disks, 3.5), 1, sequence);
        for (unsigned first = 0; first < 3 * disks; ++first) {
          std::set<unsigned> seen;
          for (unsigned i = 0; i < disks; ++i) seen.insert(allocation.disk(first + i));
          EXPECT_EQ(seen.size(), disks) << allocation_strategy_name(strategy);
        }
      }
    }
  }
}

TEST(BlockAllocation, SimpleRandomizedKeepsTheOrderOfTheDisks) {
  for (unsigned sequence = 0; sequence < 50; ++sequence) {
    const BlockAllocation allocation(AllocationStrategy::kSimpleRandomized, {1, 1, 1, 1}, 3,
                                     sequence);
    for (unsigned block = 0; block < 10; ++block) {
      EXPECT_EQ(allocation.disk(block + 1), (allocation.disk(block) + 1) % 4);
    }
  }
}

// How often each outcome of a random choice comes up in `counts` must be within five standard
// deviations of the mean.
void expect_uniform(const std::vector<unsigned>& counts) {
  double total = 0;
  for (const unsigned count : counts) total += count;
  const double share = 1.0 / static_cast<double>(counts.size());
  const double deviation = std::sqrt(total * share * (1 - share));
  for (const unsigned count : counts) EXPECT_NEAR(count, total * share, 5 * deviation);
}

TEST(BlockAllocation, RandomChoicesAreUniformOverTheSequences) {
  constexpr unsigned kSequences = 24000;
  std::vector<unsigned> first_disks(4), permutations(24), blocks(4);
  for (unsigned sequence = 0; sequence < kSequences; ++sequence) {
    const std::vector<double> weights(4, 1.0);
    first_disks[BlockAllocation(AllocationStrategy::kSimpleRandomized, weights, 1, sequence)
                    .disk(0)]++;
    blocks[BlockAllocation(AllocationStrategy::kFullyRandom, weights, 1, sequence).disk(17)]++;
    auto cycle =
        disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 1, sequence), 4);
    unsigned rank = 0;
    while (std::prev_permutation(cycle.begin(), cycle.end())) ++rank;
    permutations[rank]++;
  }
  expect_uniform(first_disks);
  expect_uniform(permutations);
  expect_uniform(blocks);
}

TEST(BlockAllocation, FullyRandomIsUniformOverTheBlocksOfASequence) {
  const BlockAllocation allocation(AllocationStrategy::kFullyRandom, {1, 1, 1, 1, 1}, 9, 2);
  std::vector<unsigned> counts(5), pairs(25);
  for (unsigned block = 0; block < 50000; ++block) {
    counts[allocation.disk(block)]++;
    pairs[allocation.disk(block) * 5 + allocation.disk(block + 1)]++;
  }
  expect_uniform(counts);
  expect_uniform(pairs);
}

TEST(BlockAllocation, SharesFollowTheWeights) {
  const std::vector<double> weights = {200, 50, 0, 100, 200};
  for (const AllocationStrategy strategy : kAll) {
    const BlockAllocation allocation(strategy, weights, 4, 11);
    std::vector<double> counts(weights.size());
    constexpr unsigned kBlocks = 110000;
    for (unsigned block = 0; block < kBlocks; ++block) counts[allocation.disk(block)]++;
    for (std::size_t disk = 0; disk < weights.size(); ++disk) {
      EXPECT_NEAR(counts[disk], kBlocks * weights[disk] / 550, 0.01 * kBlocks)
          << allocation_strategy_name(strategy) << " disk " << disk;
    }
    EXPECT_EQ(counts[2], 0);
  }
}

TEST(BlockAllocation, TheSlowestDiskIsNotForgotten) {
  for (const double slow : {0.01, 1e-9}) {
    const BlockAllocation allocation(AllocationStrategy::kStriping, {1, slow, 0}, 1, 0);
    const std::vector<unsigned> disks =
        disks_of(allocation, static_cast<unsigned>(allocation.period()));
    EXPECT_EQ(std::count(disks.begin(), disks.end(), 1U), 1);
    EXPECT_EQ(std::count(disks.begin(), disks.end(), 2U), 0);
  }
}

TEST(BlockAllocation, UnequalSharesAreSpreadEvenly) {
  // A disk four times slower has one slot in thirteen, and every window of thirteen shows it.
  const BlockAllocation allocation(AllocationStrategy::kStriping, {4, 4, 4, 1}, 1, 1);
  EXPECT_EQ(allocation.period(), 13U);
  for (unsigned first = 0; first < 26; ++first) {
    unsigned slow = 0, consecutive = 0, longest = 0, before = 99;
    for (unsigned block = first; block < first + 13; ++block) {
      const unsigned disk = allocation.disk(block);
      slow += disk == 3;
      consecutive = disk == before ? consecutive + 1 : 1;
      longest = std::max(longest, consecutive);
      before = disk;
    }
    EXPECT_EQ(slow, 1U);
    EXPECT_EQ(longest, 1U);
  }
}

TEST(BlockAllocation, OneSeedOneAllocation) {
  for (const AllocationStrategy strategy : kAll) {
    const std::vector<double> weights = {1, 2, 3};
    EXPECT_EQ(disks_of(BlockAllocation(strategy, weights, 5, 6), 100),
              disks_of(BlockAllocation(strategy, weights, 5, 6), 100));
  }
  const std::vector<double> weights(8, 1.0);
  EXPECT_NE(disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 6), 8),
            disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 7), 8));
  // The numbers are part of what is on disk: pinned, so that no change of the code moves a block.
  EXPECT_EQ(disks_of(BlockAllocation(AllocationStrategy::kFullyRandom, weights, 5, 6), 8),
            (std::vector<unsigned>{2, 2, 0, 6, 7, 2, 6, 7}));
  EXPECT_EQ(disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 6), 8),
            (std::vector<unsigned>{2, 1, 0, 7, 5, 4, 3, 6}));
}

TEST(BlockAllocation, NamesGoBothWays) {
  for (const AllocationStrategy strategy : kAll) {
    EXPECT_EQ(parse_allocation_strategy(allocation_strategy_name(strategy)), strategy);
  }
  EXPECT_TRUE(test::fails([] { parse_allocation_strategy("raid5"); }, EINVAL, "random_cyclic"));
}

TEST(BlockAllocation, RefusesWeightsThatLeaveNoDisk) {
  for (const AllocationStrategy strategy : kAll) {
    EXPECT_THROW(BlockAllocation(strategy, {}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {0, 0}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {1, -1}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {1, std::nan("")}, 1, 1), Error);
  }
}

constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr std::size_t kUnit = 4 * kBlock;

void write_text(FileWriter<char>& out, const std::string& text) {
  for (std::size_t at = 0; at < text.size(); at += 512) {
    std::memcpy(out.data() + at, text.data() + at, std::min<std::size_t>(512, text.size() - at));
  }
  out.finish(text.size());
}

class StripedFiles : public testing::TestWithParam<AllocationStrategy> {
 protected:
  StripedFileOptions options(std::vector<double> weights = {}) {
    StripedFileOptions result;
    result.strategy = GetParam();
    result.seed = random();
    result.unit_bytes = kUnit;
    result.weights = std::move(weights);
    return result;
  }
  std::string path(std::size_t part) const { return folder.file("part" + std::to_string(part)); }
  std::vector<StripedFile::Part> parts(const std::vector<std::unique_ptr<Disk>>& disks) const {
    std::vector<StripedFile::Part> result;
    for (std::size_t i = 0; i < disks.size(); ++i) result.push_back({path(i), disks[i].get()});
    return result;
  }
  static std::vector<std::unique_ptr<Disk>> thread_disks(std::size_t count) {
    std::vector<std::unique_ptr<Disk>> disks;
    for (std::size_t i = 0; i < count; ++i) disks.push_back(std::make_unique<ThreadDisk>());
    return disks;
  }
  void expect_text(StripedFile& file, const std::string& text) {
    const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
    ASSERT_EQ(in.size(), text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(in.data()[i], text[i]) << i;
    EXPECT_EQ(in.data()[text.size()], 0);
  }
  // The writer finds no place for so many bytes, and nothing of them stays.
  void expect_too_much(StripedFile& file, std::size_t bytes) {
    {
      FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
      const Failure failure = guarded([&] {
        for (std::size_t i = 0; i < bytes; ++i) out.data()[i] = 'x';
      });
      EXPECT_EQ(failure.error, ENOSPC) << failure.message();
    }
    EXPECT_EQ(folder.entries(), 0u);
  }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder;
};

TEST_P(StripedFiles, AreReadAsWritten) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kBlock, kUnit - 1, kUnit, 40 * kUnit, 37 * kUnit + 12345}) {
    SCOPED_TRACE(size);
    const auto disks = thread_disks(3);
    const std::string text = random_text(random, size);
    const StripedFileOptions settings = options();
    {
      StripedFile file(parts(disks), settings);
      {
        FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
        write_text(out, text);
      }
      EXPECT_EQ(file.length(), size);
      expect_text(file, text);
    }
    // And by whoever knows the options.
    StripedFile file(parts(disks), settings, size);
    expect_text(file, text);
    if (size > 0) {
      EXPECT_THROW(StripedFile(parts(disks), settings, size - 1), Error);
    }
  }
}

TEST_P(StripedFiles, WeightsDecideTheShares) {
  const auto disks = thread_disks(4);
  StripedFile file(parts(disks), options({4, 4, 4, 1}));
  {
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kUnit});
    write_text(out, random_text(random, 260 * kUnit));
  }
  const double tolerance = GetParam() == AllocationStrategy::kFullyRandom ? 30 : 4;
  for (std::size_t part = 0; part < 3; ++part) {
    EXPECT_NEAR(static_cast<double>(file.units_of(part)), 80, tolerance);
  }
  EXPECT_NEAR(static_cast<double>(file.units_of(3)), 20, tolerance / 2);
}

TEST_P(StripedFiles, AFullDiskIsLeftOut) {
  const std::string text = random_text(random, 50 * kUnit + 999);
  for (const std::uint64_t k : {0, 1, 5}) {
    const int error = k == 1 ? EDQUOT : ENOSPC;
    std::vector<std::unique_ptr<Disk>> disks = thread_disks(3);
    const auto full = test::error_at(k, error, Operation::kWrite, true);
    disks[1] = with_faults(std::make_unique<ThreadDisk>(), full);
    StripedFile file(parts(disks), options());
    {
      FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
      write_text(out, text);
    }
    EXPECT_TRUE(file.left_out(1));
    EXPECT_FALSE(file.left_out(0) || file.left_out(2));
    expect_text(file, text);
    if (GetParam() != AllocationStrategy::kStriping || k != 0) continue;
    // The third that it would have got is scattered over both others.
    EXPECT_GT(file.units_of(0), 19u);
    EXPECT_GT(file.units_of(2), 19u);
  }
}

// One without a weight gets what nobody else can take.
TEST_P(StripedFiles, ADiskOfNoWeightIsTheLastResort) {
  const std::string text = random_text(random, 20 * kUnit);
  std::vector<std::unique_ptr<Disk>> disks = thread_disks(2);
  disks[0] = with_faults(std::make_unique<ThreadDisk>(),
                         test::error_at(3, ENOSPC, Operation::kWrite, true));
  StripedFile file(parts(disks), options({1, 0}));
  {
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    write_text(out, text);
  }
  EXPECT_TRUE(file.left_out(0));
  EXPECT_GE(file.units_of(1), 17u);
  expect_text(file, text);
}

TEST_P(StripedFiles, MoreThanTheMostIsRefused) {
  const auto disks = thread_disks(3);
  StripedFileOptions settings = options();
  for (const std::size_t most : {5 * kUnit, 5 * kUnit + 1}) {
    settings.most_bytes = most;
    StripedFile file(parts(disks), settings);
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    write_text(out, std::string(most, 'x'));
    EXPECT_EQ(file.length(), most);
  }
  for (std::size_t part = 0; part < 3; ++part) std::filesystem::remove(path(part));
  settings.most_bytes = 5 * kUnit;
  StripedFile file(parts(disks), settings);
  expect_too_much(file, 40 * kUnit);
}

TEST_P(StripedFiles, WhenAllDisksAreFullNothingAppears) {
  const auto full = test::error_at(7, ENOSPC, Operation::kWrite, true);
  std::vector<std::unique_ptr<Disk>> disks;
  for (int i = 0; i < 3; ++i) disks.push_back(with_faults(std::make_unique<ThreadDisk>(), full));
  StripedFile file(parts(disks), options());
  expect_too_much(file, 80 * kUnit);
}

// An error before the first rename leaves all names as they were; a rename that fails leaves the
// names that come after it as they were, and the error says so.
TEST_P(StripedFiles, PartsAppearTogetherAsFarAsTheyCan) {
  const auto put_old = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      std::filesystem::remove_all(path(i));
      std::ofstream(path(i)) << "old";
    }
  };
  const auto is_old = [&](std::size_t i) {
    return std::filesystem::is_regular_file(path(i)) && std::filesystem::file_size(path(i)) == 3;
  };
  const auto disks = thread_disks(3);
  for (std::size_t taken = 0; taken < 3; ++taken) {
    SCOPED_TRACE(taken);
    put_old();
    StripedFile file(parts(disks), options());
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    for (std::size_t i = 0; i < 40 * kUnit; i += 4096) out.data()[i] = 'x';
    std::filesystem::remove(path(taken));
    std::filesystem::create_directory(path(taken));
    std::string message;
    EXPECT_EQ(test::error_of([&] { out.finish(40 * kUnit); }, &message), EISDIR);
    const std::string told = "the first " + std::to_string(taken) + " of 3 parts are in place";
    EXPECT_EQ(message.find(told) != std::string::npos, taken > 0) << message;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(is_old(i), i > taken) << i;
    }
    EXPECT_TRUE(std::filesystem::is_directory(path(taken)));
  }
  // No temporary name is to be had: nothing has changed.
  put_old();
  test::expect_in_child([&] {
    const auto own = thread_disks(3);
    StripedFile file(parts(own), options());
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    out.data()[0] = 'x';
    if (!test::refuse_call(SYS_linkat, ENOSPC)) return 77;
    return test::error_of([&] { out.finish(40 * kUnit); }) == ENOSPC ? 0 : 1;
  });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(is_old(i)) << i;
  std::filesystem::remove_all(path(2));
  EXPECT_EQ(folder.entries(), 2u);
}

// Each part gets what it needs to appear before the first one does.
TEST_P(StripedFiles, WhatTheLastPartLacksStopsTheFirst) {
  const std::string gone = folder.file("gone");
  std::filesystem::create_directory(gone);
  const auto disks = thread_disks(3);
  auto three = parts(disks);
  three[2].path = gone + "/part";
  for (const auto& part : three) std::ofstream(part.path) << "old";
  {
    StripedFile file(three, options());
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    out.data()[0] = 'x';
    std::filesystem::remove_all(gone);
    std::string message;
    EXPECT_EQ(test::error_of([&] { out.finish(1); }, &message), ENOENT);
    EXPECT_EQ(message.find("in place"), std::string::npos) << message;
  }
  EXPECT_EQ(std::filesystem::file_size(path(0)), 3u);
  EXPECT_EQ(std::filesystem::file_size(path(1)), 3u);
  EXPECT_EQ(folder.entries(), 2u);
}

TEST_P(StripedFiles, AFailingDiskFailsTheReader) {
  auto disks = thread_disks(3);
  // So many that every disk gets more than the four requests of which the last fails.
  const std::string text = random_text(random, 90 * kUnit);
  const StripedFileOptions settings = options();
  {
    StripedFile file(parts(disks), settings);
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    write_text(out, text);
  }
  disks[2] = with_faults(std::make_unique<ThreadDisk>(), test::error_at(3, EIO));
  StripedFile file(parts(disks), settings, text.size());
  const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
  bool right = true;
  std::size_t i = 0;
  const Failure failure = guarded([&] {
    for (; i < text.size(); ++i) right = right && in.data()[i] == text[i];
  });
  EXPECT_TRUE(right);
  EXPECT_TRUE(test::fails(failure, EIO, "reading '" + path(2) + "' at byte "));
}

TEST_P(StripedFiles, APartThatIsCutIsNamedWithItsEnd) {
  const auto disks = thread_disks(3);
  const std::string text = random_text(random, 60 * kUnit);
  const StripedFileOptions settings = options();
  {
    StripedFile file(parts(disks), settings);
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    write_text(out, text);
  }
  StripedFile file(parts(disks), settings, text.size());
  const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
  const std::uint64_t before = std::filesystem::file_size(path(1));
  ASSERT_EQ(truncate(path(1).c_str(), static_cast<off_t>(before - kBlock - 1)), 0);
  const Failure failure = guarded([&] {
    for (std::size_t i = 0; i < text.size(); i += 512)
      static_cast<void>(*const_cast<const volatile char*>(in.data() + i));
  });
  EXPECT_EQ(failure.error, ENODATA);
  const std::string told = "'" + path(1) + "' ends at byte " + std::to_string(before - kBlock - 1) +
                           " and was " + std::to_string(before) + " long";
  EXPECT_TRUE(test::contains(failure.message(), told));
}

// Exact, on virtual time: D disks are D times as fast as one, and unequal ones give their sum, when
// they are weighted by speed and enough is read ahead.
TEST_P(StripedFiles, DisksWorkAtTheSumOfTheirSpeeds) {
  if (GetParam() == AllocationStrategy::kFullyRandom) {
    GTEST_SKIP() << "runs of blocks on one disk need more buffers than this test has";
  }
  for (const double slow : {1.0, 4.0}) {
    VirtualClock clock;
    const ServiceModel model{200'000'000, 200'000'000, 0};
    ServiceModel slower = model;
    slower.read_bytes_per_s = slower.write_bytes_per_s =
        static_cast<std::uint64_t>(200'000'000 / slow);
    std::vector<std::unique_ptr<Disk>> disks;
    for (int i = 0; i < 3; ++i) disks.push_back(std::make_unique<SimulatedDisk>(clock, model));
    disks.push_back(std::make_unique<SimulatedDisk>(clock, slower));
    const std::size_t size = 1040 * kUnit;
    StripedFile file(parts(disks), options({1, 1, 1, 1 / slow}));
    std::uint64_t begin = clock.now_ns();
    {
      FileWriter<char> out(file.writing_layout(), {.block_bytes = kUnit, .write_behind = 30});
      for (std::size_t i = 0; i < size; i += 4096) out.data()[i] = 'x';
      out.finish(size);
    }
    const double ideal = static_cast<double>(size) / (600'000'000 + 200'000'000 / slow);
    EXPECT_LT(ideal / (static_cast<double>(clock.now_ns() - begin) * 1e-9), 1.0001);
    EXPECT_GT(ideal / (static_cast<double>(clock.now_ns() - begin) * 1e-9), 0.97);
    begin = clock.now_ns();
    {
      const FileReader<char> in(file.reading_layout(), {.block_bytes = kUnit, .read_ahead = 30});
      std::size_t count = 0;
      for (std::size_t i = 0; i < size; i += 4096) count += in.data()[i] == 'x';
      EXPECT_EQ(count, size / 4096);
    }
    EXPECT_GT(ideal / (static_cast<double>(clock.now_ns() - begin) * 1e-9), 0.97);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, StripedFiles,
    testing::Values(AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
                    AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom),
    [](const auto& strategy) { return std::string(allocation_strategy_name(strategy.param)); });

TEST(StripeWeights, FollowSpeedAndSpace) {
  using Weights = std::vector<double>;
  EXPECT_EQ(stripe_weights({4, 1}, {100, 100}, 0), (Weights{4, 1}));
  EXPECT_EQ(stripe_weights({4, 1}, {100, 0}, 0), (Weights{4, 0}));
  EXPECT_EQ(stripe_weights({4, 1}, {100, 100}, 50), (Weights{40, 10}));
  EXPECT_EQ(stripe_weights({4, 1}, {30, 100}, 50), (Weights{30, 20}));
  // One that overflows makes another overflow.
  EXPECT_EQ(stripe_weights({4, 2, 2}, {10, 20, 100}, 100), (Weights{10, 20, 70}));
  EXPECT_EQ(stripe_weights({1, 1}, {30, 70}, 100), (Weights{30, 70}));
  EXPECT_THROW(stripe_weights({1, 1}, {30, 60}, 100), Error);
}

TEST(StripedFile, RefusesWhatCannotWork) {
  EXPECT_THROW(StripedFile({}, {}), Error);
  const test::TemporaryFolder folder;
  ThreadDisk disk;
  StripedFileOptions options;
  options.weights = {1, 1};
  EXPECT_THROW(StripedFile({{folder.file("a"), &disk}}, options), Error);

  const auto refused = [&](const std::string& part, std::size_t unit_bytes) {
    StripedFileOptions striping;
    striping.unit_bytes = unit_bytes;
    const int error = test::error_of([&] {
      StripedFile file({{part, &disk}}, striping);
      // A unit of more blocks than a request holds.
      const FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    });
    EXPECT_TRUE(error == 0 || error == EINVAL) << error;
    return error != 0;
  };
  EXPECT_FALSE(refused(folder.file("a"), kMaxPieces * kBlock));
  EXPECT_TRUE(refused(folder.file("a"), (kMaxPieces + 1) * kBlock));
  EXPECT_TRUE(refused(folder.file("a"), 0));
  EXPECT_TRUE(refused("/dev/null", kUnit));
  const std::size_t alignment = BlockFile::create(folder.file("a")).alignment();
  if (alignment > 1) {
    EXPECT_TRUE(refused(folder.file("a"), kUnit + alignment / 2));
  }
}

// A part without a disk opens one, and existing files may be kept.
TEST(StripedFile, OpensItsOwnDisks) {
  const test::TemporaryFolder folder;
  const std::vector<StripedFile::Part> parts = {{folder.file("a")}, {folder.file("b")}};
  StripedFileOptions options;
  options.unit_bytes = kUnit;
  options.replace = false;
  const std::string text(3 * kUnit, 'x');
  {
    StripedFile file(parts, options);
    FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
    write_text(out, text);
  }
  StripedFile file(parts, options, text.size());
  const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
  ASSERT_EQ(in.size(), text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(in.data()[i], 'x') << i;
  EXPECT_THROW(StripedFile(parts, options), Error);
}

}  // namespace

}  // namespace vortex::striped_file_test

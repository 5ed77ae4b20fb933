// Partitions on virtual time: how long simulated disks take, against the least that they could.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "study/simulated_disk.h"
#include "study/virtual_clock.h"
#include "tests/split/partitions.h"

namespace vortex::test::partition_disks_test { namespace {

constexpr std::uint64_t kBytesPerSecond = 200'000'000;
constexpr std::uint64_t kRecords = (std::uint64_t{48} << 20) / 8;

// How many times the least time all disks took for the parts; reading takes none.
double times_bound(unsigned disks, std::size_t parts, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // so that the time is the same every time
  std::vector<std::uint64_t> numbers(kRecords);
  for (std::uint64_t& number : numbers) number = random();
  PartitionCase made(RecordFormat(8, {parse_record_key("0:8:u64")}), {{8, bytes_of(numbers)}},
                     disks);
  made.options.parts = parts;
  made.options.resources.seed = seed;
  // Two blocks a part, as the paper has it.
  made.options.resources.block_bytes = std::size_t{16} << 10;
  made.options.resources.memory_bytes = (std::uint64_t{512} << 10) + parts * (58 << 10);
  VirtualClock clock;
  made.options.resources.open_disk = [&](const std::string& folder) -> std::unique_ptr<Disk> {
    const std::uint64_t rate = folder.empty() ? 0 : kBytesPerSecond;
    return std::make_unique<SimulatedDisk>(clock, ServiceModel{rate, rate, 0});
  };
  const auto report = external_partition(made.options);
  made.parts_of(report);
  EXPECT_LE(report.pool_blocks, 2 * parts + 2 * disks + 16);
  const double least = 1e9 * kRecords * 8 / (static_cast<double>(disks) * kBytesPerSecond);
  const double times = static_cast<double>(clock.now_ns()) / least;
  testing::Test::RecordProperty(
      std::to_string(disks) + " disks, " + std::to_string(parts) + " parts", std::to_string(times));
  return times;
}

// The last blocks of the parts, which need not be full, are written whole.
TEST(PartitionOnVirtualDisks, WritesAllDisksAtATime) {
  EXPECT_LT(times_bound(1, 64, 0), 1.05);
  EXPECT_LT(times_bound(2, 64, 1), 1.05);
  EXPECT_LT(times_bound(4, 64, 2), 1.05);
  EXPECT_LT(times_bound(4, 128, 3), 1.05);
  EXPECT_LT(times_bound(8, 64, 4), 1.05);
}

}  // namespace

}  // namespace vortex::test::partition_disks_test

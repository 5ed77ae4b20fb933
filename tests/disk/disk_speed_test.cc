// The speed of disks whose speed is known.
#include "vortex/disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "io/disk/open_disk.h"
#include "study/faulty_disk.h"
#include "study/simulated_disk.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex { namespace {

DiskSpeedOptions on(const VirtualClock& clock) {
  DiskSpeedOptions options;
  options.bytes = (std::uint64_t{8} << 20) + 4096;  // the last request is a short one
  options.now_ns = [&clock] { return clock.now_ns(); };
  return options;
}

TEST(DiskSpeed, IsThatOfTheModel) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk disk(clock, {.read_bytes_per_s = 400'000'000, .write_bytes_per_s = 100'000'000});
  const DiskSpeed speed = measure_disk_speed(disk, folder.path(), on(clock));
  EXPECT_NEAR(speed.read, 4e8, 1e3);
  EXPECT_NEAR(speed.write, 1e8, 1e3);
  EXPECT_NEAR(speed.copy, 0.8e8, 1e3);  // half-duplex: 1 / (1/4 + 1/1)
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(DiskSpeed, MovesEveryByteOnceForEachOfTheThree) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk disk(clock, {.read_bytes_per_s = 1, .write_bytes_per_s = 1});
  DiskSpeedOptions options = on(clock);
  options.most_ns = ~std::uint64_t{0};
  measure_disk_speed(disk, folder.path(), options);
  EXPECT_EQ(disk.statistics().read_bytes, 2 * options.bytes);
  EXPECT_EQ(disk.statistics().written_bytes, 2 * options.bytes);
  EXPECT_EQ(disk.statistics().failures, 0u);
}

// After the time that there is, what is under way ends, and only what was written is read.
TEST(DiskSpeed, OfASlowDiskTakesNoLonger) {
  const test::TemporaryFolder folder;
  constexpr std::uint64_t kSecond = 1'000'000'000;
  for (const double factor : {1.0, 0.1, 0.01}) {
    VirtualClock clock;
    SimulatedDisk disk(clock, {.read_bytes_per_s = static_cast<std::uint64_t>(factor * 40e6),
                               .write_bytes_per_s = static_cast<std::uint64_t>(factor * 10e6)});
    DiskSpeedOptions options = on(clock);
    options.bytes = std::uint64_t{64} << 20;
    options.request_bytes = 4096;
    options.most_ns = kSecond;
    const DiskSpeed speed = measure_disk_speed(disk, folder.path(), options);
    EXPECT_NEAR(speed.read, factor * 40e6, factor * 40e3);
    EXPECT_NEAR(speed.write, factor * 10e6, factor * 10e3);
    EXPECT_NEAR(speed.copy, factor * 8e6, factor * 8e3);
    const DiskStatistics statistics = disk.statistics();
    const double written = factor * 10e6;  // in a second
    EXPECT_NEAR(static_cast<double>(statistics.written_bytes), written + factor * 8e6, 20 * 4096);
    EXPECT_NEAR(static_cast<double>(statistics.read_bytes), written + factor * 8e6, 20 * 4096);
    const double requests = 16 * 4096 / (factor * 8e6);  // that end late, in seconds
    EXPECT_LE(clock.now_ns(), static_cast<std::uint64_t>((3 + requests) * kSecond));
  }
}

// Of a disk with an arm, and of one without; any size of the requests shows the same.
TEST(RequestCost, IsThatOfTheModel) {
  const test::TemporaryFolder folder;
  for (const std::uint64_t seek_ns : {0u, 1'000'000u, 8'000'000u}) {
    for (const std::size_t request_bytes : {std::size_t{64} << 10, std::size_t{512} << 10}) {
      VirtualClock clock;
      SimulatedDisk disk(
          clock,
          {.read_bytes_per_s = 200'000'000, .write_bytes_per_s = 150'000'000, .seek_ns = seek_ns});
      DiskSpeedOptions options = on(clock);
      options.most_ns = ~std::uint64_t{0};
      options.request_bytes = request_bytes;
      const double cost = static_cast<double>(seek_ns) / 1e9 * 200e6;
      EXPECT_NEAR(measure_request_cost(disk, folder.path(), options), cost, 4096 + cost / 50);
      EXPECT_EQ(folder.entries(), 0u);
    }
  }
}

TEST(RequestCost, OfASlowDiskTakesNoLonger) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk disk(
      clock,
      {.read_bytes_per_s = 20'000'000, .write_bytes_per_s = 20'000'000, .seek_ns = 10'000'000});
  DiskSpeedOptions options = on(clock);
  options.bytes = std::uint64_t{32} << 20;
  options.request_bytes = 64 << 10;
  options.most_ns = 250'000'000;
  EXPECT_NEAR(measure_request_cost(disk, folder.path(), options), 200e3, 20e3);
  // Writing, and twice two sweeps of half the time; then four requests each are still under way.
  EXPECT_LE(clock.now_ns(), 3 * options.most_ns + 5 * 4 * 14'000'000);
  // So little that nothing can be told.
  options.most_ns = 10'000'000;
  EXPECT_EQ(measure_request_cost(disk, folder.path(), options), 0);
}

TEST(RequestCost, ErrorsAreThrown) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk good(clock, {});
  DiskSpeedOptions options = on(clock);
  options.request_bytes = 512 << 10;
  EXPECT_THROW(measure_request_cost(good, folder.file("missing"), options), Error);
  const std::uint64_t writes = 17, small = 256, large = 16;
  for (const std::uint64_t request : {std::uint64_t{0}, writes - 1, writes, writes + small - 1,
                                      writes + small, writes + 2 * (small + large) - 1}) {
    FaultyDisk disk(std::make_unique<SimulatedDisk>(clock, ServiceModel{}),
                    std::make_shared<FaultAt>(
                        request, PlannedFault{.kind = PlannedFault::Kind::kError, .error = EIO}));
    EXPECT_THROW(measure_request_cost(disk, folder.path(), options), Error) << request;
    EXPECT_EQ(folder.entries(), 0u);
  }
  options.request_bytes = 1000;
  EXPECT_THROW(measure_request_cost(good, folder.path(), options), Error);
}

TEST(DiskSpeed, OfAFileSmallerThanARequest) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk disk(clock, {.read_bytes_per_s = 1000, .write_bytes_per_s = 1000});
  DiskSpeedOptions options = on(clock);
  options.bytes = 4096;
  const DiskSpeed speed = measure_disk_speed(disk, folder.path(), options);
  EXPECT_NEAR(speed.read, 1000, 1e-3);
  EXPECT_NEAR(speed.copy, 500, 1e-3);
}

TEST(DiskSpeed, OfARealDiskIsSomething) {
  const test::TemporaryFolder folder;
  DiskSpeedOptions options;
  options.bytes = std::uint64_t{4} << 20;
  for (const DiskBackend backend : {DiskBackend::kBest, DiskBackend::kThreads}) {
    OpenDiskOptions for_disk;
    for_disk.backend = backend;
    const std::unique_ptr<Disk> disk = open_disk(for_disk);
    const DiskSpeed speed = measure_disk_speed(*disk, folder.path(), options);
    EXPECT_GT(speed.read, 0);
    EXPECT_GT(speed.write, 0);
    EXPECT_GT(speed.copy, 0);
    EXPECT_EQ(folder.entries(), 0u);
  }
}

TEST(DiskSpeed, ErrorsAreThrown) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk good(clock, {});
  DiskSpeedOptions options = on(clock);
  EXPECT_THROW(measure_disk_speed(good, folder.file("missing"), options), Error);
  for (std::uint64_t request = 0; request < 36; ++request) {
    FaultyDisk disk(std::make_unique<SimulatedDisk>(clock, ServiceModel{}),
                    std::make_shared<FaultAt>(
                        request, PlannedFault{.kind = PlannedFault::Kind::kError, .error = EIO}));
    EXPECT_THROW(measure_disk_speed(disk, folder.path(), options), Error) << request;
    EXPECT_EQ(folder.entries(), 0u);
  }
  options.request_bytes = 1000;
  EXPECT_THROW(measure_disk_speed(good, folder.path(), options), Error);
}

TEST(DiskSpeed, TimeOfReadingAndWriting) {
  const DiskSpeed speed = {.read = 200, .write = 100, .copy = 80};
  EXPECT_DOUBLE_EQ(speed.seconds(0, 0), 0);
  EXPECT_DOUBLE_EQ(speed.seconds(400, 0), 2);
  EXPECT_DOUBLE_EQ(speed.seconds(0, 400), 4);
  EXPECT_DOUBLE_EQ(speed.seconds(160, 160), 2);
  EXPECT_DOUBLE_EQ(speed.seconds(360, 160), 3);
  EXPECT_DOUBLE_EQ(speed.seconds(160, 260), 3);
}

}  // namespace

}  // namespace vortex

// Disks on virtual time: exact times and orders, and what is measured of disks whose speed is
// known.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "study/faulty_disk.h"
#include "study/simulated_disk.h"
#include "tests/disk/test_disk.h"
#include "tests/support/cases.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex::simulated_disk_test { namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// One byte takes a microsecond to read and two to write; a seek takes a millisecond.
constexpr ServiceModel kModel{
    .read_bytes_per_s = 1'000'000, .write_bytes_per_s = 500'000, .seek_ns = kMillisecond};

struct Timed : Request {
  explicit Timed(VirtualClock& on, std::vector<const Timed*>* order = nullptr)
      : clock(on), ended(order) {
    context = this;
    complete = [](Request& request) noexcept {
      auto& self = *static_cast<Timed*>(request.context);
      self.ended_at = self.clock.now_ns();
      if (self.ended != nullptr) self.ended->push_back(&self);
    };
  }
  Timed(VirtualClock& on, std::vector<const Timed*>* order, Operation what, std::uint64_t at,
        std::size_t size)
      : Timed(on, order) {
    operation = what;
    offset = at;
    set_memory(&nothing, size);
  }
  VirtualClock& clock;
  std::vector<const Timed*>* ended;
  std::uint64_t ended_at = 0;
  std::byte nothing{};
};

TEST_OF_ONE_THREAD(SimulatedDisk, ServesOneRequestAtATimeForAsLongAsTheModelSays) {
  VirtualClock clock;
  SimulatedDisk disk(clock, kModel);
  Timed first(clock, nullptr, Operation::kRead, 0, 1000);
  Timed next(clock, nullptr, Operation::kRead, 1000, 1000);         // no seek
  Timed away(clock, nullptr, Operation::kRead, 500'000, 3000);      // a seek
  Timed written(clock, nullptr, Operation::kWrite, 503'000, 1000);  // no seek, half the speed
  for (Timed* request : {&first, &next, &away}) disk.submit(*request);
  disk.drain();
  disk.submit(written);  // it would go first
  disk.drain();
  EXPECT_EQ(first.ended_at, 2 * kMillisecond);
  EXPECT_EQ(next.ended_at, 3 * kMillisecond);
  EXPECT_EQ(away.ended_at, 7 * kMillisecond);
  EXPECT_EQ(written.ended_at, 9 * kMillisecond);
  EXPECT_EQ(disk.service().busy_ns(), 9 * kMillisecond);
  EXPECT_EQ(disk.service().seeks(), 2u);
  EXPECT_EQ(disk.statistics().peak_in_flight, 1u);
  EXPECT_EQ(clock.now_ns(), 9 * kMillisecond);
}

TEST_OF_ONE_THREAD(SimulatedDisk, AnIdleDiskBeginsWhenARequestComes) {
  VirtualClock clock;
  SimulatedDisk disk(clock, kModel);
  clock.advance(10 * kMillisecond);
  Timed request(clock, nullptr, Operation::kRead, 0, 1000);
  disk.submit(request);
  // A computation that takes longer than the disk finds the request ended meanwhile.
  clock.advance(5 * kMillisecond);
  EXPECT_EQ(request.ended_at, 12 * kMillisecond);
  EXPECT_EQ(clock.now_ns(), 15 * kMillisecond);
}

TEST_OF_ONE_THREAD(SimulatedDisk, DisksOfOneClockWorkSideBySide) {
  VirtualClock clock;
  ServiceModel half = kModel;
  half.read_bytes_per_s /= 2;
  SimulatedDisk fast(clock, kModel);
  SimulatedDisk slow(clock, half);
  std::vector<const Timed*> order;
  Timed on_slow(clock, &order, Operation::kRead, 0, 3000);
  Timed on_fast(clock, &order, Operation::kRead, 0, 3000);
  slow.submit(on_slow);
  fast.submit(on_fast);
  slow.drain();
  EXPECT_EQ(on_fast.ended_at, 4 * kMillisecond);
  EXPECT_EQ(on_slow.ended_at, 7 * kMillisecond);
  EXPECT_EQ(order, (std::vector<const Timed*>{&on_fast, &on_slow}));
}

TEST_OF_ONE_THREAD(SimulatedDisk, InfinitelyFastTakesNoTime) {
  VirtualClock clock;
  SimulatedDisk disk(clock, ServiceModel{});
  Timed request(clock, nullptr, Operation::kWrite, 0, std::size_t{1} << 30);
  disk.submit(request);
  disk.drain();
  EXPECT_EQ(clock.now_ns(), 0u);
  EXPECT_EQ(request.bytes_done, std::size_t{1} << 30);
}

// Requests r w r w r w that come while the disk is busy with another read.
TEST_OF_ONE_THREAD(SimulatedDisk, WritesGoFirst) {
  VirtualClock clock;
  SimulatedDisk disk(clock, kModel);
  std::vector<const Timed*> ended;
  Timed busy(clock, nullptr, Operation::kRead, 0, 1000);
  disk.submit(busy);
  std::deque<Timed> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.emplace_back(clock, &ended, i % 2 == 0 ? Operation::kRead : Operation::kWrite,
                          i * 1000, 1000);
    disk.submit(requests.back());
  }
  disk.drain();
  std::string text;
  for (const Timed* request : ended) {
    text += request->operation == Operation::kRead ? 'r' : 'w';
    text += static_cast<char>('0' + request->offset / 1000);
  }
  EXPECT_EQ(text, "w1w3w5r0r2r4");
}

TEST_OF_ONE_THREAD(SimulatedDisk, LateResultsAreOvertaken) {
  VirtualClock clock;
  const auto faults = std::make_shared<FaultAt>(
      0, PlannedFault{.kind = PlannedFault::Kind::kLate, .overtakers = 2});
  // Two at once with the disk, so that the held-back one is not all there is.
  FaultyDisk disk(std::make_unique<SimulatedDisk>(clock, kModel, DiskOptions{.depth = 4}), faults);
  std::vector<const Timed*> ended;
  std::deque<Timed> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.emplace_back(clock, &ended, Operation::kRead, i * 1000, 1000);
    disk.submit(requests.back());
  }
  disk.drain();
  EXPECT_EQ(ended,
            (std::vector<const Timed*>{&requests[1], &requests[2], &requests[0], &requests[3]}));
}

TEST_OF_ONE_THREAD(SimulatedDiskDeathTest, WaitingForNothingIsNoHang) {
  VirtualClock clock;
  SimulatedDisk busy(clock, kModel);
  SimulatedDisk other(clock, kModel);
  Request request;
  std::byte nothing{};
  request.set_memory(&nothing, 1);
  // The request was given to another disk.
  EXPECT_DEATH(other.wait(request), "would never end");
}

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

// Where there is no folder, where one of `requests` fails, and where requests have an odd size;
// no file stays. `request_bytes` 0: as by default.
template <typename Result>
void expect_errors(Result (*measure)(Disk&, const std::string&, const DiskSpeedOptions&),
                   std::size_t request_bytes, const std::vector<std::uint64_t>& requests) {
  const test::TemporaryFolder folder;
  VirtualClock clock;
  SimulatedDisk good(clock, {});
  DiskSpeedOptions options = on(clock);
  if (request_bytes > 0) options.request_bytes = request_bytes;
  EXPECT_THROW(measure(good, folder.file("missing"), options), Error);
  for (const std::uint64_t request : requests) {
    FaultyDisk disk(std::make_unique<SimulatedDisk>(clock, ServiceModel{}),
                    test::error_at(request, EIO));
    EXPECT_THROW(measure(disk, folder.path(), options), Error) << request;
    EXPECT_EQ(folder.entries(), 0u);
  }
  options.request_bytes = 1000;
  EXPECT_THROW(measure(good, folder.path(), options), Error);
}

TEST(RequestCost, ErrorsAreThrown) {
  const std::uint64_t writes = 17, small = 256, large = 16;
  expect_errors(measure_request_cost, 512 << 10,
                {0, writes - 1, writes, writes + small - 1, writes + small,
                 writes + 2 * (small + large) - 1});
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
    DiskOptions for_disk;
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
  std::vector<std::uint64_t> requests(36);
  std::iota(requests.begin(), requests.end(), 0);
  expect_errors(measure_disk_speed, 0, requests);
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

}  // namespace vortex::simulated_disk_test

// Exact times and orders on virtual time.
#include "study/simulated_disk.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "study/faulty_disk.h"

namespace vortex { namespace {

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

TEST(SimulatedDisk, ServesOneRequestAtATimeForAsLongAsTheModelSays) {
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

TEST(SimulatedDisk, AnIdleDiskBeginsWhenARequestComes) {
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

TEST(SimulatedDisk, DisksOfOneClockWorkSideBySide) {
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

TEST(SimulatedDisk, InfinitelyFastTakesNoTime) {
  VirtualClock clock;
  SimulatedDisk disk(clock, ServiceModel{});
  Timed request(clock, nullptr, Operation::kWrite, 0, std::size_t{1} << 30);
  disk.submit(request);
  disk.drain();
  EXPECT_EQ(clock.now_ns(), 0u);
  EXPECT_EQ(request.bytes_done, std::size_t{1} << 30);
}

// Requests r w r w r w that come while the disk is busy with another read.
TEST(SimulatedDisk, WritesGoFirst) {
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

TEST(SimulatedDisk, LateResultsAreOvertaken) {
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

TEST(SimulatedDiskDeathTest, WaitingForNothingIsNoHang) {
  VirtualClock clock;
  SimulatedDisk busy(clock, kModel);
  SimulatedDisk other(clock, kModel);
  Request request;
  std::byte nothing{};
  request.set_memory(&nothing, 1);
  // The request was given to another disk.
  EXPECT_DEATH(other.wait(request), "would never end");
}

}  // namespace

}  // namespace vortex

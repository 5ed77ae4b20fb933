// One suite for all backends of Disk.
#include "io/disk/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/disk/thread_disk.h"
#include "io/disk/uring_disk.h"
#include "study/faulty_disk.h"
#include "study/paced_disk.h"
#include "study/simulated_disk.h"
#include "tests/disk/test_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/thread/activity.h"

namespace vortex::disk_test { namespace {

using Bytes = std::vector<std::byte>;
using Kind = PlannedFault::Kind;

// The disks that the suite is for. Those with threads may be used by several of ours.
struct DiskKind {
  const char* name;
  bool has_threads;
  std::unique_ptr<Disk> (*make)(VirtualClock& clock);
};
const DiskKind kKinds[] = {
    {"OneThread", true,
     [](VirtualClock&) -> std::unique_ptr<Disk> { return std::make_unique<ThreadDisk>(); }},
    {"FourThreads", true,
     [](VirtualClock&) -> std::unique_ptr<Disk> {
       return std::make_unique<ThreadDisk>(DiskOptions{.depth = 4});
     }},
    {"Uring", true,
     [](VirtualClock&) -> std::unique_ptr<Disk> {
       try {
         return std::make_unique<UringDisk>();
       } catch (const Error&) {
         return nullptr;
       }
     }},
    {"VirtualTime", false,
     [](VirtualClock& clock) -> std::unique_ptr<Disk> {
       return std::make_unique<SimulatedDisk>(clock, ServiceModel{1'000'000, 500'000, 1000});
     }},
    {"RealTime", true,
     [](VirtualClock&) -> std::unique_ptr<Disk> {
       return std::make_unique<PacedDisk>(ServiceModel{4'000'000'000, 4'000'000'000, 100});
     }},
};

Bytes random_bytes(std::mt19937_64& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class DiskTest : public testing::TestWithParam<DiskKind> {
 protected:
  void SetUp() override {
    file = memfd_create("disk_test", MFD_CLOEXEC);
    ASSERT_GE(file, 0);
  }
  void TearDown() override { close(file); }

  std::unique_ptr<Disk> make(std::shared_ptr<FaultPlan> faults = nullptr) {
    auto disk = GetParam().make(clock);
    return disk == nullptr ? nullptr : with_faults(std::move(disk), std::move(faults));
  }

  void put(const Bytes& bytes) {
    ASSERT_EQ(pwrite(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  Bytes contents(std::size_t size) {
    Bytes bytes(size);
    EXPECT_EQ(pread(file, bytes.data(), size, 0), static_cast<ssize_t>(size));
    return bytes;
  }

  void prepare(Request& request, Operation operation, std::uint64_t offset, std::byte* memory,
               std::size_t bytes) const {
    request.operation = operation;
    request.file = file;
    request.offset = offset;
    request.set_memory(memory, bytes);
  }

  void carry_out(Disk& disk, Request& request, Operation operation, std::uint64_t offset,
                 Bytes& memory) const {
    prepare(request, operation, offset, memory.data(), memory.size());
    disk.submit(request);
    ASSERT_TRUE(disk.wait(request));
  }

  // From the end of a pipe.
  void begin_to_read_a_byte(Disk& disk, Request& request, int end, std::byte* byte) const {
    prepare(request, Operation::kRead, Request::kSequential, byte, 1);
    request.file = end;
    disk.submit(request);
  }

  // Writes each 512 bytes of the memory by a request of its own.
  void write_all(Disk& disk, std::deque<Request>& requests, Bytes& memory,
                 bool more_to_come = false) const {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      prepare(requests[i], Operation::kWrite, i * 512, memory.data() + i * 512, 512);
      disk.submit(requests[i], more_to_come);
    }
  }

  // Writes a random permutation of requests of all shapes, then reads others, and compares with
  // what plain system calls say.
  void shuffle_bytes(Disk& disk, std::size_t alignment) {
    constexpr std::size_t kUnit = 512;
    constexpr std::size_t kUnits = 600;
    const Bytes wanted = random_bytes(random, kUnit * kUnits);
    put(Bytes(wanted.size()));
    Bytes memory(wanted.size());
    for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
      memory = operation == Operation::kWrite ? wanted : Bytes(wanted.size());
      std::vector<std::pair<std::size_t, std::size_t>> ranges;  // in units
      for (std::size_t at = 0; at < kUnits;) {
        const std::size_t size = std::min<std::size_t>(random() % 40 + 1, kUnits - at);
        ranges.emplace_back(at, size);
        at += size;
      }
      std::shuffle(ranges.begin(), ranges.end(), random);
      std::deque<Request> requests(ranges.size());
      std::deque<Pieces> pieces(ranges.size());
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        Request& request = requests[i];
        const auto [at, size] = ranges[i];
        prepare(request, operation, at * kUnit, memory.data() + at * kUnit, size * kUnit);
        request.alignment = alignment;
        if (size <= kMaxPieces && random() % 2 == 0) {
          request.pieces = &pieces[i];
          request.piece_bytes = kUnit;
          request.piece_count = static_cast<unsigned>(size);
          for (std::size_t k = 0; k < size; ++k) {
            pieces[i].begins[k] = memory.data() + (at + k) * kUnit;
          }
        }
        disk.submit(request, random() % 2 == 0);
      }
      std::vector<std::size_t> order(requests.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i : order) {
        ASSERT_TRUE(disk.wait(requests[i]));
        ASSERT_EQ(requests[i].error, 0);
        ASSERT_EQ(requests[i].bytes_done, requests[i].bytes);
      }
      ASSERT_EQ(operation == Operation::kWrite ? contents(wanted.size()) : memory, wanted);
    }
    const DiskStatistics statistics = disk.statistics();
    EXPECT_EQ(statistics.read_bytes, wanted.size());
    EXPECT_EQ(statistics.written_bytes, wanted.size());
    EXPECT_EQ(statistics.failures, 0u);
    EXPECT_FALSE(statistics.backend.empty());
  }

  std::mt19937_64 random = test::test_random();
  VirtualClock clock;
  int file = -1;
};

// Each test begins with this, so that a machine without io_uring says so.
#define MAKE_DISK(...)                                                                     \
  const auto disk = make(__VA_ARGS__);                                                     \
  if (disk == nullptr) END_TEST_WITHOUT(test::Environment::kUring, "io_uring is refused"); \
  static_assert(true)

INSTANTIATE_TEST_SUITE_P(Kinds, DiskTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(DiskTest, MovesEveryByte) {
  MAKE_DISK();
  shuffle_bytes(*disk, 1);
}

TEST_P(DiskTest, MovesEveryByteThroughShortTransfersAndInterruptions) {
  for (const std::size_t alignment : {1, 512}) {
    const auto faults = std::make_shared<RandomFaults>(
        random(), RandomFaults::Rates{
                      .short_transfer = 0.3, .interrupted = 0.1, .try_again = 0.1, .late = 0.2});
    MAKE_DISK(faults);
    shuffle_bytes(*disk, alignment);
    const DiskStatistics statistics = disk->statistics();
    EXPECT_GT(dynamic_cast<const FaultyDisk&>(*disk).injected_faults(), 0u);
    EXPECT_GT(statistics.retries, 0u);
    EXPECT_GT(statistics.short_transfers, 0u);
  }
}

TEST_P(DiskTest, ReportsItsWorkToALog) {
  const auto faults = std::make_shared<RandomFaults>(
      random(), RandomFaults::Rates{.short_transfer = 0.3, .interrupted = 0.1, .late = 0.2});
  ActivityLog log(10000);
  {
    MAKE_DISK(faults);
    disk->report_to(log);
    shuffle_bytes(*disk, 1);
    disk->drain();
    // Nothing is left that would count as under way.
    log.begin_phase(1);
    const std::uint64_t now = log.totals(1).all_ns;
    while (log.totals(1).all_ns == now) log.begin_phase(1);
    EXPECT_EQ(log.totals(1).disks_ns, 0u);
    EXPECT_GT(log.totals(0).disks_ns, 0u);
    EXPECT_EQ(log.totals(0).threads_ns, 0u);
    const DiskStatistics statistics = disk->statistics();
    EXPECT_EQ(log.spans().size(), statistics.reads + statistics.writes);
    std::map<SpanKind, std::uint64_t> bytes;
    for (const Span& span : log.spans()) {
      EXPECT_EQ(span.track, 0u);
      EXPECT_LE(span.begin_ns, span.end_ns);
      bytes[span.kind] += span.detail;
    }
    EXPECT_EQ(bytes[SpanKind::kRead], statistics.read_bytes);
    EXPECT_EQ(bytes[SpanKind::kWrite], statistics.written_bytes);
    EXPECT_EQ(bytes.size(), 2u);
    ASSERT_EQ(log.tracks().size(), 1u);
    EXPECT_EQ(log.tracks()[0].name, disk->name());
    EXPECT_TRUE(log.tracks()[0].is_disk);
  }
}

// Cut twice in the same place inside a sector, which is how a file that ends there would look.
TEST_P(DiskTest, APlannedCutIsNoEndOfTheFile) {
  class TwoCuts final : public FaultPlan {
   public:
    PlannedFault decide(const Attempt&, std::uint64_t number) noexcept override {
      if (number > 1) return {};
      return {.kind = Kind::kShort, .bytes = number == 0 ? 700U : 700U - 512U};
    }
  };
  const Bytes wanted = random_bytes(random, 2048);
  put(wanted);
  MAKE_DISK(std::make_shared<TwoCuts>());
  Bytes memory(wanted.size());
  Request request;
  request.alignment = 512;
  carry_out(*disk, request, Operation::kRead, 0, memory);
  EXPECT_EQ(request.error, 0);
  EXPECT_EQ(request.bytes_done, wanted.size());
  EXPECT_EQ(memory, wanted);
}

TEST_P(DiskTest, AReadEndsWhereTheFileEnds) {
  constexpr std::size_t kLength = 3 * 512 + 100;
  put(random_bytes(random, kLength));
  for (const std::size_t alignment : {1, 512}) {
    for (const std::size_t least : {std::size_t{0}, kLength}) {
      MAKE_DISK();
      Bytes memory(8 * 512);
      Request request;
      request.alignment = alignment;
      request.least_bytes = least;
      carry_out(*disk, request, Operation::kRead, 0, memory);
      EXPECT_EQ(request.error, 0);
      EXPECT_EQ(request.bytes_done, kLength);
      memory.resize(kLength);
      EXPECT_EQ(memory, contents(kLength));
      // With the length known, one attempt is enough.
      if (least != 0) {
        EXPECT_EQ(disk->statistics().attempts, 1u);
      }
    }
  }
}

TEST_P(DiskTest, AReadBeyondTheEndMovesNothing) {
  put(Bytes(100));
  MAKE_DISK();
  Bytes memory(512);
  Request request;
  carry_out(*disk, request, Operation::kRead, 512, memory);
  EXPECT_EQ(request.error, 0);
  EXPECT_EQ(request.bytes_done, 0u);
}

// The error at attempt k, for every k: that request and no other fails, with that error.
TEST_P(DiskTest, OneErrorFailsOneRequest) {
  constexpr std::size_t kRequests = 12;
  for (const int error : {EIO, ENOSPC}) {
    for (std::size_t k = 0; k < kRequests; ++k) {
      MAKE_DISK(test::error_at(k, error));
      const Bytes wanted = random_bytes(random, kRequests * 512);
      put(Bytes(wanted.size()));
      Bytes memory = wanted;
      std::deque<Request> requests(kRequests);
      write_all(*disk, requests, memory);
      std::size_t failed = 0;
      for (std::size_t i = 0; i < kRequests; ++i) {
        ASSERT_TRUE(disk->wait(requests[i]));
        const Bytes part(wanted.begin() + static_cast<std::ptrdiff_t>(i * 512),
                         wanted.begin() + static_cast<std::ptrdiff_t>((i + 1) * 512));
        Bytes written(512);
        ASSERT_EQ(pread(file, written.data(), 512, static_cast<off_t>(i * 512)), 512);
        if (requests[i].error == 0) {
          EXPECT_EQ(written, part);
        } else {
          EXPECT_EQ(requests[i].error, error);
          EXPECT_EQ(requests[i].bytes_done, 0u);
          ++failed;
        }
      }
      EXPECT_EQ(failed, 1u);
      EXPECT_EQ(disk->statistics().failures, 1u);
    }
  }
}

TEST_P(DiskTest, ATornWriteIsAnErrorThatLeavesAPart) {
  MAKE_DISK(
      std::make_shared<FaultAt>(0, PlannedFault{.kind = Kind::kTorn, .error = EIO, .bytes = 700}));
  const Bytes wanted = random_bytes(random, 2048);
  put(Bytes(wanted.size()));
  Bytes memory = wanted;
  Request request;
  carry_out(*disk, request, Operation::kWrite, 0, memory);
  EXPECT_EQ(request.error, EIO);
  Bytes torn(wanted.begin(), wanted.begin() + 700);
  torn.resize(wanted.size());
  EXPECT_EQ(contents(wanted.size()), torn);
}

TEST_P(DiskTest, EndlessInterruptionsBecomeAnError) {
  MAKE_DISK(test::error_at(0, EINTR, std::nullopt, true));
  Bytes memory(512);
  Request request;
  carry_out(*disk, request, Operation::kWrite, 0, memory);
  EXPECT_EQ(request.error, EINTR);
}

TEST_P(DiskTest, ABadDescriptorIsAnError) {
  MAKE_DISK();
  Bytes memory(512);
  Request request;
  prepare(request, Operation::kRead, 0, memory.data(), memory.size());
  request.file = 1'000'000;
  disk->submit(request);
  ASSERT_TRUE(disk->wait(request));
  EXPECT_EQ(request.error, EBADF);
}

// Each completion submits the next request from inside the disk, as a prefetcher does.
TEST_P(DiskTest, CompletionsAreCalledOnceAndMaySubmit) {
  MAKE_DISK();
  struct Chain {
    Disk* disk;
    std::array<std::atomic<int>, 64> calls{};
    std::deque<Request> requests{64};
  } chain{disk.get()};
  Bytes memory = random_bytes(random, chain.requests.size() * 512);
  for (std::size_t i = 0; i < chain.requests.size(); ++i) {
    Request& request = chain.requests[i];
    prepare(request, Operation::kWrite, i * 512, memory.data() + i * 512, 512);
    request.context = &chain;
    request.complete = [](Request& done) noexcept {
      Chain& all = *static_cast<Chain*>(done.context);
      const std::size_t number = done.offset / 512;
      all.calls[number].fetch_add(1);
      if (number + 4 < all.requests.size()) all.disk->submit(all.requests[number + 4]);
    };
  }
  for (std::size_t i = 0; i < 4; ++i) disk->submit(chain.requests[i]);
  disk->drain();
  for (const auto& calls : chain.calls) EXPECT_EQ(calls.load(), 1);
  EXPECT_EQ(contents(memory.size()), memory);
}

TEST_P(DiskTest, ARequestCanBeUsedAgain) {
  MAKE_DISK();
  Bytes memory(512);
  Request request;
  for (std::size_t i = 0; i < 50; ++i) {
    memory.assign(512, static_cast<std::byte>(i));
    carry_out(*disk, request, Operation::kWrite, i * 512, memory);
    ASSERT_EQ(request.error, 0);
  }
  const Bytes all = contents(50 * 512);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::byte>(i / 512));
}

TEST_P(DiskTest, ARequestThatFailedCanBeUsedAgain) {
  MAKE_DISK(test::error_at(0, EIO));
  Bytes memory = random_bytes(random, 512);
  Request request;
  carry_out(*disk, request, Operation::kWrite, 0, memory);
  ASSERT_EQ(request.error, EIO);
  disk->submit(request);
  ASSERT_TRUE(disk->wait(request));
  EXPECT_EQ(request.error, 0);
  EXPECT_EQ(request.bytes_done, 512u);
  EXPECT_EQ(contents(512), memory);
}

TEST_P(DiskTest, AWaitCanBeStopped) {
  MAKE_DISK();
  // Many requests, so that the last is still under way; if it is not, wait() says so.
  Bytes memory(512 * 200);
  std::deque<Request> requests(200);
  write_all(*disk, requests, memory);
  const std::atomic<bool> stop{true};
  const bool ended = disk->wait(requests.back(), &stop);
  // In virtual time nothing ends before somebody waits for it.
  if (!GetParam().has_threads) {
    EXPECT_FALSE(ended);
  }
  if (ended) {
    EXPECT_TRUE(requests.back().done());
  }
  disk->drain();
  for (const Request& request : requests) EXPECT_TRUE(request.done());
}

TEST_P(DiskTest, ManyThreadsSubmitAndWait) {
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time is for one thread";
  const auto faults = std::make_shared<RandomFaults>(
      random(), RandomFaults::Rates{.short_transfer = 0.1, .interrupted = 0.1, .late = 0.1});
  MAKE_DISK(faults);
  constexpr std::size_t kThreads = 4, kRounds = 150, kBytes = 1536;
  Bytes memory = random_bytes(random, kThreads * kRounds * kBytes);
  std::atomic<std::size_t> failures{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::array<Request, 3> ring;
      for (std::size_t i = 0; i < kRounds; ++i) {
        Request& request = ring[i % ring.size()];
        if (request.under_way()) disk->wait(request);
        if (request.error != 0) ++failures;
        const std::size_t at = (t * kRounds + i) * kBytes;
        prepare(request, Operation::kWrite, at, memory.data() + at, kBytes);
        disk->submit(request);
      }
      for (Request& request : ring) {
        disk->wait(request);
        if (request.error != 0) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0u);
  EXPECT_EQ(contents(memory.size()), memory);
}

// A thread that looks for results in passing is no thread that waits for them: whoever waits must
// not rely on it.
TEST_P(DiskTest, NobodyIsLeftWaitingByAThreadThatOnlyLooks) {
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time is for one thread";
  MAKE_DISK();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (int round = 0; round < 1000; ++round) {
    std::byte byte{};
    Request request;
    begin_to_read_a_byte(*disk, request, ends[0], &byte);
    std::thread waiter([&] { disk->wait(request); });
    for (std::uint64_t looks = random() % 2000; looks > 0; --looks) disk->send();
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    waiter.join();
    ASSERT_EQ(byte, std::byte{'x'});
  }
  for (const int end : ends) close(end);
}

// Wherever it is when it is interrupted: on its way, in the kernel, or asleep.
TEST_P(DiskTest, AWaitForWhatDoesNotEndCanBeStopped) {
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time is for one thread";
  MAKE_DISK();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (int round = 0; round < 300; ++round) {
    std::byte byte{};
    Request request;
    begin_to_read_a_byte(*disk, request, ends[0], &byte);
    std::atomic<bool> stop{false};
    std::thread waiter([&] { EXPECT_FALSE(disk->wait(request, &stop)); });
    for (std::uint64_t yields = random() % 30; yields > 0; --yields) {
      std::this_thread::yield();
    }
    stop.store(true, std::memory_order_release);
    disk->interrupt();
    waiter.join();
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    ASSERT_TRUE(disk->wait(request));
  }
  for (const int end : ends) close(end);
}

TEST_P(DiskTest, WhatIsSubmittedEndsWithoutAnotherCall) {
  if (!GetParam().has_threads) GTEST_SKIP() << "results are found by those who wait";
  MAKE_DISK();
  Bytes memory = random_bytes(random, 512);
  Request request;
  prepare(request, Operation::kWrite, 0, memory.data(), memory.size());
  disk->submit(request);
  while (!request.done()) std::this_thread::yield();
  EXPECT_EQ(contents(512), memory);
}

// Threads of this process and the signals that they block.
std::map<std::string, std::string> blocked_signals() {
  std::map<std::string, std::string> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) masks[task.path().filename()] = line.substr(8);
    }
  }
  return masks;
}

// A handler of the program runs on threads of the program, and those are left as they were.
TEST_P(DiskTest, ItsThreadsBlockAllSignals) {
  auto before = blocked_signals();
  MAKE_DISK();
  auto after = blocked_signals();
  const std::string self = std::to_string(gettid());
  EXPECT_EQ(after[self], before[self]);
  // Threads of earlier tests may just be going, and the kernel may have added some of its own.
  for (const auto& [thread, mask] : before) after.erase(thread);
  if (GetParam().has_threads) {
    EXPECT_FALSE(after.empty());
  }
  for (const auto& [thread, mask] : after) {
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGSEGV}) {
      EXPECT_NE(std::stoull(mask, nullptr, 16) >> (signal - 1) & 1, 0u) << signal;
    }
  }
}

// The child must neither wait for requests that are its parent's nor disturb them.
TEST_P(DiskTest, AForkWithRequestsUnderWayLeavesThemToTheParent) {
  auto disk = make();
  if (disk == nullptr) END_TEST_WITHOUT(test::Environment::kUring, "io_uring is refused");
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time has nothing under way by itself";
  Bytes memory = random_bytes(random, 512 * 64);
  std::deque<Request> requests(64);
  write_all(*disk, requests, memory);
  EXPECT_EQ(test::in_child([&] {
              disk.reset();
              return 7;
            }),
            7);
  for (Request& request : requests) ASSERT_TRUE(disk->wait(request));
  EXPECT_EQ(contents(memory.size()), memory);
}

TEST_P(DiskTest, DestructionWaitsForWhatIsUnderWay) {
  Bytes memory = random_bytes(random, 512 * 64);
  std::deque<Request> requests(64);
  {
    MAKE_DISK();
    write_all(*disk, requests, memory, true);
  }
  for (const Request& request : requests) EXPECT_TRUE(request.done());
  EXPECT_EQ(contents(memory.size()), memory);
}

// Memory that the disk maps may lie where another thread had memory a moment ago. The kernel alone
// orders the two; the thread sanitizer reports this test unless it is told (os::note_mapped).
TEST_P(DiskTest, MayTakeTheAddressesThatAnotherThreadHasGivenBack) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 22;
  for (std::size_t bytes = 4096; bytes <= kMaxBytes; bytes *= 4) {
    std::atomic<bool> given_back{false};
    std::thread other([&] {
      int error = 0;
      std::byte* const memory = os::map_memory(nullptr, bytes, &error);
      if (memory != nullptr) {
        std::memset(memory, 1, bytes);
        error = os::unmap(memory, bytes);
      }
      EXPECT_EQ(error, 0);
      given_back.store(true, std::memory_order_relaxed);
    });
    while (!given_back.load(std::memory_order_relaxed)) std::this_thread::yield();
    std::unique_ptr<Disk> disk = make();
    if (disk != nullptr) shuffle_bytes(*disk, 1);
    other.join();
    if (disk == nullptr) END_TEST_WITHOUT(test::Environment::kUring, "io_uring is refused");
  }
}

// Answers each attempt with the next of the results that it is given.
class ScriptedDisk final : public Disk {
 public:
  explicit ScriptedDisk(std::vector<std::int64_t> results)
      : Disk(DiskOptions{}, 1), results_(std::move(results)) {}
  bool all_used() const { return used_ == results_.size(); }
  std::vector<std::uint64_t> pauses;

 private:
  const char* backend() const noexcept override { return "scripted"; }
  void start(Request& request) noexcept override { arrived(request, results_.at(used_++)); }
  void pause(std::uint64_t nanoseconds) noexcept override { pauses.push_back(nanoseconds); }

  std::vector<std::int64_t> results_;
  std::size_t used_ = 0;
};

class WhatResultsMean : public testing::Test {
 protected:
  void expect(Operation operation, std::vector<std::int64_t> results, int error,
              std::size_t bytes_done, std::size_t alignment = 1) {
    ScriptedDisk disk(std::move(results));
    expect_on(disk, operation, error, bytes_done, alignment);
    EXPECT_TRUE(disk.all_used());
  }
  void expect_on(ScriptedDisk& disk, Operation operation, int error, std::size_t bytes_done,
                 std::size_t alignment = 1) {
    request.operation = operation;
    request.set_memory(memory.data(), memory.size());
    request.alignment = alignment;
    disk.submit(request);
    ASSERT_TRUE(request.done());
    EXPECT_EQ(request.error, error);
    EXPECT_EQ(request.bytes_done, bytes_done);
  }
  Bytes memory{2048};
  Request request;
};

TEST_F(WhatResultsMean, ADeviceThatTakesNothingIsAnError) {
  expect(Operation::kWrite, {0}, EIO, 0);
  expect(Operation::kWrite, {512, 0}, EIO, 512);
}

TEST_F(WhatResultsMean, NothingReadIsTheEnd) {
  expect(Operation::kRead, {0}, 0, 0);
  expect(Operation::kRead, {512, 0}, 0, 512);
}

TEST_F(WhatResultsMean, WhatIsMissingIsAskedForAgain) {
  for (const Operation operation : {Operation::kRead, Operation::kWrite}) {
    expect(operation, {2048}, 0, 2048);
    expect(operation, {1, 2047}, 0, 2048);
    expect(operation, {-EINTR, 512, -EAGAIN, 1024, 512}, 0, 2048);
    // Inside a sector, once: from the beginning of that sector again.
    expect(operation, {700, 1536}, 0, 2048, 512);
    expect(operation, {700, 400, 1024, 512}, 0, 2048, 512);
  }
}

// As only the end of a file cuts transfers of whole sectors.
TEST_F(WhatResultsMean, CutTwiceInTheSamePlaceInsideASector) {
  expect(Operation::kRead, {700, 188}, 0, 700, 512);
  expect(Operation::kWrite, {700, 188}, EIO, 700, 512);
}

TEST_F(WhatResultsMean, TheFirstErrorIsKept) {
  expect(Operation::kWrite, {512, -ENOSPC}, ENOSPC, 512);
  expect(Operation::kRead, {-EIO}, EIO, 0);
}

// The kernel is short of something, and gets some time.
TEST_F(WhatResultsMean, AShortageIsWaitedFor) {
  constexpr std::uint64_t kUs = 1000;
  ScriptedDisk passes({-EAGAIN, -EAGAIN, -EINTR, -EAGAIN, 512, -EAGAIN, 1536});
  expect_on(passes, Operation::kRead, 0, 2048);
  EXPECT_EQ(passes.pauses, (std::vector<std::uint64_t>{20 * kUs, 40 * kUs, 80 * kUs, 20 * kUs}));
  ScriptedDisk lasts(std::vector<std::int64_t>(1000, -EAGAIN));
  expect_on(lasts, Operation::kRead, EAGAIN, 0);
  ASSERT_FALSE(lasts.pauses.empty());
  EXPECT_TRUE(std::is_sorted(lasts.pauses.begin(), lasts.pauses.end()));
  EXPECT_LE(lasts.pauses.back(), 50'000 * kUs);
  const std::uint64_t all = std::accumulate(lasts.pauses.begin(), lasts.pauses.end(), 0UL);
  EXPECT_GE(all, 1'000'000 * kUs);
  EXPECT_LE(all, 4'000'000 * kUs);
}

// A request that is submitted again starts without anything learnt from its first submission.
TEST_F(WhatResultsMean, ARequestBeginsAnew) {
  ScriptedDisk cut({700, 188, 700, 1536});
  expect_on(cut, Operation::kRead, 0, 700, 512);
  expect_on(cut, Operation::kRead, 0, 2048, 512);

  std::vector<std::int64_t> results(600, -EINTR);
  results.push_back(-EIO);
  results.insert(results.end(), 600, -EINTR);
  results.push_back(2048);
  ScriptedDisk interrupted(results);
  expect_on(interrupted, Operation::kWrite, EIO, 0);
  expect_on(interrupted, Operation::kWrite, 0, 2048);
  EXPECT_TRUE(interrupted.all_used());
}

// Whether the kernel has put the thread to sleep.
bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t at = text.rfind(") ");
  return at != std::string::npos && text[at + 2] == 'S';
}

// The kernel finishes a request inside the thread that submitted it, and wakes it for that.
TEST_P(DiskTest, ARequestThatEndsInterruptsNoSystemCallOfItsSubmitter) {
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time is for one thread";
  MAKE_DISK();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const int event = eventfd(0, 0);
  const int events = epoll_create1(0);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(events, EPOLL_CTL_ADD, event, &wanted), 0);
  std::byte byte{};
  Request request;
  prepare(request, Operation::kRead, Request::kSequential, &byte, 1);
  request.file = ends[0];
  disk->submit(request);
  const pid_t submitter = gettid();
  std::thread other([&] {
    while (!sleeps(submitter)) std::this_thread::yield();
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_TRUE(disk->wait(request));
    const std::uint64_t one = 1;
    EXPECT_EQ(write(event, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  });
  epoll_event got{};
  const int count = epoll_wait(events, &got, 1, -1);
  EXPECT_EQ(count, 1) << std::strerror(errno);
  other.join();
  for (const int file : {ends[0], ends[1], event, events}) close(file);
}

// The kernel takes a ring apart after it was closed, and calls on each thread that has entered it.
TEST_P(DiskTest, ADiskThatHasGoneInterruptsNoSystemCallOfItsMaker) {
  if (!GetParam().has_threads) GTEST_SKIP() << "virtual time is for one thread";
  const int events = epoll_create1(0);
  for (int round = 0; round < 40; ++round) {
    { MAKE_DISK(); }
    epoll_event got{};
    EXPECT_EQ(epoll_wait(events, &got, 1, 2), 0) << std::strerror(errno);
  }
  close(events);
}

// A security module, or a kernel without memory: what it refuses are requests, not the process.
TEST(UringDiskDeathTest, SubmissionsThatAreRefusedForGoodAreErrorsOfTheRequests) {
  const auto body = [](int error, int expected) {
    std::unique_ptr<UringDisk> disk;
    try {
      disk = std::make_unique<UringDisk>(DiskOptions{.depth = 4});
    } catch (const Error&) {
      return 77;
    }
    std::array<int, 2> ends{};
    const int file = memfd_create("disk_test", MFD_CLOEXEC);
    if (file < 0 || pipe(ends.data()) != 0) return 1;
    std::array<std::byte, 512> memory{};
    const auto write_some = [&](Request& request, int to) {
      request.operation = Operation::kWrite;
      request.file = to;
      request.set_memory(memory.data(), memory.size());
      disk->submit(request);
    };
    Request good;
    write_some(good, file);
    disk->wait(good);
    if (good.error != 0) return 2;
    std::byte byte{};
    Request under_way;
    under_way.operation = Operation::kRead;
    under_way.file = ends[0];
    under_way.offset = Request::kSequential;
    under_way.set_memory(&byte, 1);
    disk->submit(under_way);
    // The kernel has it when the disk's next request has ended.
    write_some(good, file);
    disk->wait(good);
    if (!test::refuse_call(SYS_io_uring_enter, error)) return 78;
    std::deque<Request> refused(8);
    for (Request& request : refused) write_some(request, file);
    for (Request& request : refused) {
      disk->wait(request);
      if (request.error != expected) return 3;
    }
    if (under_way.done()) return 4;
    if (write(ends[1], "x", 1) != 1) return 5;
    disk->wait(under_way);
    if (under_way.error != 0 || byte != std::byte{'x'}) return 6;
    disk.reset();
    return 0;
  };
  for (const auto& [error, expected] :
       {std::pair{EPERM, EPERM}, {EAGAIN, ENOMEM}, {EBUSY, EBUSY}}) {
    int code = -1;
    EXPECT_EXIT(
        _exit(body(error, expected)),
        [&](int status) {
          if (WIFEXITED(status)) code = WEXITSTATUS(status);
          return code == 0 || code == 77 || code == 78;
        },
        "");
    if (code == 77) END_TEST_WITHOUT(test::Environment::kUring, "io_uring is refused");
    if (code == 78) END_TEST_WITHOUT(test::Environment::kSeccomp, "seccomp is refused");
  }
}

// Transfers that lie in a registered range, to its last byte, go by way of the registration, and no
// others do.
TEST(RegisteredMemory, IsUsedExactlyWhereItIs) {
  constexpr std::size_t kBytes = 4096;
  std::unique_ptr<UringDisk> disk;
  try {
    disk = std::make_unique<UringDisk>();
  } catch (const Error& error) {
    END_TEST_WITHOUT(test::Environment::kUring, error.what());
  }
  std::mt19937_64 random = test::test_random();
  Bytes memory = random_bytes(random, 3 * kBytes);
  std::byte* const begin = memory.data() + kBytes;
  const int file = memfd_create("disk_test", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  disk->register_memory(begin, kBytes, kBytes);
  const std::string registration = disk->statistics().registration;
  for (const char* const limit : {"RLIMIT_MEMLOCK", "not possible"}) {
    if (registration.find(limit) != std::string::npos) GTEST_SKIP() << registration;
  }
  ASSERT_EQ(registration, format_bytes(kBytes) + " registered");
  const auto fixed_attempts = [&](std::ptrdiff_t at, std::size_t bytes) {
    const std::uint64_t before = disk->statistics().fixed_attempts;
    Request request;
    request.operation = Operation::kWrite;
    request.file = file;
    request.set_memory(begin + at, bytes);
    disk->submit(request);
    EXPECT_TRUE(disk->wait(request));
    EXPECT_EQ(request.error, 0);
    EXPECT_EQ(request.bytes_done, bytes);
    Bytes written(bytes);
    EXPECT_EQ(pread(file, written.data(), bytes, 0), static_cast<ssize_t>(bytes));
    EXPECT_TRUE(std::equal(written.begin(), written.end(), begin + at));
    return disk->statistics().fixed_attempts - before;
  };
  constexpr auto kEnd = static_cast<std::ptrdiff_t>(kBytes);
  EXPECT_EQ(fixed_attempts(0, kBytes), 1u);
  EXPECT_EQ(fixed_attempts(0, 1), 1u);
  EXPECT_EQ(fixed_attempts(kEnd - 1, 1), 1u);
  EXPECT_EQ(fixed_attempts(kEnd - 1, 2), 0u);
  EXPECT_EQ(fixed_attempts(kEnd, 1), 0u);
  EXPECT_EQ(fixed_attempts(-1, 2), 0u);
  EXPECT_EQ(fixed_attempts(-1, kBytes + 2), 0u);
  // Known as long as somebody needs it.
  disk->register_memory(begin, kBytes, kBytes);
  disk->unregister_memory(begin);
  EXPECT_EQ(fixed_attempts(0, kBytes), 1u);
  disk->unregister_memory(begin);
  EXPECT_EQ(fixed_attempts(0, kBytes), 0u);
  close(file);
}

}  // namespace

}  // namespace vortex::disk_test

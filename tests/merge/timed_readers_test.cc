// Many files read together at rates of their own: every byte, whatever the rates; deadlines on
// virtual time; one memory; errors that reach one reader; what disks are able to promise.
#include "vortex/files/timed_readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "study/fault_plan.h"
#include "study/simulated_disk.h"
#include "tests/disk/test_disk.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/policy_name.h"
#include "tests/support/random_seed.h"
#include "tests/support/random_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/file_writer.h"
#include "vortex/os/memory.h"

namespace vortex::test::timed_readers_test { namespace {

constexpr std::size_t kBlock = kMinBlockBytes;
constexpr PrefetchKind kKinds[] = {
    PrefetchKind::kOptimal, PrefetchKind::kAsynchronousForecastAndFlush, PrefetchKind::kNaive};

// Files in one folder, and disks of one kind.
class TimedReading : public ::testing::Test {
 protected:
  std::string make_file(std::size_t bytes) {
    texts.push_back(random_text(random, bytes));
    const std::string path = folder.file("film" + std::to_string(texts.size() - 1));
    put_file_text(path, texts.back());
    return path;
  }
  // One that lies on all disks.
  std::unique_ptr<StripedFile> make_striped(std::size_t bytes, std::size_t unit_bytes) {
    texts.push_back(random_text(random, bytes));
    std::vector<StripedFile::Part> parts;
    for (const auto& disk : disks) {
      parts.push_back({folder.file("part" + std::to_string(parts.size())), disk.get()});
    }
    auto file = std::make_unique<StripedFile>(parts, StripedFileOptions{.unit_bytes = unit_bytes});
    FileWriter<char> writer(file->writing_layout(), {.block_bytes = kBlock});
    for (std::size_t at = 0; at < bytes; at += kBlock) {
      texts.back().copy(writer.data() + at, kBlock, at);
    }
    writer.finish(bytes);
    return file;
  }
  void make_disks(Backend backend, std::size_t count, std::shared_ptr<FaultPlan> plan = nullptr) {
    disks.clear();
    for (std::size_t i = 0; i < count; ++i) {
      disks.push_back(with_faults(open_test_disk(backend, clock), plan));
    }
    virtual_time = backend == Backend::kVirtual;
  }
  TimedReadersOptions options(std::size_t memory_blocks, std::size_t group,
                              PrefetchKind kind = PrefetchKind::kOptimal) {
    TimedReadersOptions options;
    for (const auto& disk : disks) options.disks.push_back({.disk = disk.get()});
    options.memory_bytes = memory_blocks * kBlock;
    options.block_bytes = kBlock;
    options.request_bytes = group * kBlock;
    options.prefetch = kind;
    if (virtual_time) options.now_ns = [this] { return clock.now_ns(); };
    return options;
  }
  // The blocks that so many readers need at least.
  std::size_t least_blocks(std::size_t readers, std::size_t group) const {
    return readers + (disks.size() + 1) * group;
  }

  std::mt19937_64 random = test_random();
  TemporaryFolder folder{"/dev/shm"};
  std::vector<std::string> texts;
  VirtualClock clock;
  bool virtual_time = false;
  std::vector<std::unique_ptr<Disk>> disks;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A reader, and what it has still to show.
struct Shown {
  TimedReader reader;
  std::string rest;
  std::uint64_t offset = 0;
  bool ended = false;

  // Whether there was more.
  bool step() {
    EXPECT_EQ(reader.offset(), offset);
    const std::string part = text_of(reader.next());
    EXPECT_LE(part.size(), kBlock);
    EXPECT_TRUE(part == rest.substr(0, part.size())) << "at byte " << offset;
    EXPECT_EQ(part.empty(), rest.empty());
    rest.erase(0, part.size());
    offset += part.size();
    ended = part.empty();
    return !ended;
  }
};

class TimedReadingBy : public TimedReading,
                       public ::testing::WithParamInterface<std::tuple<Backend, PrefetchKind>> {};

// Parts of files, read in any order and at any speed, while rates change and readers come and go.
TEST_P(TimedReadingBy, ShowsEveryByteInFixedMemory) {
  const auto [backend, kind] = GetParam();
  for (int round = 0; round < 6; ++round) {
    const std::size_t group = 1 + random() % 4;
    make_disks(backend, 1 + random() % 3);
    const std::size_t most = 1 + random() % 6;
    const std::size_t blocks = least_blocks(most, group) + random() % (2 * most * group);
    texts.clear();
    std::vector<std::string> paths;
    for (int i = 0; i < 4; ++i) paths.push_back(make_file(random() % (20 * kBlock)));
    TimedReaders readers(options(blocks, group, kind));
    std::vector<Shown> shown;
    const auto open_one = [&] {
      const std::size_t file = random() % paths.size();
      TimedReaderOptions one;
      one.begin = random() % 3 == 0 ? random() % (texts[file].size() + kBlock) : 0;
      if (random() % 3 == 0) one.bytes = random() % (10 * kBlock);
      if (random() % 2 == 0) one.bytes_per_s = static_cast<double>(1 + random() % 100'000'000);
      if (random() % 3 == 0) {
        one.due_ns = [speed = 1 + random() % 100](std::uint64_t at) { return at * speed; };
      }
      one.disk = disks[random() % disks.size()].get();
      const std::size_t begin = std::min<std::size_t>(one.begin, texts[file].size());
      shown.push_back(
          {readers.open(paths[file], one), texts[file].substr(begin, one.bytes), begin, false});
    };
    std::size_t opened = 0;
    for (; opened < most; ++opened) open_one();
    if (random() % 2 == 0) readers.fill();
    while (!shown.empty()) {
      Shown& one = shown[random() % shown.size()];
      const auto action = random() % 16;
      if (action == 0) one.reader.set_rate(static_cast<double>(random() % 50'000'000));
      if (action == 1) static_cast<void>(one.reader.ready());
      if (action == 2 && virtual_time) clock.advance(random() % 1'000'000);
      const bool leaves = !one.step() || action == 3;
      if (HasFailure()) return;
      if (!leaves) continue;
      std::swap(one, shown.back());
      shown.pop_back();
      if (opened < 3 * most) {
        ++opened;
        open_one();
      }
    }
    const TimedReadersStatistics statistics = readers.statistics();
    EXPECT_EQ(statistics.blocks, blocks);
    EXPECT_LE(statistics.peak_blocks, blocks);
  }
}

std::string name_of_way(const testing::TestParamInfo<std::tuple<Backend, PrefetchKind>>& way) {
  std::string kind(prefetch_kind_name(std::get<1>(way.param)));
  std::erase(kind, '-');
  return name_of(std::get<0>(way.param)) + kind;
}
INSTANTIATE_TEST_SUITE_P(All, TimedReadingBy,
                         testing::Combine(testing::ValuesIn(kAllBackends),
                                          testing::ValuesIn(kKinds)),
                         name_of_way);

// Notes where each request begins.
class Noted final : public FaultPlan {
 public:
  PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
    const std::lock_guard lock(mutex);
    requests.emplace_back(attempt.file, attempt.offset);
    return {};
  }
  std::mutex mutex;
  std::vector<std::pair<int, std::uint64_t>> requests;
};

// Before anybody has begun, one disk is asked for units in the order of i / rate: what a list that
// is sorted says.
TEST_F(TimedReading, TheEarliestDeadlineComesFirst) {
  for (int round = 0; round < 20; ++round) {
    const auto noted = std::make_shared<Noted>();
    make_disks(Backend::kVirtual, 1, noted);
    constexpr std::size_t kUnits = 12;
    const std::size_t count = 2 + random() % 5;
    TimedReaders readers(options(least_blocks(count, 1) + random() % 40, 1, PrefetchKind::kNaive));
    std::vector<TimedReader> all;
    std::vector<double> deadlines;
    std::vector<double> rates;
    for (std::size_t i = 0; i < count; ++i) {
      rates.push_back(static_cast<double>(1000 + random() % 100'000));
      all.push_back(readers.open(make_file(kUnits * kBlock), {.bytes_per_s = rates.back()}));
      for (std::size_t unit = 1; unit <= kUnits; ++unit) {
        deadlines.push_back(static_cast<double>(unit) / rates.back());
      }
    }
    readers.fill();
    std::ranges::sort(deadlines);
    const std::size_t there = noted->requests.size();
    EXPECT_EQ(there, std::min<std::size_t>(readers.statistics().blocks, count * kUnits));
    // Descriptors are opened in the order of the readers.
    std::vector<int> files;
    for (const auto& [file, offset] : noted->requests) files.push_back(file);
    std::ranges::sort(files);
    files.erase(std::unique(files.begin(), files.end()), files.end());
    double before = 0;
    for (std::size_t i = 0; i < there; ++i) {
      const auto& [file, offset] = noted->requests[i];
      if (files.size() < count) break;  // some have nothing in memory, and cannot be told
      const auto reader = static_cast<std::size_t>(std::ranges::find(files, file) - files.begin());
      const double deadline = static_cast<double>(offset / kBlock + 1) / rates[reader];
      EXPECT_GE(deadline, before);
      EXPECT_NEAR(deadline, deadlines[i], 1e-9);
      before = deadline;
    }
  }
}

// Bytes behind the place where a film turns, read at half its rate.
std::uint64_t turned(std::uint64_t at) { return at - std::min<std::uint64_t>(at, 40 * kBlock); }

// Forty films at 0.6 of what the disks read; half of them tell deadlines, and half their rate where
// they turn.
TEST_F(TimedReading, NobodyWaitsWhomTheDisksCarry) {
  for (const PrefetchKind kind : kKinds) {
    constexpr std::size_t kReaders = 40;
    constexpr std::size_t kGroup = 4;
    make_disks(Backend::kVirtual, 4);
    std::vector<double> rates;
    double sum = 0;
    for (std::size_t i = 0; i < kReaders; ++i) {
      sum += rates.emplace_back(static_cast<double>(1 + random() % 20));
    }
    // By the disks of open_test_disk(), which seek for 0.1 ms.
    constexpr double kCarried = 4 * 4 * kBlock / (4 * kBlock / 1e9 + 1e-4);
    for (double& rate : rates) rate *= 0.6 * kCarried / sum;
    TimedReadersOptions group = options(3 * kReaders * kGroup, kGroup, kind);
    TimedReaders readers(group);
    std::vector<TimedReader> films;
    const auto file = make_striped(600 * kBlock, kGroup * kBlock);
    for (std::size_t i = 0; i < kReaders; ++i) {
      TimedReaderOptions film{.bytes_per_s = rates[i]};
      if (i % 2 == 0) {
        film.due_ns = [rate = rates[i]](std::uint64_t at) {
          return static_cast<std::uint64_t>(static_cast<double>(at + turned(at)) * 1e9 / rate);
        };
      }
      films.push_back(readers.open(file->reading_layout(), film));
    }
    readers.fill();
    const std::uint64_t begin = clock.now_ns();
    std::vector<double> due(kReaders);
    for (double& one : due) one = static_cast<double>(begin + random() % 10'000'000);
    for (;;) {
      const std::size_t i = static_cast<std::size_t>(std::ranges::min_element(due) - due.begin());
      if (due[i] > static_cast<double>(begin) + 5e8) break;
      const auto now = static_cast<double>(clock.now_ns());
      if (due[i] > now) clock.advance(static_cast<std::uint64_t>(due[i] - now) + 1);
      const std::uint64_t offset = films[i].offset();
      const std::string part = text_of(films[i].next());
      ASSERT_TRUE(part == texts.back().substr(offset, part.size()));
      const std::size_t slowly = i % 2 == 0 ? turned(offset + part.size()) - turned(offset) : 0;
      due[i] =
          part.empty() ? 1e18 : due[i] + static_cast<double>(part.size() + slowly) * 1e9 / rates[i];
    }
    for (const TimedReader& film : films) {
      EXPECT_EQ(film.statistics().late, 0U) << prefetch_kind_name(kind);
      EXPECT_EQ(film.statistics().waited_ns, 0U);
    }
  }
}

// What it takes is seen, on virtual time to the byte.
TEST_F(TimedReading, ARateThatNobodyToldIsObserved) {
  make_disks(Backend::kVirtual, 1);
  TimedReaders readers(options(20, 2));
  TimedReader reader = readers.open(make_file(40 * kBlock));
  EXPECT_EQ(reader.rate(), 0);
  readers.fill();
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(reader.next());
    clock.advance(1'000'000);
  }
  EXPECT_NEAR(reader.rate(), kBlock * 1e3, kBlock);
}

// Readers that stand still hold a block each, and the others go on in what is left.
TEST_F(TimedReading, OneReaderGoesOnWhileTheOthersStandStill) {
  for (const PrefetchKind kind : kKinds) {
    make_disks(Backend::kThreads, 2);
    constexpr std::size_t kReaders = 8;
    constexpr std::size_t kGroup = 8;
    TimedReaders readers(options(least_blocks(kReaders, kGroup), kGroup, kind));
    std::vector<Shown> shown;
    for (std::size_t i = 0; i < kReaders; ++i) {
      const std::string path = make_file((30 + random() % 20) * kBlock + random() % kBlock);
      shown.push_back({readers.open(path), texts.back()});
    }
    EXPECT_TRUE(fails([&] { readers.open(folder.file("film0")); }, ENOBUFS, {"film0", "for 8"}));
    for (Shown& one : shown) one.step();
    for (Shown& one : shown) {
      for (std::size_t i = random() % 30; i > 0; --i) one.step();
    }
    for (Shown& one : shown) {
      while (one.step() && !HasFailure()) {
      }
    }
    EXPECT_LE(readers.statistics().peak_blocks, readers.statistics().blocks);
  }
}

// A fault at each request in turn: one reader alone hears of it, at that place and ever after.
TEST_F(TimedReading, AnErrorReachesItsReaderAlone) {
  constexpr std::size_t kFiles = 3;
  constexpr std::size_t kBlocks = 9;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < kFiles; ++i) paths.push_back(make_file(kBlocks * kBlock - 5));
  for (const Backend backend : {Backend::kThreads, Backend::kVirtual, Backend::kUring}) {
    for (std::uint64_t request = 0; request < 15; ++request) {
      make_disks(backend, 1, error_at(request, EIO));
      TimedReaders readers(options(14, 2, kKinds[request % 3]));
      std::vector<Shown> shown;
      for (std::size_t i = 0; i < kFiles; ++i) {
        shown.push_back({readers.open(paths[i], {.bytes_per_s = 1e6}), texts[i]});
      }
      std::size_t failed = 0;
      for (std::size_t i = 0; i < kFiles; ++i) {
        while (!shown[i].ended && !HasFailure()) {
          std::string message;
          const int error = error_of([&] { shown[i].step(); }, &message);
          if (error == 0) continue;
          EXPECT_EQ(error, EIO);
          EXPECT_TRUE(contains(message, paths[i]));
          EXPECT_TRUE(contains(message, "at byte " + std::to_string(shown[i].offset)));
          EXPECT_TRUE(fails([&] { shown[i].reader.next(); }, EIO, message));
          EXPECT_TRUE(shown[i].reader.ready());
          shown[i].ended = true;
          ++failed;
        }
      }
      EXPECT_EQ(failed, 1U) << "request " << request;
    }
  }
}

std::atomic<std::size_t> blocks_given{0};

// The system gives memory for some blocks. With too little for a request the call fails, and may be
// repeated.
TEST_F(TimedReading, WithoutMemoryForABlockTheCallMayBeRepeated) {
  constexpr std::size_t kGroup = 4;
  for (std::size_t given = 0; given <= 3 * kGroup; ++given) {
    for (std::size_t count = 1; count <= 3; ++count) {
      SCOPED_TRACE(::testing::Message() << given << " blocks for " << count << " readers");
      make_disks(given % 2 == 0 ? Backend::kThreads : Backend::kVirtual, 1);
      texts.clear();
      TimedReaders readers(options(least_blocks(count, kGroup) + 2, kGroup, kKinds[given % 3]));
      std::vector<Shown> shown;
      for (std::size_t i = 0; i < count; ++i) {
        const std::string path = make_file(10 * kBlock + random() % (10 * kBlock));
        shown.push_back({readers.open(path), texts.back()});
      }
      blocks_given = given;
      os::set_failure_hook([](os::MemoryCall call) noexcept {
        if (call != os::MemoryCall::kPopulate) return 0;
        return blocks_given > 0 && blocks_given-- > 0 ? 0 : ENOMEM;
      });
      std::size_t refused = 0;
      for (std::size_t ended = 0; ended < count && !HasFailure();) {
        Shown& one = shown[random() % count];
        if (one.ended) continue;
        std::string message;
        const int error = error_of([&] { one.step(); }, &message);
        ended += one.ended;
        if (error == 0) continue;
        EXPECT_EQ(error, ENOMEM);
        EXPECT_TRUE(contains(message, "byte " + std::to_string(one.offset)));
        if (++refused == 10) os::set_failure_hook(nullptr);
      }
      os::set_failure_hook(nullptr);
      if (given < kGroup) {
        EXPECT_GT(refused, 0U);
      }
    }
  }
}

TEST_F(TimedReading, AFileThatHasBecomeShorterIsAnError) {
  make_disks(Backend::kThreads, 1);
  const std::string path = make_file(10 * kBlock);
  TimedReaders readers(options(6, 1));
  TimedReader reader = readers.open(path, {});
  std::filesystem::resize_file(path, kBlock);
  EXPECT_EQ(reader.next().size(), kBlock);
  EXPECT_TRUE(fails([&] { reader.next(); }, ENODATA, {path, std::to_string(kBlock)}));
}

// 0.9 of 100 MB/s in requests of 32 KiB that cost as much again.
TEST_F(TimedReading, DisksPromiseWhatTheyCarry) {
  make_disks(Backend::kThreads, 2);
  TimedReadersOptions group = options(100, 2);
  group.disks[0].read_bytes_per_s = 100e6;
  group.disks[0].request_cost_bytes = 2 * kBlock;
  TimedReaders readers(group);
  const std::string path = make_file(8 * kBlock);
  TimedReader first = readers.open(path, {.bytes_per_s = 30e6});
  TimedReader second = readers.open(path, {.bytes_per_s = 15e6});
  EXPECT_EQ(readers.statistics().carried, (std::vector<double>{50e6, 0}));
  EXPECT_EQ(readers.statistics().promised, (std::vector<double>{45e6, 0}));
  const auto third = [&] { return readers.open(path, {.bytes_per_s = 1e6}); };
  EXPECT_TRUE(
      fails(third, EBUSY, {path, "1000000", "0 bytes a second left", "50000000", "45000000"}));
  EXPECT_TRUE(fails([&] { first.set_rate(31e6); }, EBUSY, {path}));
  EXPECT_EQ(first.rate(), 30e6);
  // Not known of the other disk, and not counted of who tells no rate.
  TimedReader elsewhere = readers.open(path, {.bytes_per_s = 1e9, .disk = disks[1].get()});
  TimedReader unknown = readers.open(path);
  second.set_rate(10e6);
  EXPECT_EQ(third().rate(), 1e6);
  second = TimedReader();
  EXPECT_NEAR(readers.statistics().promised[0], 30e6, 1);
  first.set_rate(45e6);
}

TEST_F(TimedReading, WhatCannotBeReadIsRefused) {
  make_disks(Backend::kThreads, 1);
  TimedReadersOptions group = options(20, 2);
  TimedReadersOptions wrong = group;
  wrong.disks.clear();
  EXPECT_TRUE(fails([&] { TimedReaders{wrong}; }, EINVAL, "no disk"));
  wrong = group;
  wrong.disks.push_back({});
  EXPECT_TRUE(fails([&] { TimedReaders{wrong}; }, EINVAL, "a disk is none"));
  for (const PrefetchKind kind : {PrefetchKind::kStriped, PrefetchKind::kForecastAndFlush}) {
    wrong = group;
    wrong.prefetch = kind;
    EXPECT_TRUE(fails([&] { TimedReaders{wrong}; }, EINVAL, std::string(prefetch_kind_name(kind))));
  }
  TimedReaders readers(group);
  const std::string path = make_file(5);
  const auto other = open_disk();
  const auto open = [&](const TimedReaderOptions& one) { return readers.open(path, one); };
  EXPECT_TRUE(fails([&] { open({.disk = other.get()}); }, EINVAL, "none of those"));
  EXPECT_TRUE(fails([&] { open({.bytes_per_s = -1}); }, EINVAL, path));
  EXPECT_TRUE(fails([&] { readers.open("/dev/null/none"); }, ENOTDIR));
  const auto file = make_striped(5 * kBlock, 4 * kBlock);
  EXPECT_TRUE(fails([&] { readers.open(file->reading_layout()); }, EINVAL, "must be equal"));
  TimedReader reader = open({});
  EXPECT_TRUE(fails([&] { reader.set_rate(-1); }, EINVAL, path));
  EXPECT_TRUE(text_of(reader.next()) == texts.front());
  EXPECT_TRUE(reader.next().empty());
  EXPECT_TRUE(reader.next().empty());
}

// Each of four threads has readers of its own, opens others, and leaves some early.
TEST_F(TimedReading, ThreadsReadBesideEachOther) {
  for (const Backend backend : {Backend::kUring, Backend::kThreads}) {
    make_disks(backend, 2);
    constexpr std::size_t kThreads = 4;
    std::vector<std::string> paths;
    texts.clear();
    for (int i = 0; i < 4; ++i) paths.push_back(make_file(random() % (40 * kBlock)));
    TimedReaders readers(options(least_blocks(3 * kThreads, 4), 4, kKinds[random() % 3]));
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, own = std::mt19937_64(random())]() mutable {
        for (int round = 0; round < 8; ++round) {
          std::vector<Shown> shown;
          for (std::size_t i = 0; i < 3; ++i) {
            const std::size_t file = own() % paths.size();
            shown.push_back(
                {readers.open(paths[file], {.disk = disks[own() % 2].get()}), texts[file]});
          }
          const std::size_t steps = own() % 60;
          for (std::size_t i = 0; i < steps; ++i) shown[own() % 3].step();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(readers.statistics().peak_blocks, readers.statistics().blocks);
  }
}

}}  // namespace vortex::test::timed_readers_test

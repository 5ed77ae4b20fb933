// No allocation in the fault handler, where it meets the disks: reading ahead, writing behind,
// waiting, errors. Here the threads of the disks may not allocate, either: what a fault waits for
// must not need the lock of a heap that the fault may have interrupted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/file/page_cache.h"
#include "tests/disk/test_disk.h"
#include "tests/support/random_seed.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched_heap.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex::no_allocation_io_test { namespace {

using test::Backend;
using test::HeapAtRest;
using test::TestDisk;
using Kind = PlannedFault::Kind;

constexpr std::size_t kBlock = std::size_t{16} << 10;
constexpr std::size_t kBlocks = 40;
constexpr std::size_t kBytes = kBlocks * kBlock - 1000;
constexpr std::array kCachings = {Caching::kAuto, Caching::kDirect, Caching::kBuffered};

// Runs the body, in which nobody calls the heap.
template <typename Body>
Failure without_heap(Body&& body) {
  const HeapAtRest rest;
  return guarded(body);
}

// A touch of each block from `first` on; up to the filler where `blocks` says so.
Failure read_blocks(const char* data, std::size_t blocks, std::size_t first = 0) {
  return without_heap([=] {
    for (std::size_t i = first; i < blocks; ++i) {
      (void)*static_cast<const volatile char*>(data + i * kBlock);
    }
  });
}

Failure write_blocks(char* data, std::size_t blocks, std::size_t step = 1) {
  return without_heap([=] {
    for (std::size_t i = 0; i < blocks; i += step) {
      *static_cast<volatile char*>(data + i * kBlock) = 'x';
    }
  });
}

// Interruptions and short transfers, held back and out of order.
std::shared_ptr<FaultPlan> disturbances() {
  return std::make_shared<RandomFaults>(
      test::test_seed(),
      RandomFaults::Rates{
          .short_transfer = 0.3, .interrupted = 0.1, .try_again = 0.1, .late = 0.3});
}

class NoAllocationIo : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (!test::kWatchedHeap) GTEST_SKIP() << test::kNoWatchedHeap;
    std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  }

  // Requests of one block, which may be registered, and of four.
  static std::vector<FileReaderOptions> ways_to_read(Disk* disk,
                                                     ReadOrder order = ReadOrder::kAny) {
    std::vector<FileReaderOptions> ways;
    for (const Caching caching : kCachings) {
      for (const std::size_t blocks : {1, 4}) {
        ways.push_back({.block_bytes = kBlock,
                        .comeback_blocks = blocks,
                        .read_ahead = 3,
                        .request_bytes = blocks * kBlock,
                        .order = order,
                        .caching = caching,
                        .disk = disk});
      }
    }
    return ways;
  }
  static std::vector<FileWriterOptions> ways_to_write(Disk* disk) {
    std::vector<FileWriterOptions> ways;
    for (const FileReaderOptions& way : ways_to_read(disk)) {
      ways.push_back({.block_bytes = way.block_bytes,
                      .comeback_blocks = way.comeback_blocks,
                      .write_behind = way.read_ahead,
                      .request_bytes = way.request_bytes,
                      .caching = way.caching,
                      .disk = way.disk});
    }
    return ways;
  }

  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

// The heap of this test is the one that the disks call, on whatever thread.
TEST_P(NoAllocationIo, TheTestNoticesAnAllocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  class AllocatingPlan final : public FaultPlan {
   public:
    explicit AllocatingPlan(std::uint64_t at) : at_(at) {}
    // The first attempt is cut short; whoever finds that out makes the second.
    PlannedFault decide(const Attempt&, std::uint64_t number) noexcept override {
      if (number == at_) {
        void* volatile memory = std::malloc(100);  // not to be optimised away
        std::free(memory);
      }
      return number == 0 ? PlannedFault{.kind = Kind::kShort, .bytes = 4096} : PlannedFault{};
    }

   private:
    std::uint64_t at_;
  };
  const test::FoldersWithin within(folder);
  for (const std::uint64_t at : {0, 1}) {
    EXPECT_EXIT(
        {
          TestDisk disk(GetParam(), std::make_shared<AllocatingPlan>(at));
          const FileReader<char> in(
              path, {.block_bytes = kBlock, .request_bytes = kBlock, .disk = disk.disk.get()});
          (void)read_blocks(in.data(), 1);
        },
        ::testing::ExitedWithCode(test::kHeapWasCalled), "the heap was called inside a fault");
  }
}

TEST_P(NoAllocationIo, Reading) {
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    for (const auto& faults : {std::shared_ptr<FaultPlan>(), disturbances()}) {
      TestDisk disk(GetParam(), faults);
      for (const FileReaderOptions& way : ways_to_read(disk.disk.get(), order)) {
        const FileReader<char> in(path, way);
        ASSERT_EQ(read_blocks(in.data(), kBlocks).error, 0);
        // The page after the end, which the last block has no room for.
        const HeapAtRest rest;
        (void)static_cast<const volatile char*>(in.data())[kBlocks * kBlock];
      }
    }
  }
}

// What lies behind the window of a reader that only goes forward.
TEST_P(NoAllocationIo, ReadingWhatHasGone) {
  TestDisk disk(GetParam());
  for (const FileReaderOptions& way : ways_to_read(disk.disk.get(), ReadOrder::kForward)) {
    const FileReader<char> in(path, way);
    ASSERT_EQ(read_blocks(in.data(), kBlocks).error, 0);
    EXPECT_EQ(read_blocks(in.data(), 1).error, EFAULT);
  }
}

TEST_P(NoAllocationIo, ReadingWithJumps) {
  TestDisk disk(GetParam());
  for (const FileReaderOptions& way : ways_to_read(disk.disk.get())) {
    const FileReader<char> in(path, way);
    const Failure failure = without_heap([data = in.data()] {
      for (std::size_t i = 1; i < kBlocks; i += i) {
        (void)*static_cast<const volatile char*>(data + i * kBlock);
        (void)*static_cast<const volatile char*>(data + (i - 1) * kBlock);
      }
    });
    EXPECT_EQ(failure.error, 0);
  }
}

// Drops, cursors in both directions, and blocks read again.
TEST_P(NoAllocationIo, ReadingInAnyOrder) {
  for (const auto& faults : {std::shared_ptr<FaultPlan>(), disturbances()}) {
    TestDisk disk(GetParam(), faults);
    for (FileReaderOptions way : ways_to_read(disk.disk.get())) {
      way.cursors = 2;
      const FileReader<char> in(path, way);
      const Failure failure = without_heap([data = in.data()] {
        for (std::size_t i = 0; i < kBlocks; ++i) {
          for (const std::size_t block : {kBlocks - 1 - i, i, i * 7 % kBlocks}) {
            (void)*static_cast<const volatile char*>(data + block * kBlock);
          }
        }
      });
      EXPECT_EQ(failure.error, 0);
    }
  }
}

TEST_P(NoAllocationIo, ReadingFromASharedPool) {
  BlockPool pool({.pool_bytes = 40 * kBlock, .block_bytes = kBlock});
  pool.wait_until_warm();
  TestDisk disk(GetParam());
  FileReader<char> in(path, {.request_bytes = 2 * kBlock, .disk = disk.disk.get(), .pool = &pool});
  FileWriter<char> out(folder.file("copy"),
                       {.request_bytes = 2 * kBlock, .disk = disk.disk.get(), .pool = &pool});
  const Failure failure = without_heap([from = in.data(), to = out.data()] {
    for (std::size_t i = 0; i < kBytes; ++i) static_cast<volatile char*>(to)[i] = from[i];
  });
  EXPECT_EQ(failure.error, 0);
  out.finish(kBytes);
}

TEST_P(NoAllocationIo, AnErrorAtEveryRequestOfAReader) {
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    for (std::uint64_t k = 0; k < kBlocks / 4; ++k) {
      TestDisk disk(GetParam(), test::error_at(k, EIO));
      const FileReader<char> in(path, ways_to_read(disk.disk.get(), order)[k % 6]);
      EXPECT_EQ(read_blocks(in.data(), kBlocks).error, EIO);
    }
  }
}

TEST_P(NoAllocationIo, AFileCutWhileItIsRead) {
  TestDisk disk(GetParam());
  const FileReader<char> in(path, ways_to_read(disk.disk.get())[0]);
  ASSERT_EQ(truncate(path.c_str(), kBytes / 2), 0);
  EXPECT_EQ(read_blocks(in.data(), kBlocks).error, ENODATA);
}

TEST_P(NoAllocationIo, AReadPastTheEndAndAWriteToWhatIsRead) {
  TestDisk disk(GetParam());
  for (const std::size_t at : {2 * kBlocks * kBlock, std::size_t{0}}) {
    // Room to be beyond the data.
    FileReaderOptions way = ways_to_read(disk.disk.get())[0];
    const FileReader<char> in(path, way);
    const Failure failure = without_heap([data = in.data(), at] {
      if (at == 0) {
        *const_cast<volatile char*>(data) = 'x';
      } else {
        (void)static_cast<const volatile char*>(data)[(kBlocks + 1) * kBlock - 1];
      }
    });
    EXPECT_EQ(failure.error, at == 0 ? EACCES : ERANGE);
  }
}

TEST_P(NoAllocationIo, Writing) {
  for (const auto& faults : {std::shared_ptr<FaultPlan>(), disturbances()}) {
    TestDisk disk(GetParam(), faults);
    for (const FileWriterOptions& way : ways_to_write(disk.disk.get())) {
      FileWriter<char> out(path, way);
      EXPECT_EQ(write_blocks(out.data(), kBlocks).error, 0);
      out.finish(kBytes);
    }
  }
}

TEST_P(NoAllocationIo, WritingWithJumps) {
  TestDisk disk(GetParam());
  for (const FileWriterOptions& way : ways_to_write(disk.disk.get())) {
    FileWriter<char> out(path, way);
    EXPECT_EQ(write_blocks(out.data(), kBlocks, 7).error, 0);
    out.finish(kBytes);
  }
}

TEST_P(NoAllocationIo, AnErrorAtEveryRequestOfAWriter) {
  for (const PlannedFault fault : {PlannedFault{.kind = Kind::kError, .error = EIO},
                                   PlannedFault{.kind = Kind::kError, .error = ENOSPC},
                                   PlannedFault{.kind = Kind::kTorn, .error = EIO, .bytes = 999}}) {
    for (std::uint64_t k = 0; k < kBlocks / 4; ++k) {
      TestDisk disk(GetParam(), std::make_shared<FaultAt>(k, fault));
      FileWriter<char> out(folder.file("new"), ways_to_write(disk.disk.get())[k % 6]);
      // Requests of the last blocks may end after the last touch.
      const Failure failure = write_blocks(out.data(), 2 * kBlocks);
      EXPECT_EQ(failure.error, fault.error) << k;
    }
  }
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_P(NoAllocationIo, StripedFiles) {
  for (const bool full : {false, true}) {
    std::vector<std::unique_ptr<TestDisk>> disks;
    std::vector<StripedFile::Part> parts;
    for (int i = 0; i < 3; ++i) {
      // One that is full from its third request on, or all of them.
      const auto plan = test::error_at(2, ENOSPC, Operation::kWrite, true);
      disks.push_back(std::make_unique<TestDisk>(GetParam(), i == 1 || full ? plan : nullptr));
      parts.push_back({folder.file("part" + std::to_string(i)), disks.back()->disk.get()});
    }
    StripedFileOptions options;
    options.strategy = AllocationStrategy::kRandomCyclic;
    options.unit_bytes = 2 * kBlock;
    StripedFile file(parts, options);
    {
      FileWriter<char> out(file.writing_layout(), {.block_bytes = kBlock});
      EXPECT_EQ(write_blocks(out.data(), kBlocks).error, full ? ENOSPC : 0);
      if (full) continue;
      out.finish(kBytes);
    }
    EXPECT_TRUE(file.left_out(1));
    const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
    EXPECT_EQ(read_blocks(in.data(), kBlocks).error, 0);
  }
}

// A thread whose first act is a fault that waits for a disk.
TEST_P(NoAllocationIo, FirstActOfAThread) {
  TestDisk disk(GetParam());
  const FileReader<char> in(path, ways_to_read(disk.disk.get())[1]);
  FileWriter<char> out(folder.file("new"), ways_to_write(disk.disk.get())[1]);
  std::thread([data = in.data()] { EXPECT_EQ(read_blocks(data, kBlocks).error, 0); }).join();
  std::thread([data = out.data()] { EXPECT_EQ(write_blocks(data, kBlocks).error, 0); }).join();
}

INSTANTIATE_TEST_SUITE_P(Backends, NoAllocationIo, testing::ValuesIn(test::kAllBackends),
                         [](const auto& backend) { return test::name_of(backend.param); });

class NoAllocationPipes : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kWatchedHeap) GTEST_SKIP() << test::kNoWatchedHeap;
    ASSERT_EQ(pipe(ends.data()), 0);
    // So that neither end waits for the other.
    ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, kBytes), static_cast<int>(kBytes));
  }
  void TearDown() override {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  std::array<int, 2> ends{-1, -1};
};

TEST_F(NoAllocationPipes, Reading) {
  const std::string text(kBytes, 'x');
  ASSERT_EQ(write(ends[1], text.data(), kBytes), static_cast<ssize_t>(kBytes));
  close(std::exchange(ends[1], -1));
  const FileReader<char> in(ends[0], {.block_bytes = kBlock});
  EXPECT_EQ(read_blocks(in.data(), kBlocks).error, 0);
}

TEST_F(NoAllocationPipes, Writing) {
  FileWriter<char> out(ends[1], {.block_bytes = kBlock});
  EXPECT_EQ(write_blocks(out.data(), kBlocks).error, 0);
  out.finish(kBytes);
}

TEST_F(NoAllocationPipes, Cancelling) {
  FileReader<char> in(ends[0], {.block_bytes = kBlock});
  std::atomic<int> step{0};
  std::thread other([&] {
    step.wait(0);
    in.stream().cancel(ECANCELED, "the test says so");
    // Not to end before the heap may be called.
    step.wait(1);
  });
  const Failure failure = without_heap([&] {
    step.store(1);
    step.notify_one();
    (void)*static_cast<const volatile char*>(in.data());
  });
  step.store(2);
  step.notify_one();
  other.join();
  EXPECT_EQ(failure.error, ECANCELED);
}

TEST(NoAllocationPageCache, EveryMethod) {
  if (!test::kWatchedHeap) GTEST_SKIP() << test::kNoWatchedHeap;
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("file"), std::ios::binary) << std::string(kBytes, 'x');
  const int file = open(folder.file("file").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  using Method = PageCacheProbe::Method;
  for (const Method method : {Method::kCachestat, Method::kReadWithoutWaiting, Method::kNone}) {
    PageCacheProbe probe(method);
    bool cached = false;
    {
      const HeapAtRest rest;
      cached = probe.worth_reading_through(file, 0, kBytes);
      probe.worth_reading_through(-1, 0, kBytes);  // refused
    }
    EXPECT_EQ(cached, method != Method::kNone);
  }
  close(file);
}

}  // namespace

}  // namespace vortex::no_allocation_io_test

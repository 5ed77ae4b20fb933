// FileReader and FileWriter against plain system calls: sizes, backends, caching, windows, errors;
// and offsets beyond 4 GiB, in sparse files of which only the places that matter are ever touched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tests/disk/reluctant_disk.h"
#include "tests/disk/test_disk.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/random_text.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/vortex/placing.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"
#include "vortex/output_stream.h"
#include "vortex/vanishing_array.h"

namespace vortex::file_stream_test { namespace {

using test::Backend;
using test::file_text;
using test::put_file_text;
using test::random_text;
using test::TestDisk;

using namespace test;

constexpr std::size_t kBlock = std::size_t{16} << 10;

// In order and in small pieces. A memmove() of more than the window is no sequential writer: the C
// library's stores the first bytes last.
void copy_to(char* to, const std::string& text) {
  for (std::size_t at = 0; at < text.size(); at += 512) {
    std::memcpy(to + at, text.data() + at, std::min<std::size_t>(512, text.size() - at));
  }
}

// Allocates nothing that a jump out of vortex::guarded() would leak.
void fill(char* to, char value, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 512) {
    std::memset(to + at, value, std::min<std::size_t>(512, size - at));
  }
}

// The zeros go to the end of the page and a page more.
void expect_text_and_zeros(const char* data, const std::string& text) {
  const std::size_t filled = (text.size() + 4095) / 4096 * 4096 + 4096;
  for (std::size_t i = 0; i < filled; ++i) {
    ASSERT_EQ(data[i], i < text.size() ? text[i] : '\0') << i;
  }
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string name_of(Caching caching) {
  switch (caching) {
    case Caching::kAuto:
      return "Auto";
    case Caching::kDirect:
      return "Direct";
    default:
      return "Buffered";
  }
}

using Setting = std::tuple<Backend, Caching, const char*>;  // and the folder

class FileStreams : public testing::TestWithParam<Setting> {
 protected:
  template <typename Options>
  Options options_on(Disk* disk) const {
    Options options;
    options.block_bytes = kBlock;
    options.request_bytes = 4 * kBlock;
    options.caching = std::get<1>(GetParam());
    options.disk = disk;
    return options;
  }
  // In any order it is another stream than forward.
  static constexpr ReadOrder kOrders[] = {ReadOrder::kAny, ReadOrder::kForward};
  FileReaderOptions reading(Disk* disk, ReadOrder order = ReadOrder::kAny) const {
    auto options = options_on<FileReaderOptions>(disk);
    options.order = order;
    options.read_ahead = 3;
    return options;
  }
  FileWriterOptions writing(Disk* disk) const {
    auto options = options_on<FileWriterOptions>(disk);
    options.write_behind = 3;
    return options;
  }
  Backend backend() const { return std::get<0>(GetParam()); }

  std::mt19937_64 random = test::test_random();
  test::TemporaryFolder folder{std::get<2>(GetParam())};
};

const std::size_t kSizes[] = {
    0,          1,          4095,           4096,       4097,           kBlock - 1,
    kBlock,     kBlock + 1, 4 * kBlock - 1, 4 * kBlock, 4 * kBlock + 1, 21 * kBlock + 12345,
    40 * kBlock};

TEST_P(FileStreams, WriteAndReadEverySize) {
  for (const std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const std::string text = random_text(random, size);
    const std::string path = folder.file("file");
    {
      TestDisk disk(backend());
      FileWriter<char> out(path, writing(disk.disk.get()));
      copy_to(out.data(), text);
      out.finish(size);
    }
    ASSERT_EQ(file_text(path), text);
    for (const ReadOrder order : kOrders) {
      TestDisk disk(backend());
      const FileReader<char> in(path, reading(disk.disk.get(), order));
      ASSERT_EQ(in.size(), size);
      expect_text_and_zeros(in.data(), text);
    }
  }
}

TEST_P(FileStreams, DisturbedTransfersLoseNothing) {
  for (int round = 0; round < 3; ++round) {
    const std::string text = random_text(random, 60 * kBlock + random() % kBlock);
    const std::string path = folder.file("file");
    const RandomFaults::Rates rates{
        .short_transfer = 0.3, .interrupted = 0.1, .try_again = 0.1, .late = 0.3};
    {
      TestDisk disk(backend(), std::make_shared<RandomFaults>(random(), rates));
      FileWriter<char> out(path, writing(disk.disk.get()));
      copy_to(out.data(), text);
      out.finish(text.size());
      EXPECT_GT(test::injected_faults(*disk.disk), 0u);
    }
    ASSERT_TRUE(file_text(path) == text);
    for (const ReadOrder order : kOrders) {
      TestDisk disk(backend(), std::make_shared<RandomFaults>(random(), rates));
      const FileReader<char> in(path, reading(disk.disk.get(), order));
      for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(in.data()[i], text[i]) << i;
      EXPECT_GT(test::injected_faults(*disk.disk), 0u);
    }
  }
}

TEST_P(FileStreams, JumpsAndComebacks) {
  const std::string text = random_text(random, 200 * kBlock + 77);
  put_file_text(folder.file("file"), text);
  for (const std::size_t comeback : {0u, 1u, 5u}) {
    TestDisk disk(backend());
    FileReaderOptions options = reading(disk.disk.get(), ReadOrder::kForward);
    options.comeback_blocks = comeback;
    const FileReader<char> in(folder.file("file"), options);
    std::size_t newest = 0;
    for (int i = 0; i < 400; ++i) {
      const std::size_t lowest = newest > comeback ? newest - comeback : 0;
      std::size_t block = lowest + random() % (newest - lowest + 2);
      if (random() % 40 == 0) block = newest + random() % 25;
      const std::size_t at = block * kBlock + random() % kBlock;
      if (at >= text.size()) break;
      ASSERT_EQ(in.data()[at], text[at]);
      newest = std::max(newest, block);
    }
  }
}

TEST_P(FileStreams, WhatIsJumpedOverBecomesZeros) {
  const std::string path = folder.file("file");
  std::string text(70 * kBlock, '\0');
  {
    TestDisk disk(backend());
    FileWriter<char> out(path, writing(disk.disk.get()));
    const auto write = [&](std::size_t at, char value, std::size_t count) {
      fill(out.data() + at, value, count);
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), count, value);
    };
    // Every block of the pool holds something before the first is jumped over.
    write(0, 'x', 30 * kBlock);
    for (std::size_t block = 30; block < 70; block += 1 + random() % 3) {
      write(block * kBlock, 'y', 1 + random() % 3000);
      for (int i = 0; i < 3; ++i) write(block * kBlock + 4096 + random() % 12000, 'z', 1);
    }
    out.finish(text.size());
  }
  ASSERT_TRUE(file_text(path) == text);
}

TEST_P(FileStreams, AnErrorAtEveryRequestOfAReader) {
  constexpr std::size_t kBlocks = 40;
  const std::string text = random_text(random, kBlocks * kBlock);
  put_file_text(folder.file("file"), text);
  for (std::uint64_t request = 0; request < 2 * (kBlocks / 4); ++request) {
    const std::uint64_t k = request / 2;
    TestDisk disk(backend(), test::error_at(k, EIO));
    FileReader<char> in(folder.file("file"), reading(disk.disk.get(), kOrders[request % 2]));
    std::size_t i = 0;
    bool right = true;
    const Failure failure = guarded([&] {
      for (; i < text.size(); ++i) right = right && in.data()[i] == text[i];
    });
    EXPECT_TRUE(right);
    EXPECT_EQ(failure.error, EIO) << failure.message();
    EXPECT_EQ(i, k * 4 * kBlock) << failure.message();
    EXPECT_TRUE(test::contains(failure.message(), "file' at byte " + std::to_string(i) + " "));
  }
}

// No byte under the name, whatever fails and when: EIO, a full disk, a torn write.
TEST_P(FileStreams, AnErrorAtEveryRequestOfAWriter) {
  constexpr std::size_t kBlocks = 30;
  const std::string path = folder.file("file");
  using Kind = PlannedFault::Kind;
  for (const PlannedFault fault :
       {PlannedFault{.kind = Kind::kError, .error = EIO},
        PlannedFault{.kind = Kind::kError, .error = ENOSPC},
        PlannedFault{.kind = Kind::kTorn, .error = EIO, .bytes = 5000}}) {
    for (std::uint64_t k = 0; k < (kBlocks + 3) / 4; ++k) {
      TestDisk disk(backend(), std::make_shared<FaultAt>(k, fault));
      {
        FileWriter<char> out(path, writing(disk.disk.get()));
        const Failure failure = guarded([&] { fill(out.data(), 'x', kBlocks * kBlock); });
        std::string message;
        const int error = test::error_of([&] { out.finish(kBlocks * kBlock); }, &message);
        EXPECT_TRUE(test::contains(message, "file"));
        EXPECT_EQ(failure ? failure.error : error, fault.error);
      }
      EXPECT_EQ(folder.entries(), 0u);
    }
  }
}

TEST_P(FileStreams, AFileCutWhileItIsRead) {
  const std::string text = random_text(random, 64 * kBlock);
  put_file_text(folder.file("file"), text);
  const std::size_t lengths[] = {0, 20 * kBlock, 20 * kBlock + 4097, 63 * kBlock + 1};
  for (std::size_t turn = 0; turn < 2 * std::size(lengths); ++turn) {
    const std::size_t left = lengths[turn / 2];
    const ReadOrder order = kOrders[turn % 2];
    put_file_text(folder.file("file"), text);
    TestDisk disk(backend());
    FileReader<char> in(folder.file("file"), reading(disk.disk.get(), order));
    ASSERT_EQ(truncate(folder.file("file").c_str(), static_cast<off_t>(left)), 0);
    std::size_t i = 0;
    bool right = true;
    const Failure failure = guarded([&] {
      for (; i < text.size(); ++i) right = right && in.data()[i] == text[i];
    });
    EXPECT_TRUE(right);
    EXPECT_EQ(failure.error, ENODATA) << failure.message();
    EXPECT_TRUE(test::contains(failure.message(), "file' ends at byte " + std::to_string(left) +
                                                      " and was " + std::to_string(text.size()) +
                                                      " long"));
    EXPECT_EQ(i, left / kBlock * kBlock);
  }
}

TEST_P(FileStreams, WhatIsAppendedMeanwhileIsNotRead) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, 21 * kBlock + 12345}) {
    SCOPED_TRACE(size);
    const std::string text = random_text(random, size);
    put_file_text(folder.file("file"), text);
    TestDisk disk(backend());
    const FileReader<char> in(folder.file("file"), reading(disk.disk.get()));
    std::ofstream(folder.file("file"), std::ios::binary | std::ios::app)
        << std::string(3 * kBlock, 'z');
    ASSERT_EQ(in.size(), size);
    expect_text_and_zeros(in.data(), text);
  }
}

// Whole sectors are written; what is in the last one behind the end of the data is nobody's.
TEST_P(FileStreams, NothingButZerosBehindTheEndReachesTheDisk) {
  constexpr std::size_t kLength = 5 * kBlock + 100;
  class Watch final : public FaultPlan {
   public:
    PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
      std::size_t at = attempt.offset;
      for (unsigned i = 0; i < attempt.memory_count; ++i) {
        const auto* const bytes = static_cast<const char*>(attempt.memory[i].iov_base);
        for (std::size_t k = 0; k < attempt.memory[i].iov_len; ++k, ++at) {
          beyond += at >= kLength;
          wrong += bytes[k] != (at < kLength ? 'x' : '\0');
        }
      }
      return {};
    }
    std::atomic<std::size_t> beyond{0};
    std::atomic<std::size_t> wrong{0};
  };
  const auto watch = std::make_shared<Watch>();
  TestDisk disk(backend(), watch);
  FileWriter<char> out(folder.file("file"), writing(disk.disk.get()));
  fill(out.data(), 'x', 6 * kBlock);
  out.finish(kLength);
  EXPECT_EQ(watch->wrong.load(), 0u);
  const bool direct = out.statistics().direct == "direct I/O";
  EXPECT_EQ(watch->beyond.load() > 0, direct);
  EXPECT_EQ(file_text(folder.file("file")), std::string(kLength, 'x'));
}

// The system refuses memory, once or from then on: the data or ENOMEM, and every block is back in
// the pool afterwards, which ends the process otherwise.
std::uint64_t populates_left = 0;
bool refused_for_good = false;
int refuse_memory(os::MemoryCall call) noexcept {
  if (call != os::MemoryCall::kPopulate || (populates_left != 0 && --populates_left != 0)) return 0;
  populates_left = refused_for_good ? 1 : ~std::uint64_t{0};
  return ENOMEM;
}

static_assert(std::is_move_constructible_v<FileReader<char>>);
static_assert(std::is_move_assignable_v<FileReader<char>>);
static_assert(std::is_move_constructible_v<FileWriter<char>>);
static_assert(std::is_move_assignable_v<FileWriter<char>>);

// Code that maps and protects pages one by one uses up what vm.max_map_count allows.
TEST(FileStreamsWithoutMapsDeathTest, GiveBlocksUpAndReportTheError) {
  const test::FaultsBy signals(test::signal_engine());
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer ends a process that has no maps left";
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  put_file_text(path, std::string(100 * kBlock, 'x'));
  const auto body = [&] {
    auto in = std::make_unique<FileReader<char>>(path, FileReaderOptions{.block_bytes = kBlock});
    auto out = std::make_unique<FileWriter<char>>(folder.file("copy"),
                                                  FileWriterOptions{.block_bytes = kBlock});
    if (in->data()[0] != 'x') return 1;
    out->data()[0] = 'x';
    const std::size_t page = os::page_bytes();
    const std::size_t pages = 2 * os::max_map_count() + 1000;
    int error = 0;
    std::byte* const pool_of_maps = os::reserve(pages * page, &error);
    if (pool_of_maps == nullptr) return 2;
    std::size_t at = 0;
    while (at < pages && os::allow_access(pool_of_maps + at * page, page) == 0) at += 2;
    if (at >= pages) return 3;
    const auto read_on = [&] {
      for (std::size_t i = 0; i < 100 * kBlock; i += kBlock) {
        if (in->data()[i] != 'x') _exit(4);
      }
    };
    if (guarded(read_on).error != ENOMEM) return 5;
    if (guarded([&] { fill(out->data(), 'x', 100 * kBlock); }).error != ENOMEM) return 6;
    in.reset();
    out.reset();
    return 0;
  };
  EXPECT_EXIT(_exit(body()), testing::ExitedWithCode(0), "");
}

TEST(FileStreamsWithoutMemory, GiveEveryBlockBack) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  const std::string text(40 * kBlock, 'x');
  put_file_text(path, text);
  for (const bool for_good : {false, true}) {
    for (std::uint64_t k = 1; k < 24; ++k) {
      SCOPED_TRACE(k);
      TestDisk disk(Backend::kVirtual);
      refused_for_good = for_good;
      {
        const FileReader<char> in(path, {.block_bytes = kBlock,
                                         .read_ahead = 3,
                                         .request_bytes = 4 * kBlock,
                                         .disk = disk.disk.get()});
        bool right = true;
        populates_left = k;
        os::set_failure_hook(&refuse_memory);
        const Failure failure = guarded([&] {
          for (std::size_t i = 0; i < text.size(); ++i) right = right && in.data()[i] == 'x';
        });
        os::set_failure_hook(nullptr);
        EXPECT_TRUE(right);
        EXPECT_TRUE(failure.error == 0 || failure.error == ENOMEM) << failure.message();
      }
      FileWriter<char> out(folder.file("copy"), {.block_bytes = kBlock,
                                                 .write_behind = 3,
                                                 .request_bytes = 4 * kBlock,
                                                 .disk = disk.disk.get()});
      populates_left = k;
      os::set_failure_hook(&refuse_memory);
      const Failure failure = guarded([&] { fill(out.data(), 'x', text.size()); });
      os::set_failure_hook(nullptr);
      EXPECT_TRUE(failure.error == 0 || failure.error == ENOMEM) << failure.message();
      if (failure.error != 0) continue;
      out.finish(text.size());
      EXPECT_TRUE(file_text(folder.file("copy")) == text);
    }
  }
}

class FileStreamsOnSharedPools : public test::PlacingTest {};

INSTANTIATE_TEST_SUITE_P(Kinds, FileStreamsOnSharedPools, testing::ValuesIn(test::kAllPlacings),
                         test::NameOfPlacing());

// Memory that is registered with the kernel while its block is placed elsewhere is other memory
// than the block's, in a pool that moves: requests must not use it. An alias takes nothing away
// from its home, which is registered.
TEST_P(FileStreamsOnSharedPools, BlocksThatWerePlacedWhenTheStreamsWereMade) {
  constexpr std::size_t kLargeBlock = std::size_t{512} << 10;  // a request of one piece
  std::mt19937_64 random(test::test_seed());
  const test::TemporaryFolder folder;
  const std::string text = random_text(random, 9 * kLargeBlock + 123);
  put_file_text((folder.path() / "in").string(), text);
  BlockPoolOptions for_pool;
  for_pool.block_bytes = kLargeBlock;
  for_pool.pool_bytes = 24 * kLargeBlock;
  for_pool.warming = Warming::kEager;
  for_pool.kind = test::pool_kind(GetParam());
  BlockPool pool(for_pool);
  StreamPool buckets(pool, 8);
  BucketStream bucket(buckets);
  ASSERT_EQ(detail::BlockRanges::open(bucket, 0, 8 * kLargeBlock), 0);
  FileReaderOptions for_reader;
  for_reader.pool = &pool;
  for_reader.caching = Caching::kDirect;
  FileReader<char> in((folder.path() / "in").string(), for_reader);
  FileWriterOptions for_writer;
  for_writer.pool = &pool;
  for_writer.caching = Caching::kDirect;
  FileWriter<char> out((folder.path() / "out").string(), for_writer);
  // The block that came back last is taken first.
  ASSERT_EQ(detail::BlockRanges::give_back(bucket, 0, 8 * kLargeBlock), 0);
  ASSERT_EQ(in.size(), text.size());
  for (std::size_t at = 0; at < text.size(); at += 512) {
    std::memcpy(out.data() + at, in.data() + at, std::min<std::size_t>(512, text.size() - at));
  }
  out.finish(text.size());
  EXPECT_TRUE(file_text((folder.path() / "out").string()) == text);
  for (const auto& disks : {in.statistics().disks, out.statistics().disks}) {
    for (const DiskStatistics& disk : disks) {
      if (disk.registration == "not needed by this backend") continue;
      EXPECT_EQ(disk.registration != "none asked for", GetParam() == test::Placing::kAliases);
      EXPECT_EQ(disk.fixed_attempts > 0, disk.registration.ends_with(" registered"));
    }
  }
}

// The addresses of one pool are those of the next, and what was registered with the disk is not.
TEST(FileStreamsOnASharedDisk, OneAfterTheOther) {
  constexpr std::size_t kLargeBlock = std::size_t{512} << 10;
  std::mt19937_64 random = test::test_random();
  const test::TemporaryFolder folder;
  TestDisk disk(Backend::kUring);
  for (int round = 0; round < 4; ++round) {
    const std::string text = random_text(random, 5 * kLargeBlock + 123);
    {
      FileWriter<char> out(folder.file("file"),
                           {.block_bytes = kLargeBlock, .disk = disk.disk.get()});
      copy_to(out.data(), text);
      out.finish(text.size());
    }
    const FileReader<char> in(
        folder.file("file"),
        {.block_bytes = kLargeBlock, .caching = Caching::kDirect, .disk = disk.disk.get()});
    ASSERT_EQ(in.size(), text.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < text.size(); ++i) wrong += in.data()[i] != text[i];
    ASSERT_EQ(wrong, 0u);
  }
  const DiskStatistics statistics = disk.disk->statistics();
  if (statistics.registration.ends_with(" registered")) {
    EXPECT_GT(statistics.fixed_attempts, 0u);
  }
}

TEST(FileStreamsOnAReluctantDisk, CanBeCancelled) {
  const test::TemporaryFolder folder;
  put_file_text(folder.file("in"), std::string(40 * kBlock, 'x'));
  test::ReluctantDisk disk;
  FileReader<char> in(folder.file("in"), {.block_bytes = kBlock, .disk = &disk});
  FileWriter<char> out(folder.file("out"),
                       {.block_bytes = kBlock, .request_bytes = kBlock, .disk = &disk});
  for (const bool writing : {false, true}) {
    // The one that waits may or may not have begun to: both must end.
    std::thread canceller([&] {
      if (writing) {
        out.stream().cancel(EINTR, "enough");
      } else {
        in.stream().cancel(EINTR, "enough");
      }
    });
    const Failure failure = guarded([&] {
      if (writing) {
        fill(out.data(), 'x', 40 * kBlock);
      } else {
        (void)*const_cast<const volatile char*>(in.data());
      }
    });
    canceller.join();
    EXPECT_EQ(failure.error, EINTR) << failure.message();
  }
  disk.carry_out();
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FileStreams,
    testing::Combine(testing::Values(Backend::kUring, Backend::kThreads, Backend::kVirtual),
                     testing::Values(Caching::kAuto, Caching::kDirect, Caching::kBuffered),
                     testing::Values("/tmp", "/dev/shm")),
    [](const auto& setting) {
      return test::name_of(std::get<0>(setting.param)) + name_of(std::get<1>(setting.param)) +
             (std::string(std::get<2>(setting.param)) == "/tmp" ? "OnDisk" : "InMemory");
    });

class FileNames : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text, FileWriterOptions options = {}) {
    options.block_bytes = kBlock;
    FileWriter<char> out(path, options);
    copy_to(out.data(), text);
    out.finish(text.size());
  }
  static int error_of_creating(const std::string& path) {
    return test::error_of([&] { FileWriter<char>(path, {.block_bytes = kBlock}); });
  }
  test::TemporaryFolder folder;
  std::string path = folder.file("file");
};

TEST_F(FileNames, AppearOnlyWhenFinished) {
  {
    FileWriter<char> out(path, {.block_bytes = kBlock});
    fill(out.data(), 'x', 50 * kBlock);
    EXPECT_FALSE(exists(path));
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(FileNames, WithoutFinishTheOldFileStays) {
  put_file_text(path, "old");
  {
    FileWriter<char> out(path, {.block_bytes = kBlock});
    fill(out.data(), 'x', 50 * kBlock);
  }
  EXPECT_EQ(file_text(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(FileNames, AnOldFileGivesWayAndPassesItsModeOn) {
  put_file_text(path, "an older and longer text");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  // Only root may, and not everywhere.
  if (chown(path.c_str(), 1234, 4321) == 0) {
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  }
  struct stat before {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  write(path, "new", {.sync = true});
  EXPECT_EQ(file_text(path), "new");
  EXPECT_EQ(folder.entries(), 1u);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(status.st_uid, before.st_uid);
  EXPECT_EQ(status.st_gid, before.st_gid);
}

TEST_F(FileNames, NothingIsLeftOpen) {
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  write(path, "old");
  const auto before = open_descriptors();
  for (const Caching caching : {Caching::kAuto, Caching::kBuffered}) {
    write(path, "new", {.caching = caching, .sync = true});
    EXPECT_EQ(file_text(path), "new");
    { const FileWriter<char> unfinished(path, {.caching = caching}); }
    { const FileReader<char> in(path, {.caching = caching}); }
    { const FileReader<char> in("/dev/zero", {.caching = caching}); }
    EXPECT_THROW(write(path, "new", {.caching = caching, .replace = false}), Error);
    EXPECT_THROW(write(path, "new", {.caching = caching, .expected_bytes = ~0ULL}), Error);
    EXPECT_THROW(FileReader<char>(folder.path().string(), {.caching = caching}), Error);
    EXPECT_THROW(FileReader<char>(path, {.block_bytes = 1000, .caching = caching}), Error);
  }
  for (const Backend backend : test::kAllBackends) TestDisk{backend};
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FileNames, AnOldFileCanBeProtected) {
  put_file_text(path, "old");
  EXPECT_THROW(write(path, "new", {.replace = false}), Error);
  // It may appear while ours is written.
  unlink(path.c_str());
  {
    FileWriter<char> out(path, {.block_bytes = kBlock, .replace = false});
    out.data()[0] = 'x';
    put_file_text(path, "other");
    EXPECT_EQ(test::error_of([&] { out.finish(1); }), EEXIST);
  }
  EXPECT_EQ(file_text(path), "other");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(FileNames, LinksStayAndTheFileBehindThemGivesWay) {
  put_file_text(path, "old");
  ASSERT_EQ(mkdir(folder.file("below").c_str(), 0700), 0);
  const std::string link = folder.file("below/link");
  ASSERT_EQ(symlink("../file", link.c_str()), 0);
  write(link, "new");
  EXPECT_EQ(file_text(path), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  // To nothing, so far.
  ASSERT_EQ(unlink(path.c_str()), 0);
  write(link, "newer");
  EXPECT_EQ(file_text(path), "newer");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(folder.entries(), 2u);
  // To an open file, as /dev/stdout is one.
  const int file = open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  const std::string by_descriptor = "/proc/self/fd/" + std::to_string(file);
  write(by_descriptor, "newest");
  EXPECT_EQ(file_text(path), "newest");
  EXPECT_EQ(error_of_creating(by_descriptor), ENOENT);  // the file that gave way
  close(file);
}

// With nothing lost, that is.
TEST_F(FileNames, WhatCannotBeANameIsRefusedAtOnce) {
  put_file_text(path, "old");
  ASSERT_EQ(symlink("loop", folder.file("loop").c_str()), 0);
  EXPECT_EQ(error_of_creating(""), ENOENT);
  EXPECT_EQ(error_of_creating(folder.file(std::string(256, 'x'))), ENAMETOOLONG);
  EXPECT_EQ(error_of_creating(folder.file("no/such/folder")), ENOENT);
  EXPECT_EQ(error_of_creating(folder.file("file/below")), ENOTDIR);
  EXPECT_EQ(error_of_creating(folder.path()), EISDIR);
  EXPECT_EQ(error_of_creating(folder.file("loop")), ELOOP);
  EXPECT_EQ(folder.entries(), 2u);
}

TEST_F(FileNames, MayHoldAnyByteAndBeAsLongAsTheyCan) {
  for (const std::string& name : {std::string(255, 'x'), std::string("a\n\t\"'\\ \x01\xff\xfe"),
                                  std::string("-"), std::string(" ")}) {
    write(folder.file(name), "old");
    write(folder.file(name), "new");
    EXPECT_EQ(file_text(folder.file(name)), "new");
    const FileReader<char> in(folder.file(name));
    EXPECT_EQ(std::string(in.data(), in.size()), "new");
  }
}

TEST_F(FileNames, AFolderThatTookTheNameMeanwhileStays) {
  FileWriter<char> out(path, {.block_bytes = kBlock});
  out.data()[0] = 'x';
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(test::error_of([&] { out.finish(1); }), EISDIR);
  EXPECT_THROW(out.finish(1), Error);
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST_F(FileNames, FinishingTwiceIsAnError) {
  FileWriter<char> out(path, {.block_bytes = kBlock});
  out.data()[0] = 'x';
  out.finish(1);
  EXPECT_EQ(test::error_of([&] { out.finish(1); }), EALREADY);
  EXPECT_EQ(file_text(path), "x");
}

TEST_F(FileNames, ErrorsNameThePath) {
  EXPECT_TRUE(
      test::fails([&] { const FileReader<char> in(folder.file("absent")); }, ENOENT, "absent"));
  EXPECT_THROW(FileReader<char>(folder.path().string()), Error);
  EXPECT_THROW(FileWriter<char>(folder.file("no/such/folder")), Error);
}

TEST_F(FileNames, SpaceThatIsNotThereIsMissedAtOnce) {
  struct statvfs status {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &status), 0);
  const std::uint64_t all = std::uint64_t{status.f_blocks} * status.f_frsize;
  EXPECT_EQ(test::error_of([&] { const FileWriter<char> out(path, {.expected_bytes = 2 * all}); }),
            ENOSPC);
  EXPECT_EQ(folder.entries(), 0u);
}

TEST_F(FileNames, StatisticsSayWhatHappened) {
  write(path, std::string(100 * kBlock, 'x'));
  const FileReader<char> in(path, {.block_bytes = kBlock, .caching = Caching::kDirect});
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); i += kBlock) count += in.data()[i] == 'x';
  EXPECT_EQ(count, 100u);
  const FileStatistics statistics = in.statistics();
  EXPECT_EQ(statistics.source.bytes, 100 * kBlock);
  EXPECT_EQ(statistics.source.requests, (100 + 31) / 32u);
  ASSERT_EQ(statistics.disks.size(), 1u);
  EXPECT_EQ(statistics.disks[0].reads, statistics.source.requests);
  EXPECT_EQ(statistics.disks[0].read_bytes, 100 * kBlock);
  EXPECT_FALSE(statistics.direct.empty());
  EXPECT_FALSE(statistics.disks[0].backend.empty());
  EXPECT_FALSE(statistics.disks[0].registration.empty());
}

// On virtual time nothing ends before somebody waits for it, so the counts are exact.
TEST_F(FileNames, WaitsAreCounted) {
  constexpr std::uint64_t kRequests = 25;
  const std::string text(kRequests * kBlock, 'x');
  TestDisk disk(Backend::kVirtual);
  const auto expect_counts = [&](const auto& of_stream, const auto& of_disks, std::uint64_t waits) {
    EXPECT_EQ(of_stream.requests, kRequests);
    EXPECT_EQ(of_stream.bytes, text.size());
    EXPECT_EQ(of_stream.waits, kRequests);
    EXPECT_GT(of_stream.waited_ns, 0u);
    ASSERT_EQ(of_disks.size(), 1u);
    EXPECT_EQ(of_disks[0].waits, waits);
    EXPECT_EQ(of_disks[0].waited_ns, disk.clock.now_ns());
  };
  {
    FileWriter<char> out(path, {.block_bytes = kBlock,
                                .comeback_blocks = 0,
                                .write_behind = 3,
                                .request_bytes = kBlock,
                                .disk = disk.disk.get()});
    copy_to(out.data(), text);
    out.finish(text.size());
    const FileStatistics statistics = out.statistics();
    expect_counts(statistics.sink, statistics.disks, kRequests);
    EXPECT_EQ(statistics.disks[0].writes, kRequests);
    EXPECT_EQ(statistics.disks[0].written_bytes, text.size());
  }
  const std::uint64_t written_at = disk.clock.now_ns();
  const FileReader<char> in(path, {.block_bytes = kBlock,
                                   .comeback_blocks = 0,
                                   .read_ahead = 3,
                                   .request_bytes = kBlock,
                                   .disk = disk.disk.get()});
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); i += kBlock) count += in.data()[i] == 'x';
  EXPECT_EQ(count, kRequests);
  const FileStatistics statistics = in.statistics();
  expect_counts(statistics.source, statistics.disks, 2 * kRequests);
  EXPECT_EQ(statistics.disks[0].reads, kRequests);
  EXPECT_EQ(statistics.disks[0].read_bytes, text.size());
  EXPECT_GT(disk.clock.now_ns(), written_at);
}

// Reading around the cache what is not in it, through it what is.
TEST_F(FileNames, AutoLooksIntoThePageCache) {
  put_file_text(path, std::string(64 * kBlock, 'x'));
  const auto cached_requests = [this] {
    const FileReader<char> in(path, {.block_bytes = kBlock, .request_bytes = 4 * kBlock});
    std::size_t count = 0;
    for (std::size_t i = 0; i < in.size(); ++i) count += in.data()[i] == 'x';
    EXPECT_EQ(count, in.size());
    const FileStatistics statistics = in.statistics();
    EXPECT_EQ(statistics.source.requests, 16u);
    return statistics.direct == "direct I/O" ? static_cast<int>(statistics.source.cached_requests)
                                             : -1;
  };
  const int warm = cached_requests();
  if (warm < 0) {
    END_TEST_WITHOUT(test::Environment::kDirectIo, "no direct I/O in " << folder.path());
  }
  EXPECT_EQ(warm, 16);
  const int file = open(path.c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  ASSERT_EQ(fsync(file), 0);
  ASSERT_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(file);
  EXPECT_EQ(cached_requests(), 0);
}

// With signals, bare system calls fail on stream memory that is not placed; prefault() and helpers
// make it right. With userfaultfd they work: system_calls_test.cc.
TEST_F(FileNames, SystemCallsNeedPlacedMemoryUnderSignals) {
  const test::FaultsBy signals(test::signal_engine());
  auto random = test::test_random(1);
  const std::string text = random_text(random, 8 * kBlock);
  put_file_text(path, text);
  FileReader<char> in(path, {.block_bytes = kBlock, .comeback_blocks = 1});
  const std::string copy = folder.file("copy");
  const int file = open(copy.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);

  // Nothing placed: EFAULT.
  errno = 0;
  EXPECT_EQ(::write(file, in.data(), 100), -1);
  EXPECT_EQ(errno, EFAULT);
  // The first block placed: a short count and no error.
  in.prefault(0, 1);
  EXPECT_EQ(::write(file, in.data(), 2 * kBlock), static_cast<ssize_t>(kBlock));
  // Both placed: whole.
  in.prefault(kBlock, kBlock);
  EXPECT_EQ(pwrite(file, in.data(), 2 * kBlock, 0), static_cast<ssize_t>(2 * kBlock));
  // Four blocks stay, and no fifth.
  in.prefault(0, 4 * kBlock);
  EXPECT_THROW(in.prefault(0, 5 * kBlock), Error);
  // The helper places part after part.
  ASSERT_EQ(lseek(file, 0, SEEK_SET), 0);
  write_from_stream(file, in, 0, in.size());
  EXPECT_TRUE(file_text(copy) == text);
  EXPECT_THROW(write_from_stream(file, in, in.size() - 10, 20), Error);
  EXPECT_THROW(write_from_stream(file, in, in.size() - 10, ~std::uint64_t{0}), Error);

  FileWriter<char> out(folder.file("third"), {.block_bytes = kBlock});
  ASSERT_EQ(lseek(file, 0, SEEK_SET), 0);
  errno = 0;
  EXPECT_EQ(::read(file, out.data(), 100), -1);
  EXPECT_EQ(errno, EFAULT);
  ASSERT_EQ(lseek(file, 0, SEEK_SET), 0);
  EXPECT_EQ(read_into_stream(file, out.stream(), 0, 100), 100u);
  EXPECT_EQ(read_into_stream(file, out.stream(), 100, ~std::uint64_t{0}), text.size() - 100);
  out.finish(text.size());
  EXPECT_TRUE(file_text(folder.file("third")) == text);
  close(file);
}

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
// Not a multiple of any block.
constexpr std::uint64_t kLength = 17 * kGiB + 3 * kWord;

// On both sides of the borders where 31, 32 and 34 bits of a byte's offset end, and 32 bits of a
// word's index would not; and the last word.
std::vector<std::uint64_t> places() {
  std::vector<std::uint64_t> result;
  for (const std::uint64_t border : {2 * kGiB, 4 * kGiB, 8 * kGiB, 16 * kGiB}) {
    result.insert(result.end(), {border - kWord, border, border + (std::uint64_t{5} << 20)});
  }
  result.push_back(kLength - kWord);
  return result;
}

std::uint64_t mark(std::uint64_t offset) { return ~offset; }

class LargeFile : public ::testing::TestWithParam<std::tuple<DiskBackend, Caching>> {
 protected:
  std::unique_ptr<Disk> disk() const {
    DiskOptions options;
    options.backend = std::get<0>(GetParam());
    return open_disk(options);
  }
  static Caching caching() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(
    , LargeFile,
    ::testing::Combine(::testing::Values(DiskBackend::kBest, DiskBackend::kThreads),
                       ::testing::Values(Caching::kAuto, Caching::kBuffered)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == DiskBackend::kBest ? "Best" : "Threads") +
             (std::get<1>(info.param) == Caching::kAuto ? "Auto" : "Buffered");
    });

TEST_P(LargeFile, IsReadWhereAReaderJumps) {
  const TemporaryFolder folder;
  const int file = open(folder.file("in").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, kLength), 0);
  for (const std::uint64_t offset : places()) {
    const std::uint64_t value = mark(offset);
    ASSERT_EQ(pwrite(file, &value, kWord, static_cast<off_t>(offset)), ssize_t{kWord});
  }
  close(file);
  const auto disk = this->disk();
  FileReaderOptions options;
  options.disk = disk.get();
  options.caching = caching();
  FileReader<std::uint64_t> reader(folder.file("in"), options);
  ASSERT_EQ(reader.size(), kLength / kWord);
  const std::uint64_t* const data = reader.data();
  guarded([&] {
    for (const std::uint64_t offset : places()) {
      EXPECT_EQ(data[offset / kWord], mark(offset)) << offset;
      // Nothing lies behind a mark, but for the one in front of a border.
      const std::uint64_t behind = offset + kWord;
      if (behind == kLength) break;
      const bool border = behind % (2 * kGiB) == 0;
      EXPECT_EQ(data[behind / kWord], border ? mark(behind) : 0) << behind;
    }
  }).throw_if_failed();
}

TEST_P(LargeFile, IsWrittenWhereAWriterJumps) {
  const TemporaryFolder folder;
  {
    const auto disk = this->disk();
    FileWriterOptions options;
    options.disk = disk.get();
    options.caching = caching();
    FileWriter<std::uint64_t> writer(folder.file("out"), options);
    guarded([&] {
      for (const std::uint64_t offset : places()) writer.data()[offset / kWord] = mark(offset);
    }).throw_if_failed();
    writer.finish(kLength / kWord);
  }
  struct stat status {};
  ASSERT_EQ(stat(folder.file("out").c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kLength);
  EXPECT_LT(static_cast<std::uint64_t>(status.st_blocks) * 512, kGiB) << "the gaps are no holes";
  const int file = open(folder.file("out").c_str(), O_RDONLY | O_CLOEXEC);
  for (const std::uint64_t offset : places()) {
    std::uint64_t value = 0;
    ASSERT_EQ(pread(file, &value, kWord, static_cast<off_t>(offset)), ssize_t{kWord});
    EXPECT_EQ(value, mark(offset)) << offset;
  }
  // Half way between two borders there is nothing.
  for (const std::uint64_t offset : {kGiB, 3 * kGiB, 6 * kGiB, 12 * kGiB}) {
    std::uint64_t value = 1;
    ASSERT_EQ(pread(file, &value, kWord, static_cast<off_t>(offset)), ssize_t{kWord});
    EXPECT_EQ(value, 0U) << offset;
  }
  close(file);
}

}  // namespace

}  // namespace vortex::file_stream_test

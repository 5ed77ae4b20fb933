// What limits files and what small files take: RLIMIT_FSIZE, names that reach the disk, memory and
// maps, and files that end in the middle of an element.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/file/own_pool.h"
#include "tests/fault/engine_suite.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_array.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/memory_budget.h"

namespace {

// What has been synced so far, in order, as the program sees it.
std::mutex synced_mutex;
std::vector<std::pair<dev_t, ino_t>> synced;

void note_synced(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return;
  std::lock_guard lock(synced_mutex);
  synced.emplace_back(status.st_dev, status.st_ino);
}

}  // namespace

// In place of the C library's.
extern "C" int fsync(int file) {
  note_synced(file);
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace vortex::file_limits_test { namespace {

using test::error_of;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = std::size_t{64} << 10;

// ---- Names that reach the disk.

// How often the file or folder of that name has been synced.
std::ptrdiff_t times_synced(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  std::lock_guard lock(synced_mutex);
  return std::count(synced.begin(), synced.end(), std::pair(status.st_dev, status.st_ino));
}

class Names : public testing::Test {
 protected:
  void SetUp() override { synced.clear(); }
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(Names, OfAnArraysFileAreSyncedOnce) {
  FileArray<char> array(path_, {.make = true, .reserve_bytes = kMiB});
  array.resize(100);
  array.data()[5] = 'z';
  array.flush(Flush::kWritten);
  EXPECT_EQ(times_synced(folder_.path()), 0);
  array.flush();
  EXPECT_EQ(times_synced(path_), 1);
  EXPECT_EQ(times_synced(folder_.path()), 1);
  array.flush();
  EXPECT_EQ(times_synced(path_), 2);
  EXPECT_EQ(times_synced(folder_.path()), 1);
}

// Whoever made the file may have ended before it was synced.
TEST_F(Names, OfAFileThatIsThereAreSyncedWhereItMightHaveBeenMade) {
  test::put_file_text(path_, "text");
  for (const bool make : {false, true}) {
    synced.clear();
    FileArray<char> array(path_, {.make = make, .reserve_bytes = kMiB});
    array.flush();
    EXPECT_EQ(times_synced(folder_.path()), make ? 1 : 0);
  }
}

TEST_F(Names, BehindLinksAndMovesAreThoseOfTheFile) {
  const std::string real = folder_.file("real");
  ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(symlink("real/made", path_.c_str()), 0);
  FileArray<char> array(path_, {.make = true, .reserve_bytes = kMiB});
  array.resize(1);
  const std::string moved = folder_.file("moved");
  ASSERT_EQ(rename(real.c_str(), moved.c_str()), 0);
  array.flush();
  EXPECT_EQ(times_synced(moved), 1);
  EXPECT_EQ(times_synced(moved + "/made"), 1);
}

TEST_F(Names, OfWritersAreSyncedWhereThatIsAskedFor) {
  for (const bool sync : {false, true}) {
    synced.clear();
    FileWriter<char> out(path_, {.block_bytes = kBlock, .sync = sync});
    out.data()[0] = 'x';
    out.finish(1);
    EXPECT_EQ(times_synced(path_), sync ? 1 : 0);
    EXPECT_EQ(times_synced(folder_.path()), sync ? 1 : 0);
  }
}

TEST_F(Names, OfTheFilesOfAStripedOneAreSynced) {
  const std::string other = folder_.file("other");
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  StripedFileOptions striping;
  striping.unit_bytes = kBlock;
  StripedFile parts({{.path = path_}, {.path = other + "/part"}}, striping);
  FileWriter<char> out(parts.writing_layout(), {.block_bytes = kBlock, .sync = true});
  for (std::size_t i = 0; i < 4 * kBlock; ++i) out.data()[i] = 'x';
  out.finish(4 * kBlock);
  EXPECT_EQ(times_synced(folder_.path()), 1);
  EXPECT_EQ(times_synced(other), 1);
}

// ---- RLIMIT_FSIZE. Without a handler SIGXFSZ ends the child.

bool limit_files(std::uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

// 0: the call threw EFBIG, and named the limit.
int is_refused(const std::function<void()>& call) {
  std::string message;
  if (error_of(call, &message) != EFBIG) return 11;
  return message.find("ulimit -f") != std::string::npos ? 0 : 12;
}

class FileSizeLimit : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(FileSizeLimit, OfAnArrayIsAnErrorWithNothingChanged) {
  const std::string text(100'000, 'x');
  test::put_file_text(path_, text);
  test::expect_in_child([&] {
    FileArray<char> array(path_, {.reserve_bytes = 64 * kMiB});
    if (!limit_files(kMiB)) return 1;
    if (const int wrong = is_refused([&] { array.resize(2 * kMiB); })) return wrong;
    if (array.size() != text.size() || array.data()[99'999] != 'x') return 2;
    array.resize(kMiB);
    array.data()[kMiB - 1] = 'y';
    array.flush();
    return is_refused([&] { array.resize(kMiB + 1); });
  });
  const std::string now = test::file_text(path_);
  EXPECT_EQ(now.size(), kMiB);
  EXPECT_EQ(now.back(), 'y');
  EXPECT_EQ(now.compare(0, text.size(), text), 0);
}

// What a file holds beyond the limit can be read, and not changed.
TEST_F(FileSizeLimit, OfAFileThatIsLongerShowsWhenItIsWritten) {
  test::put_file_text(path_, std::string(2 * kMiB, 'x'));
  test::expect_in_child([&] {
    if (!limit_files(kMiB)) return 1;
    FileArray<char> array(path_, {.block_bytes = kBlock, .reserve_bytes = 64 * kMiB});
    array.data()[0] = 'y';
    array.data()[2 * kMiB - 1] = 'y';
    if (error_of([&] { array.flush(); }) != EFBIG) return 2;
    array.resize(kMiB);
    array.flush();
    return 0;
  });
  EXPECT_TRUE(test::file_text(path_) == "y" + std::string(kMiB - 1, 'x'));
}

// Some file systems look at the limit when space is reserved, too.
TEST_F(FileSizeLimit, OfSpaceThatIsReserved) {
  const test::SmallFileSystem system("tmpfs", 8 * kMiB);
  if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
  test::expect_in_child([&] {
    FileArray<char> array(system.file("file"), {.make = true, .reserve_bytes = 8 * kMiB});
    if (!limit_files(kMiB)) return 1;
    return is_refused([&] { array.allocate(2 * kMiB); });
  });
}

TEST_F(FileSizeLimit, OfAWriterIsAnErrorAndNothingIsUnderTheName) {
  test::expect_in_child([&] {
    if (!limit_files(kMiB)) return 1;
    FileWriter<char> out(path_, {.block_bytes = kBlock});
    // The error may show in the loop: after it nothing of ours runs but the message.
    out.data()[0] = 'x';
    return error_of([&] { out.finish(2 * kMiB); }) == EFBIG ? 0 : 2;
  });
  test::expect_in_child([&] {
    if (!limit_files(0)) return 1;
    return is_refused([&] { FileWriter<char>(path_, {.block_bytes = kBlock}); });
  });
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(FileSizeLimit, OfWhatADescriptorOfTheProgramsGets) {
  test::put_file_text(path_, std::string(2 * kMiB, 'x'));
  test::expect_in_child([&] {
    const int out = open(folder_.file("out").c_str(), O_WRONLY | O_CREAT, 0600);
    FileReader<char> in(path_, {.block_bytes = kBlock});
    if (!limit_files(kMiB)) return 1;
    return error_of([&] { write_from_stream(out, in, 0, 2 * kMiB); }) == EFBIG ? 0 : 2;
  });
}

volatile std::sig_atomic_t size_signals = 0;
void count_size_signal(int) { size_signals = size_signals + 1; }

// A program's own handler hears nothing of what is an error already, and stays what it was; what
// the program sends to itself arrives.
TEST_F(FileSizeLimit, LeavesTheSignalToTheProgram) {
  test::expect_in_child([&] {
    std::signal(SIGXFSZ, &count_size_signal);
    FileArray<char> array(path_, {.make = true, .reserve_bytes = 64 * kMiB});
    if (!limit_files(kMiB)) return 1;
    if (const int wrong = is_refused([&] { array.resize(2 * kMiB); })) return wrong;
    if (size_signals != 0) return 2;
    raise(SIGXFSZ);
    if (size_signals != 1) return 3;
    const int own = open(folder_.file("own").c_str(), O_WRONLY | O_CREAT, 0600);
    if (ftruncate(own, 2 * kMiB) == 0 || errno != EFBIG) return 4;
    close(own);  // a race detector delivers signals with the next call
    return size_signals == 2 ? 0 : 5;
  });
}

// ---- Memory and maps of small files.

template <typename EngineType>
class SmallFiles : public test::EngineTest<EngineType> {
 protected:
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};
TYPED_TEST_SUITE(SmallFiles, test::AllEngines, test::EngineNames);

// Whatever else the process holds stays out of the figures.
class HeldSince {
 public:
  std::size_t bytes() const {
    const std::size_t now = held_bytes();
    return now > before_ ? now - before_ : 0;
  }

 private:
  const std::size_t before_ = held_bytes();
};

// Beside the blocks: a stack or two, tables, a ring.
constexpr std::size_t kAround = test::kShadowMemory ? 24 * kMiB : 3 * kMiB;

TYPED_TEST(SmallFiles, OfAReaderLimitItsMemory) {
  test::put_file_text(this->path_, std::string(3 * kMiB, 'x'));
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    const HeldSince held;
    const FileReader<char> in(
        this->path_,
        {.read_ahead = 64, .memory_bytes = std::size_t{1} << 30, .order = order, .cursors = 16});
    EXPECT_LE(in.statistics().pool_bytes, 4 * kMiB);
    EXPECT_EQ(std::count(in.data(), in.data() + in.size(), 'x'),
              static_cast<std::ptrdiff_t>(3 * kMiB));
    EXPECT_LE(held.bytes(), 4 * kMiB + kAround);
  }
}

TYPED_TEST(SmallFiles, InMemoryAsLargeAreReadAndToldInAnyOrder) {
  std::string text(10 * kBlock + 77, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  test::put_file_text(this->path_, text);
  FileReader<char> in(this->path_, {.block_bytes = kBlock, .comeback_blocks = 20});
  in.will_need(0, text.size());
  for (std::size_t i = text.size(); i-- > 0;) ASSERT_EQ(in.data()[i], text[i]);
  for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(in.data()[i], text[i]);
  EXPECT_EQ(in.statistics().any_order.reread_bytes, 0u);
  EXPECT_EQ(in.statistics().any_order.drops, 0u);
}

// Memory that an array may use is taken as the file grows into it, or is touched.
TYPED_TEST(SmallFiles, OfAnArrayTakeMemoryAsTheyAreTouched) {
  constexpr std::size_t kMemory = 256 * kMiB;
  test::put_file_text(this->path_, std::string(3 * kMiB, 'x'));
  if (test::kThreadSanitizer)
    GTEST_SKIP() << "a sanitizer's shadow memory grows with what is touched";
  const HeldSince held;
  FileArray<char> array(this->path_, {.memory_bytes = kMemory, .reserve_bytes = kMemory});
  EXPECT_LE(held.bytes(), kAround);
  for (std::size_t at = 0; at < array.size(); at += 4096) array.data()[at] = 'y';
  EXPECT_LE(held.bytes(), 4 * kMiB + kAround);
  array.resize(64 * kMiB);
  EXPECT_LE(held.bytes(), 4 * kMiB + kAround);
  for (std::size_t at = 0; at < 32 * kMiB; at += 4096) array.data()[at] = 'z';
  EXPECT_GE(held.bytes(), 32 * kMiB);
  // Read ahead: four requests and what they are rounded up to.
  EXPECT_LE(held.bytes(), 44 * kMiB + kAround);
}

std::ptrdiff_t maps_of_the_process() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TYPED_TEST(SmallFiles, AreOpenByTheThousand) {
  constexpr std::size_t kFiles = test::kShadowMemory ? 200 : 500;
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit before = files;
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  // Two descriptors each, with and without the page cache.
  if (files.rlim_max < 4 * kFiles + 100) {
    GTEST_SKIP() << "the process may have " << files.rlim_max << " files only";
  }
  test::put_file_text(this->path_, "text");
  const std::unique_ptr<Disk> disk = open_disk();
  const std::ptrdiff_t maps = maps_of_the_process();
  {
    std::vector<FileReader<char>> readers;
    std::vector<FileArray<char>> arrays;
    for (std::size_t i = 0; i < kFiles; ++i) {
      readers.emplace_back(this->path_, FileReaderOptions{.disk = disk.get()});
      ASSERT_EQ(readers.back().data()[3], 't');
      FileArrayOptions options{.disk = disk.get()};
      // The shadow of a race detector covers no more than a terabyte.
      if (test::kShadowMemory) options.reserve_bytes = kMiB;
      arrays.emplace_back(this->path_, options);
      ASSERT_EQ(arrays.back().data()[3], 't');
    }
    EXPECT_LE(maps_of_the_process() - maps, static_cast<std::ptrdiff_t>(2 * kFiles * 8));
    // Others find address space.
    const std::unique_ptr<char[]> memory(new char[std::size_t{1} << 32]);
    EXPECT_NE(memory, nullptr);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// ---- The memory of readers, writers and arrays that have a pool of their own: when it is
// acquired.

template <typename EngineType>
class OwnPool : public test::EngineTest<EngineType> {};
TYPED_TEST_SUITE(OwnPool, test::AllEngines, test::EngineNames);

// Where disks are not told of the memory, the pool acquires it when it is made: the first faults
// would have to, block after block. Elsewhere telling the disk does it, and the pool waits for
// that.
TYPED_TEST(OwnPool, IsThereBeforeTheFirstFaultWhereDisksAreNotToldOfIt) {
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{5}, std::size_t{70}}) {
    const auto pool = make_own_pool("test", kBlock, blocks);
    EXPECT_GE(pool->block_count(), blocks);
    EXPECT_EQ(pool->may_be_pinned(), TypeParam::kEngine != Engine::kUserfaultfd);
    EXPECT_EQ(pool->statistics().blocks_populated, pool->may_be_pinned() ? 0 : pool->block_count());
  }
}

// Memory of the maps whose missing pages are faults for userfaultfd: the homes of blocks, and
// streams.
std::size_t resident_in_armed_maps() {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  std::size_t in_map = 0;
  std::size_t kilobytes = 0;
  while (std::getline(smaps, line)) {
    unsigned long count = 0;
    if (std::sscanf(line.c_str(), "Rss: %lu", &count) == 1) in_map = count;
    if (line.rfind("VmFlags:", 0) == 0 && (line + " ").find(" um ") != std::string::npos) {
      kilobytes += in_map;
    }
  }
  return kilobytes << 10;
}

class OwnPoolUnderUserfaultfd : public test::EngineTest<test::UserfaultfdEngine> {
 protected:
  void SetUp() override {
    test::EngineTest<test::UserfaultfdEngine>::SetUp();
    if (IsSkipped()) return;
    test::put_file_text(path_, std::string(40 * kBlock, 'x'));
    ASSERT_EQ(resident_in_armed_maps(), 0U);
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(OwnPoolUnderUserfaultfd, OfAReader) {
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    const FileReader<char> in(path_, {.block_bytes = kBlock, .order = order});
    EXPECT_EQ(resident_in_armed_maps(), in.statistics().pool_bytes);
  }
}

TEST_F(OwnPoolUnderUserfaultfd, OfAWriter) {
  const FileWriter<char> out(folder_.file("made"), {.block_bytes = kBlock});
  EXPECT_EQ(resident_in_armed_maps(), out.statistics().pool_bytes);
}

TEST_F(OwnPoolUnderUserfaultfd, OfAnArray) {
  // As large as the pool.
  test::put_file_text(path_, std::string(100 * kBlock, 'x'));
  const FileArray<char> array(path_, {.block_bytes = kBlock});
  EXPECT_EQ(resident_in_armed_maps(), array.statistics().pool_bytes);
}

// What a file has no blocks for is taken when it grows.
TEST_F(OwnPoolUnderUserfaultfd, OfAnArrayThatIsSmallComesAsItIsTouched) {
  FileArray<char> array(path_, {.block_bytes = kBlock});
  ASSERT_GT(array.statistics().pool_bytes, 40 * kBlock + (std::size_t{2} << 20));
  EXPECT_EQ(resident_in_armed_maps(), 0U);
  array.data()[0] = 'y';
  EXPECT_GE(resident_in_armed_maps(), kBlock);
  EXPECT_LT(resident_in_armed_maps(), array.statistics().pool_bytes);
}

// A pool that others bring acquires its memory as they chose.
TEST_F(OwnPoolUnderUserfaultfd, IsNoOthersPool) {
  BlockPool pool({.pool_bytes = 96 * kBlock,
                  .block_bytes = kBlock,
                  .warming = Warming::kOnDemand,
                  .huge_pages = false});
  const FileArray<char> array(path_, {.pool = &pool});
  EXPECT_EQ(pool.statistics().blocks_populated, 0U);
  EXPECT_EQ(resident_in_armed_maps(), 0U);
}

// ---- Files that end in the middle of an element.

template <typename Open>
std::string refusal_of(Open open) {
  std::string message;
  const int error = error_of(open, &message);
  EXPECT_TRUE(error == 0 || error == EINVAL) << message;
  return message;
}

void expect_told(const std::string& message, const std::string& path) {
  EXPECT_TRUE(test::contains(message, path));
  EXPECT_TRUE(test::contains(message, "7 bytes"));
  EXPECT_TRUE(test::contains(message, "8"));
}

TEST(WholeElements, AreWhatTypedReadersAndArraysExpect) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("file");
  test::put_file_text(path, "seven b");
  using Word = std::uint64_t;
  for (const ReadOrder order : {ReadOrder::kAny, ReadOrder::kForward}) {
    expect_told(refusal_of([&] { FileReader<Word> in(path, {.order = order}); }), path);
  }
  expect_told(refusal_of([&] { FileArray<Word> array(path); }), path);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  expect_told(refusal_of([&] { FileReader<Word>(file, {.name = path}); }), path);
  close(file);
  StripedFile parts({{.path = folder.file("part")}}, {.unit_bytes = kBlock});
  {
    FileWriter<char> out(parts.writing_layout(), {.block_bytes = kBlock});
    for (int i = 0; i < 7; ++i) out.data()[i] = 'x';
    out.finish(7);
  }
  EXPECT_NE(refusal_of([&] { FileReader<Word> in(parts.reading_layout()); }), "");
  // Whoever wants that gets it.
  EXPECT_EQ(FileReader<Word>(path, {.allow_rest = true}).size(), 0u);
  EXPECT_EQ(FileArray<Word>(path, {.reserve_bytes = kMiB, .allow_rest = true}).size(), 0u);
  EXPECT_EQ(FileReader<char>(path).size(), 7u);
  test::put_file_text(path, "");
  EXPECT_EQ(FileReader<Word>(path).size(), 0u);
}

// The end of a pipe is where it shows.
TEST(WholeElements, AreWhatAPipeMustEndWith) {
  for (const bool allowed : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], "a word and more", 15), 15);
    close(ends[1]);
    // Its thread may read on after the end was told: the pipe is closed when the reader is gone.
    {
      const FileReader<std::uint64_t> in(ends[0],
                                         {.unknown_length_bytes = kMiB, .allow_rest = allowed});
      EXPECT_EQ(in.readable_bytes(0), 15u);
      if (allowed) {
        EXPECT_EQ(in.size(), 1u);
      } else {
        EXPECT_NE(refusal_of([&] { (void)in.size(); }).find("15 bytes"), std::string::npos);
      }
    }
    close(ends[0]);
  }
}

}  // namespace

}  // namespace vortex::file_limits_test

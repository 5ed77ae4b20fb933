// Room for files: file systems that are really full, and files that are made longer ahead of their
// writes, of which what lies behind the data is cut off.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "io/file/block_file.h"
#include "tests/disk/test_disk.h"
#include "tests/support/cases.h"
#include "tests/support/child_process.h"
#include "tests/support/error_of.h"
#include "tests/support/file_text.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex::file_room_test { namespace {

using test::Backend;
using test::in_child;
using test::SmallFileSystem;
using test::TestDisk;

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::size_t kBlocks = 16;
constexpr std::size_t kFileSystemBytes = std::size_t{8} << 20;

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The outcome of an attempt to write kBlocks blocks.
struct Outcome {
  int error = 0;
  std::string message;
};

Outcome write_blocks(const std::string& path, const FileWriterOptions& options) {
  Outcome outcome;
  const auto write = [&] {
    FileWriter<char> out(path, options);
    guarded([&] {
      for (std::size_t at = 0; at < kBlocks * kBlock; at += 512) {
        std::memset(out.data() + at, 'x', 512);
      }
    }).throw_if_failed();
    out.finish(kBlocks * kBlock);
  };
  outcome.error = test::error_of(write, &outcome.message);
  return outcome;
}

class FullDisk : public testing::TestWithParam<std::tuple<const char*, Caching, Backend>> {
 protected:
  void SetUp() override {
    if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
  }
  FileWriterOptions options() const {
    return {.block_bytes = kBlock,
            .request_bytes = kBlock,
            .caching = std::get<1>(GetParam()),
            .sync = true};
  }
  SmallFileSystem system{std::get<0>(GetParam()), kFileSystemBytes};
};

// However much room there is, down to none.
TEST_P(FullDisk, NothingAppearsUnderTheName) {
  const std::string path = system.file("file");
  int whole = 0;
  int refused = 0;
  for (std::size_t room = 0; room <= kBlocks + 4; ++room) {
    SCOPED_TRACE(room);
    system.leave(room * kBlock);
    TestDisk disk(std::get<2>(GetParam()));
    FileWriterOptions way = options();
    way.disk = disk.disk.get();
    const Outcome outcome = write_blocks(path, way);
    if (outcome.error == 0) {
      ++whole;
      EXPECT_TRUE(test::file_text(path) == std::string(kBlocks * kBlock, 'x'));
      ASSERT_EQ(unlink(path.c_str()), 0);
      continue;
    }
    ++refused;
    EXPECT_EQ(outcome.error, ENOSPC) << outcome.message;
    EXPECT_NE(outcome.message.find(path), std::string::npos) << outcome.message;
    // Where room is missing for the first sector already, there is no offset to tell.
    EXPECT_TRUE(outcome.message.find("at byte ") != std::string::npos ||
                outcome.message.find("the first sector") != std::string::npos)
        << outcome.message;
    EXPECT_FALSE(exists(path));
  }
  EXPECT_GE(whole, 1);
  EXPECT_GE(refused, static_cast<int>(kBlocks) - 1);
  // All the room is there again.
  system.leave(kFileSystemBytes);
  EXPECT_GE(system.free_bytes(), (kBlocks + 4) * kBlock);
}

TEST_P(FullDisk, TheFileThatWasThereStays) {
  const std::string path = system.file("file");
  std::ofstream(path) << "old";
  system.leave(kBlocks / 2 * kBlock);
  EXPECT_EQ(write_blocks(path, options()).error, ENOSPC);
  EXPECT_EQ(test::file_text(path), "old");
}

// With the size known, before the first byte.
TEST_P(FullDisk, SpaceThatIsExpectedIsMissedAtOnce) {
  system.leave(kBlocks / 2 * kBlock);
  FileWriterOptions way = options();
  way.expected_bytes = kBlocks * kBlock;
  EXPECT_TRUE(test::fails([&] { const FileWriter<char> out(system.file("file"), way); }, ENOSPC,
                          system.file("file")));
  EXPECT_FALSE(exists(system.file("file")));
}

// A striped file goes on with the disks that have room.
TEST_P(FullDisk, AStripedFileLeavesItOut) {
  system.leave(2 * kBlock);
  const test::TemporaryFolder roomy;
  TestDisk disk(std::get<2>(GetParam()));
  StripedFileOptions striping;
  striping.unit_bytes = kBlock;
  striping.caching = std::get<1>(GetParam());
  StripedFile file({{roomy.file("a"), disk.disk.get()}, {system.file("b"), disk.disk.get()}},
                   striping);
  {
    FileWriter<char> out(file.writing_layout(), options());
    for (std::size_t i = 0; i < kBlocks * kBlock; ++i) {
      out.data()[i] = static_cast<char>('a' + i / kBlock);
    }
    out.finish(kBlocks * kBlock);
  }
  EXPECT_FALSE(file.left_out(0));
  EXPECT_TRUE(file.left_out(1));
  const FileReader<char> in(file.reading_layout(), {.block_bytes = kBlock});
  for (std::size_t i = 0; i < kBlocks * kBlock; ++i) {
    ASSERT_EQ(in.data()[i], static_cast<char>('a' + i / kBlock)) << i;
  }
}

// Room that is not told is not missing.
TEST_OF_ONE_THREAD(FileSystemsWithoutASize, AreNotFull) {
  for (const char* const type : {"tmpfs", "ramfs"}) {
    SCOPED_TRACE(type);
    const SmallFileSystem system(type, 0);
    if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
    ASSERT_EQ(system.free_bytes(), 0u) << "it does tell";
    const std::string path = system.file("file");
    const Outcome outcome =
        write_blocks(path, {.block_bytes = kBlock, .expected_bytes = kBlocks * kBlock});
    EXPECT_EQ(outcome.error, 0) << outcome.message;
    EXPECT_FALSE(BlockFile::open(path).free_bytes().has_value());
    EXPECT_FALSE(BlockFile::open(path).room_bytes().has_value());
  }
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "x";
  EXPECT_GT(BlockFile::open(folder.file("file")).free_bytes().value_or(0), 0u);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, FullDisk,
                         testing::Combine(testing::Values("tmpfs", "ext4"),
                                          testing::Values(Caching::kAuto, Caching::kBuffered),
                                          testing::Values(Backend::kUring, Backend::kThreads)),
                         [](const auto& setting) {
                           return std::string(std::get<0>(setting.param)) +
                                  (std::get<1>(setting.param) == Caching::kAuto ? "Direct"
                                                                                : "Buffered") +
                                  test::name_of(std::get<2>(setting.param));
                         });

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t length_of(const BlockFile& file) {
  struct stat status {};
  EXPECT_EQ(fstat(file.descriptor(), &status), 0);
  return static_cast<std::uint64_t>(status.st_size);
}

class GrowingFile : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "file").string();
};

TEST_F_OF_ONE_THREAD(GrowingFile, IsLongerThanWhatIsWrittenAndTakesNoSpace) {
  BlockFile file = BlockFile::create(path_);
  if (file.direct_descriptor() < 0) GTEST_SKIP() << file.direct_refusal();
  file.grow_ahead(kMiB);
  EXPECT_LT(length_of(file), kMiB) << "a small file is left alone";
  file.grow_ahead(200 * kMiB);
  const std::uint64_t length = length_of(file);
  EXPECT_GE(length, 250 * kMiB);
  struct stat status {};
  ASSERT_EQ(fstat(file.descriptor(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, kMiB);
  file.grow_ahead(length);
  EXPECT_EQ(length_of(file), length);
  file.grow_ahead(length + 1);
  EXPECT_GT(length_of(file), length + kMiB);
}

TEST_F_OF_ONE_THREAD(GrowingFile, IsNotOneThatIsThereAlready) {
  const int descriptor = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(descriptor, 0);
  BlockFile changed = BlockFile::open_to_change(path_, false);
  changed.grow_ahead(200 * kMiB);
  EXPECT_EQ(length_of(changed), 0);
  BlockFile borrowed = BlockFile::borrow(descriptor, "borrowed", true);
  borrowed.grow_ahead(200 * kMiB);
  EXPECT_EQ(length_of(borrowed), 0);
  close(descriptor);
}

TEST_F_OF_ONE_THREAD(GrowingFile, StaysWithinTheLimitOfTheProcess) {
  const int result = in_child([&] {
    BlockFile file = BlockFile::create(path_);
    const struct rlimit limit { 100 * kMiB, 100 * kMiB };
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    // SIGXFSZ would end the process here.
    file.grow_ahead(80 * kMiB);
    if (length_of(file) != 0 && length_of(file) != 100 * kMiB) return 2;
    file.grow_ahead(100 * kMiB);
    file.grow_ahead(101 * kMiB);
    return length_of(file) > 100 * kMiB ? 3 : 0;
  });
  EXPECT_EQ(result, 0);
}

// Long enough to grow several times; the last block is not whole.
TEST_F_OF_ONE_THREAD(GrowingFile, IsCutToSizeByItsWriter) {
  const std::uint64_t count = 150 * kMiB + 12345;
  {
    FileWriter<std::uint8_t> out(path_, {.block_bytes = kMiB});
    std::uint8_t* const data = out.data();
    for (std::uint64_t i = 0; i < count; ++i) data[i] = static_cast<std::uint8_t>(i * 7);
    out.finish(count);
  }
  ASSERT_EQ(std::filesystem::file_size(path_), count);
  std::vector<char> last(12345 + 10);
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(pread(file, last.data(), last.size(), static_cast<off_t>(count - last.size())),
            static_cast<ssize_t>(last.size()));
  close(file);
  for (std::uint64_t i = count - last.size(); i < count; ++i) {
    ASSERT_EQ(static_cast<std::uint8_t>(last[i - (count - last.size())]),
              static_cast<std::uint8_t>(i * 7));
  }
}

TEST_F_OF_ONE_THREAD(GrowingFile, IsCutToSizeInEachPartOfAStripedFile) {
  const std::uint64_t count = 301 * kMiB + 77;
  const std::string other = (folder_.path() / "other").string();
  StripedFileOptions options;
  options.unit_bytes = kMiB;
  options.most_bytes = count;
  {
    StripedFile file({{.path = path_}, {.path = other}}, options);
    FileWriter<std::uint8_t> out(file.writing_layout(), {.block_bytes = kMiB});
    for (std::uint64_t i = 0; i < count; i += 4096) out.data()[i] = 1;
    out.finish(count);
  }
  EXPECT_EQ(std::filesystem::file_size(path_) + std::filesystem::file_size(other), count);
}

}  // namespace

}  // namespace vortex::file_room_test

// Files that are made longer ahead of their writes: what lies behind the data is cut off, and
// nothing that limits files is overstepped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "io/file/block_file.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"
#include "vortex/file_writer.h"
#include "vortex/striped_file.h"

namespace vortex { namespace {

using test::in_child;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = kMiB;

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

TEST_F(GrowingFile, IsLongerThanWhatIsWrittenAndTakesNoSpace) {
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

TEST_F(GrowingFile, IsNotOneThatIsThereAlready) {
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

TEST_F(GrowingFile, StaysWithinTheLimitOfTheProcess) {
  const int result = in_child([&] {
    BlockFile file = BlockFile::create(path_);
    const struct rlimit limit { 100 * kMiB, 100 * kMiB };
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    // SIGXFSZ would end the process here.
    file.grow_ahead(80 * kMiB);
    if (length_of(file) > 100 * kMiB) return 2;
    file.grow_ahead(100 * kMiB);
    file.grow_ahead(101 * kMiB);
    return length_of(file) > 100 * kMiB ? 3 : 0;
  });
  EXPECT_EQ(result, 0);
}

// Long enough to grow several times; the last block is not whole.
TEST_F(GrowingFile, IsCutToSizeByItsWriter) {
  const std::uint64_t count = 150 * kMiB + 12345;
  {
    FileWriter<std::uint8_t> out(path_, {.block_bytes = kBlock});
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

TEST_F(GrowingFile, IsCutToSizeInEachPartOfAStripedFile) {
  const std::uint64_t count = 301 * kMiB + 77;
  const std::string other = (folder_.path() / "other").string();
  StripedFileOptions options;
  options.unit_bytes = kBlock;
  options.most_bytes = count;
  {
    StripedFile file({{.path = path_}, {.path = other}}, options);
    FileWriter<std::uint8_t> out(file.writing_layout(), {.block_bytes = kBlock});
    for (std::uint64_t i = 0; i < count; i += 4096) out.data()[i] = 1;
    out.finish(count);
  }
  EXPECT_EQ(std::filesystem::file_size(path_) + std::filesystem::file_size(other), count);
}

}  // namespace

}  // namespace vortex

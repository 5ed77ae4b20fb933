// Offsets beyond 4 GiB: sparse files, of which only the places that matter are ever touched.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "io/disk/open_disk.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/guarded.h"

namespace vortex::test { namespace {

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
    OpenDiskOptions options;
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

}  // namespace vortex::test

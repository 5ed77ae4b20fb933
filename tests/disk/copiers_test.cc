// Files in memory, which several threads copy.
#include "io/disk/copiers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "io/sequence/file_layout.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "vortex/disk.h"
#include "vortex/os/descriptor.h"

namespace vortex::copiers_test { namespace {

using Bytes = std::vector<std::byte>;

constexpr const char* kMemory = "/dev/shm";

Bytes random_bytes(std::size_t size, std::mt19937_64& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes contents_of(int file, std::size_t size) {
  Bytes bytes(size);
  EXPECT_EQ(pread(file, bytes.data(), size, 0), static_cast<ssize_t>(size));
  return bytes;
}

Attempt write_of(int file, std::uint64_t offset, const iovec* memory, unsigned count) {
  std::size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) bytes += memory[i].iov_len;
  return {Operation::kWrite, file, offset, bytes, memory, count};
}

TEST(WriteMapped, PutsPiecesAnywhereInAFileThatIsLongEnough) {
  std::mt19937_64 random(test::test_seed());
  const BlockFile file = BlockFile::temporary(kMemory);
  ASSERT_TRUE(file.in_memory());
  constexpr std::size_t kBytes = 1 << 20;
  Bytes expected(kBytes);
  ASSERT_EQ(ftruncate(file.descriptor(), kBytes), 0);
  for (int round = 0; round < 200; ++round) {
    const Bytes bytes = random_bytes(1 + random() % 20000, random);
    const std::size_t first = random() % (bytes.size() + 1);
    const std::size_t offset = random() % (kBytes - bytes.size() + 1);
    const std::array<iovec, 2> memory{
        {{const_cast<std::byte*>(bytes.data()), first},
         {const_cast<std::byte*>(bytes.data()) + first, bytes.size() - first}}};
    ASSERT_TRUE(write_mapped(write_of(file.descriptor(), offset, memory.data(), 2)));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  EXPECT_EQ(contents_of(file.descriptor(), kBytes), expected);
}

TEST(WriteMapped, LeavesOtherFilesAsTheyAre) {
  Bytes bytes(5000, std::byte{7});
  const iovec memory{bytes.data(), bytes.size()};
  const BlockFile file = BlockFile::temporary(kMemory);
  ASSERT_EQ(ftruncate(file.descriptor(), 9999), 0);
  EXPECT_TRUE(write_mapped(write_of(file.descriptor(), 4999, &memory, 1)));
  EXPECT_FALSE(write_mapped(write_of(file.descriptor(), 5000, &memory, 1)));  // too short
  EXPECT_EQ(contents_of(file.descriptor(), 9999)[9998], std::byte{7});
  const test::TemporaryFolder folder(kMemory);
  const std::string name = folder.file("named");
  const os::Descriptor named(open(name.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(ftruncate(named.get(), 9999), 0);
  EXPECT_FALSE(write_mapped(write_of(named.get(), 0, &memory, 1)));
  EXPECT_EQ(contents_of(named.get(), 9999), Bytes(9999));
  // The kernel refuses to map what is sealed.
  const os::Descriptor sealed(memfd_create("sealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 9999), 0);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_FALSE(write_mapped(write_of(sealed.get(), 0, &memory, 1)));
}

TEST_OF_ONE_THREAD(WriteMapped, SaysWhereThereIsNoRoom) {
  const test::SmallFileSystem full("tmpfs", std::uint64_t{1} << 20);
  if (!full.refusal.empty()) END_TEST_WITHOUT(full.environment, full.refusal);
  const BlockFile file = BlockFile::temporary(full.root);
  ASSERT_EQ(ftruncate(file.descriptor(), 4 << 20), 0);
  std::mt19937_64 random(test::test_seed());
  Bytes bytes = random_bytes(2 << 20, random);
  // Pieces end anywhere in what is mapped at a time.
  const iovec memory[] = {{bytes.data(), 700'001},
                          {bytes.data() + 700'001, bytes.size() - 700'001}};
  const std::size_t written = write_mapped(write_of(file.descriptor(), 0, memory, 2));
  EXPECT_GT(written, std::size_t{256} << 10);
  EXPECT_LE(written, std::size_t{1} << 20);
  EXPECT_TRUE(contents_of(file.descriptor(), written) ==
              Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(written)));
}

// Writes and reads of one file, many at once and each by whatever thread.
TEST(Copiers, MoveWhatIsAskedFor) {
  std::mt19937_64 random(test::test_seed());
  for (const DiskBackend backend : {DiskBackend::kBest, DiskBackend::kThreads}) {
    const std::unique_ptr<Disk> disk = open_disk({.backend = backend});
    disk->copy_with(7);
    const BlockFile file = BlockFile::temporary(kMemory);
    constexpr std::size_t kBlock = 16384, kBlocks = 256;
    const Bytes bytes = random_bytes(kBlock * kBlocks, random);
    ASSERT_EQ(ftruncate(file.descriptor(), kBlock * kBlocks / 2), 0);  // some writes make it longer
    Bytes read(bytes.size());
    std::vector<std::size_t> order(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
      std::shuffle(order.begin(), order.end(), random);
      std::deque<PlacedRequest> requests(kBlocks);
      for (const std::size_t block : order) {
        auto* const memory =
            operation == Operation::kRead ? read.data() : const_cast<std::byte*>(bytes.data());
        requests[block].request.set_memory(memory + block * kBlock, kBlock);
        requests[block].aim(operation, {disk.get(), &file, block * kBlock}, 0, kBlock, false);
        ASSERT_TRUE(requests[block].request.copies);
        disk->submit(requests[block].request);
      }
      for (PlacedRequest& request : requests) {
        ASSERT_TRUE(disk->wait(request.request));
        EXPECT_EQ(request.request.error, 0);
      }
    }
    EXPECT_EQ(read, bytes);
    EXPECT_EQ(disk->statistics().written_bytes, bytes.size());
  }
}

TEST(Copiers, AreForManyThreads) {
  EXPECT_EQ(Disk::copiers_for(1), 0U);
  EXPECT_EQ(Disk::copiers_for(3), 0U);
  EXPECT_EQ(Disk::copiers_for(4), 4U);
  EXPECT_EQ(Disk::copiers_for(128), 16U);
}

}}  // namespace vortex::copiers_test

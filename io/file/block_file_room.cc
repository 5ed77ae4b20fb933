// How long a file is, and what room it has.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "io/file/block_file.h"
#include "vortex/error.h"
#include "vortex/os/write_signals.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// The unit of stat(2)'s st_blocks, in bytes.
constexpr std::uint64_t kUnitOfStat = 512;

// A file is made longer ahead of its writes by this much at least.
constexpr std::uint64_t kLeastGrowth = std::uint64_t{64} << 20;
constexpr std::uint64_t kNeverAgain = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> free_bytes_of(const struct statvfs& status) {
  if (status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

// A call that may make a file longer.
template <typename Call>
int grow(Call call) noexcept {
  return os::without_size_signal([&] { return os::uninterrupted(call); });
}

}  // namespace

std::optional<std::uint64_t> free_bytes_in(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) {
    throw Error(errno, "ask how much room is left in '" + folder + "'");
  }
  return free_bytes_of(status);
}

std::optional<std::uint64_t> BlockFile::free_bytes() const noexcept {
  struct statvfs status {};
  if (fstatvfs(descriptor(), &status) != 0) return std::nullopt;
  return free_bytes_of(status);
}

std::optional<std::uint64_t> BlockFile::room_bytes() const noexcept {
  const std::optional<std::uint64_t> room = free_bytes();
  struct stat status {};
  if (!room || fstat(descriptor(), &status) != 0) return std::nullopt;
  return *room + static_cast<std::uint64_t>(status.st_blocks) * kUnitOfStat;
}

void BlockFile::expect_possible(std::uint64_t bytes, const char* operation) const {
  if (bytes <= std::uint64_t{std::numeric_limits<off_t>::max()}) return;
  throw Error(EFBIG, std::string(operation) + " " + format_bytes(bytes) + " to '" + name_ + "'");
}

void BlockFile::allocate(std::uint64_t bytes) {
  if (bytes == 0 || !seekable_) return;
  expect_possible(bytes, "reserve");
  struct stat status {};
  if (fstat(descriptor(), &status) == 0 && S_ISBLK(status.st_mode)) {
    if (bytes <= length_) return;
    throw Error(ENOSPC, "reserve " + format_bytes(bytes) + " for '" + name_ + "': the device has " +
                            format_bytes(length_));
  }
  // Asked for too much, file systems first hand out all they have.
  const std::optional<std::uint64_t> room = room_bytes();
  if (room && bytes > *room) {
    throw Error(ENOSPC, "reserve " + format_bytes(bytes) + " for '" + name_ +
                            "': the file system has room for " + format_bytes(*room));
  }
  const auto length = static_cast<off_t>(bytes);
  if (grow([&] { return fallocate(descriptor(), FALLOC_FL_KEEP_SIZE, 0, length); }) == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return;
  fail("reserve " + format_bytes(bytes) + " for");
}

bool BlockFile::try_to_grow(std::uint64_t from, std::uint64_t bytes) noexcept {
  const KeptErrno kept;
  const std::optional<std::uint64_t> room = room_bytes();
  const auto begin = static_cast<off_t>(from);
  const auto length = static_cast<off_t>(bytes);
  const auto done = [](int result) {
    return result == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
  };
  if (room && bytes > *room) return false;
  const auto allocate = [&] {
    return fallocate(descriptor(), FALLOC_FL_KEEP_SIZE, begin, length - begin);
  };
  // In memory, space is taken as fast by the writes, which several threads make.
  return (in_memory_ || done(grow(allocate))) &&
         done(grow([&] { return ftruncate(descriptor(), length); }));
}

void BlockFile::grow_ahead(std::uint64_t end) noexcept {
  if (end <= grown_ || end < kLeastGrowth || !to_be_ || (!direct_ && !in_memory_)) return;
  std::uint64_t length = end + std::max(kLeastGrowth, end / 8);
  // What is written up to there works, and a call that asks for more fails.
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
    length = std::min<std::uint64_t>(length, limit.rlim_cur);
  grown_ = std::max(length, end);
  if (length < end) return;
  const KeptErrno kept;
  const auto to = static_cast<off_t>(length);
  // What cannot be made longer at once may still grow with its writes.
  if (grow([&] { return ftruncate(descriptor(), to); }) != 0) grown_ = kNeverAgain;
}

void BlockFile::truncate(std::uint64_t bytes) {
  expect_possible(bytes, "give");
  const auto length = static_cast<off_t>(bytes);
  if (grow([&] { return ftruncate(descriptor(), length); }) != 0) {
    fail("set the length of " + format_bytes(bytes) + " for");
  }
}

bool BlockFile::punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return os::uninterrupted([&] {
           return fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(bytes));
         }) == 0;
}

}}  // namespace vortex::v0

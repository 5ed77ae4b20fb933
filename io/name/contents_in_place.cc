#include "io/name/contents_in_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "vortex/error.h"
#include "vortex/os/write_signals.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20;

// False: errno says why not.
bool copy_by_hand(int from, int to, off_t at, off_t end) {
  const std::unique_ptr<char[]> batch(new (std::nothrow) char[kBatch]);
  if (batch == nullptr) {
    errno = ENOMEM;
    return false;
  }
  while (at < end) {
    const auto wanted = static_cast<std::size_t>(std::min<off_t>(end - at, kBatch));
    const ssize_t read = pread(from, batch.get(), wanted, at);
    if (read < 0 && errno == EINTR) continue;
    if (read == 0) errno = EIO;  // the file is shorter
    if (read <= 0) return false;
    for (ssize_t written = 0; written < read;) {
      const ssize_t now =
          pwrite(to, batch.get() + written, static_cast<std::size_t>(read - written), at + written);
      if (now < 0 && errno == EINTR) continue;
      if (now == 0) errno = EIO;
      if (now <= 0) return false;
      written += now;
    }
    at += read;
  }
  return true;
}

// The same; by the file systems themselves, as far as they can.
bool copy(int from, int to, off_t end) {
  off_t at = 0;
  while (at < end) {
    off_t read_at = at;
    off_t write_at = at;
    const ssize_t copied =
        copy_file_range(from, &read_at, to, &write_at, static_cast<std::size_t>(end - at), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return copy_by_hand(from, to, at, end);
    at += copied;
  }
  return true;
}

off_t length_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) throw Error(errno, "stat the output");
  return status.st_size;
}

}  // namespace

ContentsInPlace::ContentsInPlace(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY)) {
  if (!file_) throw Error(errno, "write in place to '" + path + "'");
}

void ContentsInPlace::prepare(int whole) const {
  const off_t length = length_of(whole);
  if (length == 0) return;
  const auto reserve = [&] { return fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, length); };
  if (os::without_size_signal([&] { return os::uninterrupted(reserve); }) == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return;
  throw Error(errno, "make room in '" + path_ + "', which is as it was");
}

void ContentsInPlace::take(int whole) const {
  const off_t length = length_of(whole);
  const auto cut = [&] { return ftruncate(file_.get(), length); };
  const bool whole_now = os::without_size_signal([&] {
                           return copy(whole, file_.get(), length) ? os::uninterrupted(cut) : -1;
                         }) == 0 &&
                         os::writes_have_ended_well(file_.get());
  if (whole_now) return;
  throw Error(errno, "write in place to '" + path_ + "', which is not whole now");
}

void ContentsInPlace::settle(bool durable) const {
  if (durable && os::uninterrupted([&] { return fsync(file_.get()); }) != 0) {
    throw Error(errno, "'" + path_ + "' is whole, but cannot be synced");
  }
}

}}  // namespace vortex::v0

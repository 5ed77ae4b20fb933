#include "io/file/page_cache.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/os/memory.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

#ifdef SYS_cachestat
constexpr long kCachestatCall = SYS_cachestat;
#else
constexpr long kCachestatCall = 451;  // the same on all architectures
#endif

// As in <linux/mman.h> from Linux 6.5 on.
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

enum class Answer : std::uint8_t { kYes, kNo, kRefused };

Answer ask_cachestat(int file, std::uint64_t offset, std::size_t bytes) noexcept {
  CachestatRange range{offset, bytes};
  Cachestat found{};
  if (syscall(kCachestatCall, file, &range, &found, 0) != 0) return Answer::kRefused;
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t pages = detail::units_for(offset + bytes, page) - offset / page;
  return found.cached >= pages || found.dirty > 0 ? Answer::kYes : Answer::kNo;
}

Answer ask_by_reading(int file, std::uint64_t offset, std::size_t bytes) noexcept {
  for (const std::uint64_t at : {offset, offset + bytes / 2, offset + bytes - 1}) {
    char byte = 0;
    const iovec memory{&byte, 1};
    const ssize_t got = preadv2(file, &memory, 1, static_cast<off_t>(at), RWF_NOWAIT);
    if (got < 0) return errno == EAGAIN ? Answer::kNo : Answer::kRefused;
    if (got == 0) return Answer::kNo;
  }
  return Answer::kYes;
}

}  // namespace

bool PageCacheProbe::worth_reading_through(int file, std::uint64_t offset,
                                           std::size_t bytes) noexcept {
  const KeptErrno kept;
  Answer answer = Answer::kRefused;
  if (method() == Method::kCachestat) {
    answer = ask_cachestat(file, offset, bytes);
    if (answer == Answer::kRefused) method_.store(Method::kReadWithoutWaiting);
  }
  if (method() == Method::kReadWithoutWaiting) {
    answer = ask_by_reading(file, offset, bytes);
    if (answer == Answer::kRefused) method_.store(Method::kNone);
  }
  return answer == Answer::kYes;
}

}}  // namespace vortex::v0

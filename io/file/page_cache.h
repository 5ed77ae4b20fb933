// Tells whether the page cache holds a range of a file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 {

// Tells whether a range can be read at the speed of memory. Asks cachestat (Linux 6.5; well below a
// microsecond where nothing is cached, up to 8 for a megabyte that is), which counts pages. Where
// that is missing or not permitted (the caller neither owns the file nor may write it), tries to
// read a byte at both ends of the range and in the middle with RWF_NOWAIT, which guesses. Where
// that does not work either, nothing counts as cached.
//
// Thread-safe, async-signal-safe, keeps errno.
class PageCacheProbe {
 public:
  enum class Method : std::uint8_t { kCachestat, kReadWithoutWaiting, kNone };

  explicit PageCacheProbe(Method best = Method::kCachestat) noexcept : method_(best) {}

  // All pages of [offset, offset + bytes), which must lie within the file, are cached; or some are
  // dirty, which the disk does not have yet.
  bool worth_reading_through(int file, std::uint64_t offset, std::size_t bytes) noexcept;

  // The method in use: the best that has not been refused so far.
  Method method() const noexcept { return method_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Method> method_;
};

}}  // namespace vortex::v0

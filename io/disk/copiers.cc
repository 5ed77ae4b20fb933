#include "io/disk/copiers.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "vortex/os/memory.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// What a thread has mapped at a time counts as memory of the process.
constexpr std::size_t kMappedAtOnce = std::size_t{256} << 10;

// The kernel gives the pages before they are stored to, so that a full file system is no SIGBUS.
bool store_mapped(int file, std::uint64_t offset, const iovec* from, std::size_t within,
                  std::size_t bytes) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which old headers lack
  const std::size_t before = offset % os::page_bytes();
  void* const mapping = mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                             static_cast<off_t>(offset - before));
  if (mapping == MAP_FAILED) return false;
  os::note_mapped();
  const bool has_pages = madvise(mapping, before + bytes, kPopulateWrite) == 0;
  auto* const to = static_cast<std::byte*>(mapping) + before;
  for (std::size_t done = 0; has_pages && done < bytes; ++from, within = 0) {
    const std::size_t some = std::min(from->iov_len - within, bytes - done);
    std::memcpy(to + done, static_cast<const std::byte*>(from->iov_base) + within, some);
    done += some;
  }
  munmap(mapping, before + bytes);
  os::note_unmapped();
  return has_pages;
}

}  // namespace

std::size_t write_mapped(const Attempt& attempt) noexcept {
  const KeptErrno kept;
  struct stat status {};
  if (fstat(attempt.file, &status) != 0 || status.st_nlink != 0 ||
      attempt.offset + attempt.bytes > static_cast<std::uint64_t>(status.st_size)) {
    return 0;
  }
  const iovec* from = attempt.memory;
  std::size_t within = 0, done = 0;
  while (done < attempt.bytes) {
    const std::size_t some = std::min(kMappedAtOnce, attempt.bytes - done);
    if (!store_mapped(attempt.file, attempt.offset + done, from, within, some)) break;
    done += some;
    for (within += some; within >= from->iov_len && done < attempt.bytes; ++from) {
      within -= from->iov_len;
    }
  }
  return done;
}

Copiers::Copiers(unsigned threads, Arrived arrived)
    : arrived_(std::move(arrived)), threads_(threads) {
  for (MaskedThread& thread : threads_) {
    if (thread.start([this] { serve(); }) != 0) break;
  }
}

Copiers::~Copiers() { started_count_.close(); }

void Copiers::start(Request& request) noexcept {
  {
    const std::lock_guard lock(mutex_);
    started_.push(request);
  }
  started_count_.release();
}

void Copiers::serve() noexcept {
  while (started_count_.acquire()) {
    Request* request = nullptr;
    {
      const std::lock_guard lock(mutex_);
      request = started_.pop();
    }
    arrived_(*request, copy(request->attempt()));
  }
}

std::int64_t Copiers::copy(const Attempt& attempt) noexcept {
  if (attempt.operation == Operation::kRead) return transfer(attempt);
  const bool others_write = writing_.fetch_add(1, std::memory_order_relaxed) != 0;
  const std::size_t written = others_write ? write_mapped(attempt) : 0;
  const std::int64_t result = written > 0 ? static_cast<std::int64_t>(written) : transfer(attempt);
  writing_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

}}  // namespace vortex::v0

#include "io/disk/copiers.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "vortex/os/memory.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

// The kernel gives the pages before they are stored to, so that a full file system is no SIGBUS.
bool write_mapped(const Attempt& attempt) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which old headers lack
  const KeptErrno kept;
  struct stat status {};
  if (fstat(attempt.file, &status) != 0 || status.st_nlink != 0 ||
      attempt.offset + attempt.bytes > static_cast<std::uint64_t>(status.st_size)) {
    return false;
  }
  const std::size_t before = attempt.offset % os::page_bytes();
  const std::size_t bytes = before + attempt.bytes;
  void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, attempt.file,
                             static_cast<off_t>(attempt.offset - before));
  if (mapping == MAP_FAILED) return false;
  os::note_mapped();
  const bool has_pages = madvise(mapping, bytes, kPopulateWrite) == 0;
  auto* to = static_cast<std::byte*>(mapping) + before;
  for (unsigned i = 0; has_pages && i < attempt.memory_count; ++i) {
    std::memcpy(to, attempt.memory[i].iov_base, attempt.memory[i].iov_len);
    to += attempt.memory[i].iov_len;
  }
  munmap(mapping, bytes);
  os::note_unmapped();
  return has_pages;
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
  const bool is_written = others_write && write_mapped(attempt);
  const std::int64_t result =
      is_written ? static_cast<std::int64_t>(attempt.bytes) : transfer(attempt);
  writing_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

}}  // namespace vortex::v0

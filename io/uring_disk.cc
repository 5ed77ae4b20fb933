#include "io/uring_disk.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <utility>

#include "io/masked_thread.h"
#include "vortex/diagnostics.h"
#include "vortex/error.h"
#include "vortex/os_memory.h"

namespace vortex {
namespace {

// The kernel's limit for one registered buffer.
constexpr std::size_t kMostRangeBytes = std::size_t{1} << 30;

// Entries beyond `depth` wake whoever waits in the kernel.
constexpr unsigned kSpareEntries = 8;

// When a thread ends, the kernel cancels what that thread has submitted and not begun. The requests
// are none the worse for it.
std::int64_t without_cancellation(int result) noexcept {
  return result == -ECANCELED ? -EINTR : result;
}

std::string memory_lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return format_bytes(limit.rlim_cur);
}

std::string why_refused(int error) {
  int disabled = 0;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
  if (error == EPERM && disabled != 0) {
    return "kernel.io_uring_disabled is " + std::to_string(disabled);
  }
  switch (error) {
    case EPERM:
    case EACCES:
      return "not permitted: a seccomp filter, as containers have, or a security module";
    case ENOSYS:
      return "not there: the kernel has none, or a seccomp filter hides it";
    case ENOMEM:
      return "no memory for the rings: RLIMIT_MEMLOCK is " + memory_lock_limit() +
             "; raise it (ulimit -l) or use threads";
    default:
      return "refused";
  }
}

int open_ring(unsigned entries, io_uring* ring) noexcept {
  const int error = -io_uring_queue_init(entries, ring, 0);
  os::note_mapped();
  return error;
}

void close_ring(io_uring* ring) noexcept {
  os::note_unmapped();
  io_uring_queue_exit(ring);
}

}  // namespace

UringDisk::UringDisk(UringDiskOptions options)
    : Disk(options, kDefaultDepth), completions_(options.completions) {
  if (depth() > kMostDepth) {
    throw Error(EINVAL, "disk '" + name() + "': a depth of " + std::to_string(depth()) +
                            " is too much; io_uring takes up to " + std::to_string(kMostDepth));
  }
  if (const int error = open_ring(depth() + kSpareEntries, &ring_)) {
    throw Error(error, "disk '" + name() + "': io_uring: " + why_refused(error));
  }
  try {
    probe();
  } catch (...) {
    close_ring(&ring_);
    throw;
  }
  ranges_possible_ = io_uring_register_buffers_sparse(&ring_, kMostRanges) == 0;
  if (completions_ == Completions::kByThread) {
    if (const int error = start_masked_thread(&thread_, &UringDisk::run, this)) {
      close_ring(&ring_);
      throw Error(error, "disk '" + name() + "': the system refuses a thread for completions");
    }
  }
}

UringDisk::~UringDisk() {
  // A forked child shares the ring with its parent, which goes on using it.
  if (inherited()) return;
  drain();
  if (completions_ == Completions::kByThread) {
    stopping_.store(true, std::memory_order_release);
    interrupt();
    pthread_join(thread_, nullptr);
  }
  close_ring(&ring_);
}

void UringDisk::probe() {
  const std::string who = "disk '" + name() + "': io_uring: ";
  const int file = memfd_create("vortex-probe", MFD_CLOEXEC);
  if (file < 0) throw Error(errno, who + "memfd_create for a first request");
  std::array<char, 64> written{"vortex"};
  std::array<char, 64> read{};
  int error = pwrite(file, written.data(), written.size(), 0) < 0 ? errno : 0;
  if (error == 0) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, file, read.data(), read.size(), 0);
    io_uring_cqe* result = nullptr;
    int outcome = io_uring_submit(&ring_);
    if (outcome >= 0) {
      do {
        outcome = io_uring_wait_cqe(&ring_, &result);
      } while (outcome == -EINTR);
    }
    if (outcome < 0) {
      error = -outcome;
    } else {
      if (result->res < 0) error = -result->res;
      io_uring_cqe_seen(&ring_, result);
      if (error == 0 && read != written) error = EIO;
    }
  }
  close(file);
  if (error != 0) throw Error(error, who + "a first request failed: " + why_refused(error));
}

void UringDisk::register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) {
  std::lock_guard lock(submit_mutex_);
  if (!ranges_possible_) {
    registration_ = "not possible: the kernel has no sparse buffer tables (Linux 5.19)";
    return;
  }
  bool known = false;
  for (unsigned i = 0; i < range_count_; ++i) {
    if (ranges_[i].registration != begin) continue;
    ++ranges_[i].users;
    known = true;
  }
  if (known) return;
  const std::size_t blocks = std::max(kMostRangeBytes / block_bytes, std::size_t{1});
  const std::size_t chunk_bytes = blocks * block_bytes;
  int error = 0;
  for (std::size_t at = 0; at < bytes && error == 0; at += chunk_bytes) {
    const std::size_t size = std::min(chunk_bytes, bytes - at);
    unsigned index = 0;
    while (index < kMostRanges && ranges_[index].begin != nullptr) ++index;
    error = index < kMostRanges ? update_range(index, begin + at, size) : ENOSPC;
    if (error != 0) break;
    ranges_[index] = {begin + at, begin + at + size, begin, 1};
    range_count_ = std::max(range_count_, index + 1);
  }
  // What was registered before an error is used all the same.
  if (error == 0) {
    registration_ = format_bytes(bytes) + " registered";
  } else if (error == ENOMEM) {
    registration_ = "refused (ENOMEM): RLIMIT_MEMLOCK is " + memory_lock_limit() + ", and " +
                    format_bytes(bytes) + " were asked for";
  } else {
    registration_ = "refused (" + std::generic_category().message(error) + ")";
  }
}

void UringDisk::unregister_memory(std::byte* begin) noexcept {
  if (inherited()) return;
  std::lock_guard lock(submit_mutex_);
  submit_entries();
  for (unsigned i = 0; i < range_count_; ++i) {
    if (ranges_[i].registration != begin || --ranges_[i].users > 0) continue;
    update_range(i, nullptr, 0);
    ranges_[i] = {};
  }
  while (range_count_ > 0 && ranges_[range_count_ - 1].begin == nullptr) --range_count_;
}

int UringDisk::update_range(unsigned index, std::byte* begin, std::size_t bytes) noexcept {
  const iovec memory{begin, bytes};
  const __u64 tag = 0;
  const int updated = io_uring_register_buffers_update_tag(&ring_, index, &memory, &tag, 1);
  return updated < 0 ? -updated : 0;
}

std::string UringDisk::registration() const {
  std::lock_guard lock(submit_mutex_);
  return registration_;
}

int UringDisk::registered_index(const Attempt& attempt) const noexcept {
  if (attempt.memory_count != 1) return -1;
  auto* const begin = static_cast<std::byte*>(attempt.memory[0].iov_base);
  for (unsigned i = 0; i < range_count_; ++i) {
    if (begin >= ranges_[i].begin && begin + attempt.bytes <= ranges_[i].end) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

io_uring_sqe* UringDisk::next_entry() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    submit_entries();
    entry = io_uring_get_sqe(&ring_);
  }
  ++unsubmitted_;
  return entry;
}

void UringDisk::start(Request& request) noexcept {
  const Attempt& attempt = request.attempt();
  const bool read = attempt.operation == Operation::kRead;
  std::lock_guard lock(submit_mutex_);
  const int index = registered_index(attempt);
  io_uring_sqe* const entry = next_entry();
  if (index >= 0) {
    void* const memory = attempt.memory[0].iov_base;
    const auto bytes = static_cast<unsigned>(attempt.bytes);
    if (read) {
      io_uring_prep_read_fixed(entry, attempt.file, memory, bytes, attempt.offset, index);
    } else {
      io_uring_prep_write_fixed(entry, attempt.file, memory, bytes, attempt.offset, index);
    }
    count_fixed();
  } else if (read) {
    io_uring_prep_readv(entry, attempt.file, attempt.memory, attempt.memory_count, attempt.offset);
  } else {
    io_uring_prep_writev(entry, attempt.file, attempt.memory, attempt.memory_count, attempt.offset);
  }
  io_uring_sqe_set_data(entry, &request);
  submitted_.fetch_add(1, std::memory_order_release);  // the last look at the request
}

void UringDisk::flush() noexcept {
  std::lock_guard lock(submit_mutex_);
  submit_entries();
}

void UringDisk::submit_entries() noexcept {
  unsigned failures = 0;
  while (unsubmitted_ > 0) {
    const int submitted = io_uring_submit(&ring_);
    if (submitted > 0) {
      unsubmitted_ -= std::min(unsubmitted_, static_cast<unsigned>(submitted));
    } else if (submitted != -EINTR && ++failures > 100'000) {
      fatal("vortex: the kernel takes no more requests from an io_uring that worked before");
    }
  }
}

void UringDisk::settle_results() noexcept {
  submitted_.load(std::memory_order_acquire);
  // Copied out first: settling one result may submit, and the kernel then adds others.
  struct Result {
    Request* request;
    std::int64_t value;
  };
  std::array<Result, 32> results;
  for (;;) {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* result = nullptr;
    io_uring_for_each_cqe(&ring_, head, result) {
      if (count == results.size()) break;
      results[count++] = {static_cast<Request*>(io_uring_cqe_get_data(result)),
                          without_cancellation(result->res)};
    }
    if (count == 0) return;
    io_uring_cq_advance(&ring_, count);
    for (unsigned i = 0; i < count; ++i) {
      // Entries without a request only wake a waiter.
      if (results[i].request != nullptr) arrived(*results[i].request, results[i].value);
    }
  }
}

void UringDisk::gather() noexcept {
  if (!results_mutex_.try_lock()) return;
  settle_results();
  results_mutex_.unlock();
  // Whoever found the lock taken meanwhile took this thread for one that waits in the kernel.
  progress_event().advance();
}

void UringDisk::await_progress(std::uint32_t seen) noexcept {
  if (completions_ == Completions::kByThread || !results_mutex_.try_lock()) {
    // Another thread waits in the kernel and makes progress for all.
    progress_event().wait(seen);
    return;
  }
  wait_in_kernel(seen);
}

void UringDisk::wait_in_kernel(std::uint32_t seen) noexcept {
  someone_waits_.store(true, std::memory_order_seq_cst);
  // Progress made before this point found nobody to wake.
  if (progress() == seen) {
    // Interruptions by signals come back here through the callers' loops.
    io_uring_cqe* result = nullptr;
    io_uring_wait_cqe(&ring_, &result);
  }
  someone_waits_.store(false, std::memory_order_seq_cst);
  settle_results();
  results_mutex_.unlock();
  // Of those who found the lock taken, one is the next to wait in the kernel.
  progress_event().advance();
}

void UringDisk::wake_waiters() noexcept {
  if (!someone_waits_.load(std::memory_order_seq_cst)) return;
  std::lock_guard lock(submit_mutex_);
  io_uring_sqe* const entry = next_entry();
  io_uring_prep_nop(entry);
  io_uring_sqe_set_data(entry, nullptr);
  submit_entries();
}

void* UringDisk::run(void* disk) noexcept {
  auto* const self = static_cast<UringDisk*>(disk);
  for (;;) {
    const std::uint32_t seen = self->progress();
    if (self->stopping_.load(std::memory_order_acquire)) return nullptr;
    self->results_mutex_.lock();
    self->wait_in_kernel(seen);
  }
}

}  // namespace vortex

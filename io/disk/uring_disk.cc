#include "io/disk/uring_disk.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// The kernel's limit for one registered buffer.
constexpr std::size_t kMaxRangeBytes = std::size_t{1} << 30;

// An entry beyond `depth` looks out for new requests.
constexpr unsigned kSpareEntries = 1;

// How often the kernel is asked again to take entries for which it is short of something.
constexpr unsigned kMaxRingRefusals = 30;

// How often results are looked for while the kernel lets nobody wait for them.
constexpr int kLookAgainMs = 10;

std::string memory_lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return format_bytes(limit.rlim_cur);
}

std::string registration_text(int error, std::size_t bytes) {
  if (error == 0) return format_bytes(bytes) + " registered";
  if (error != ENOMEM) return "refused (" + std::generic_category().message(error) + ")";
  return "refused (ENOMEM): RLIMIT_MEMLOCK is " + memory_lock_limit() + ", and " +
         format_bytes(bytes) + " were asked for";
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

UringDisk::UringDisk(DiskOptions options) : Disk(std::move(options), kDefaultDepth) {
  if (depth() > kMaxDepth) {
    throw Error(EINVAL, "disk '" + name() + "': a depth of " + std::to_string(depth()) +
                            " is too much; io_uring takes up to " + std::to_string(kMaxDepth));
  }
  if (!new_requests_) throw Error(errno, "disk '" + name() + "': eventfd");
  unsubmitted_.reserve(depth() + kSpareEntries);
  if (const int error = thread_.start([this] {
        if (open()) serve();
      })) {
    throw Error(error, "disk '" + name() + "': the system refuses a thread for requests");
  }
  opened_.acquire();
  if (refusal_ != nullptr) {
    thread_.join();
    std::rethrow_exception(refusal_);
  }
}

// On the disk's thread: when a ring goes, the kernel calls on the thread that made it and on each
// that has entered it, whatever system call they wait in.
bool UringDisk::open() noexcept {
  bool ring_is_open = false;
  try {
    if (const int error = open_ring(depth() + kSpareEntries, &ring_)) {
      throw Error(error, "disk '" + name() + "': io_uring: " + why_refused(error));
    }
    ring_is_open = true;
    probe();
    ranges_possible_ = io_uring_register_buffers_sparse(&ring_, kMaxRanges) == 0;
  } catch (...) {
    if (ring_is_open) close_ring(&ring_);
    refusal_ = std::current_exception();
  }
  const bool open = refusal_ == nullptr;
  opened_.release();
  return open;
}

UringDisk::~UringDisk() {
  // A forked child shares the ring with its parent, which goes on using it.
  if (inherited()) return;
  drain();
  end_copying();
  stopping_.store(true, std::memory_order_release);
  new_requests_.signal();
  thread_.join();
  close_ring(&ring_);
}

void UringDisk::probe() {
  const std::string who = "disk '" + name() + "': io_uring: ";
  const os::Descriptor file(memfd_create("vortex-probe", MFD_CLOEXEC));
  if (!file) throw Error(errno, who + "memfd_create for a first request");
  std::array<char, 64> written{"vortex"};
  std::array<char, 64> read{};
  int error = pwrite(file.get(), written.data(), written.size(), 0) < 0 ? errno : 0;
  if (error == 0) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, file.get(), read.data(), read.size(), 0);
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
  if (error != 0) throw Error(error, who + "a first request failed: " + why_refused(error));
}

void UringDisk::register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) {
  std::lock_guard lock(mutex_);
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
  const std::size_t blocks = std::max(kMaxRangeBytes / block_bytes, std::size_t{1});
  const std::size_t chunk_bytes = blocks * block_bytes;
  int error = 0;
  for (std::size_t at = 0; at < bytes && error == 0; at += chunk_bytes) {
    const std::size_t size = std::min(chunk_bytes, bytes - at);
    unsigned index = 0;
    while (index < kMaxRanges && ranges_[index].begin != nullptr) ++index;
    error = index < kMaxRanges ? update_range(index, begin + at, size) : ENOSPC;
    if (error != 0) break;
    ranges_[index] = {begin + at, begin + at + size, begin, 1};
    range_count_ = std::max(range_count_, index + 1);
  }
  // The ranges that were registered before an error are used all the same; and without memory for
  // what is told of them, so that they are given back as others are.
  try {
    registration_ = registration_text(error, bytes);
  } catch (const std::bad_alloc&) {
    registration_.clear();
  }
}

void UringDisk::unregister_memory(std::byte* begin) noexcept {
  if (inherited()) return;
  std::lock_guard lock(mutex_);
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
  std::lock_guard lock(mutex_);
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

void UringDisk::start(Request& request) noexcept {
  std::lock_guard lock(mutex_);
  started_.push(request);
  announced_ = false;
}

void UringDisk::flush() noexcept {
  {
    std::lock_guard lock(mutex_);
    if (announced_) return;
    announced_ = true;
  }
  // The thread looks at the queue once more after it has said that it sleeps.
  if (sleeps_.exchange(false, std::memory_order_acq_rel)) new_requests_.signal();
}

void UringDisk::serve() noexcept {
  unsigned refusals = 0;
  for (;;) {
    prepare_started();
    const bool may_sleep = say_that_it_sleeps();
    const int error = submit_entries(may_sleep);
    sleeps_.store(false, std::memory_order_relaxed);
    settle_results();
    if (stopping_.load(std::memory_order_acquire)) return;
    if (error == 0 || error == EINTR) {
      refusals = 0;
    } else if ((error == EAGAIN || error == EBUSY) && ++refusals < kMaxRingRefusals) {
      pause(retry_pause_ns(refusals));
    } else {
      refusals = 0;
      // EAGAIN would have each request try again for as long as all of them have tried already.
      fail_unsubmitted(error == EAGAIN ? ENOMEM : error);
      if (say_that_it_sleeps()) wait_outside_the_ring();
      sleeps_.store(false, std::memory_order_relaxed);
    }
  }
}

// False: there is something to do. True: whoever starts a request from now on sends a signal.
bool UringDisk::say_that_it_sleeps() noexcept {
  sleeps_.store(true, std::memory_order_release);
  std::lock_guard lock(mutex_);
  return started_.empty() && !stopping_.load(std::memory_order_acquire);
}

void UringDisk::prepare_started() noexcept {
  if (!listens_ && unsubmitted_.size() < unsubmitted_.capacity()) {
    if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) {
      io_uring_prep_poll_add(entry, new_requests_.get(), POLLIN);
      io_uring_sqe_set_data(entry, nullptr);
      unsubmitted_.push_back(entry);
      listens_ = true;
    }
  }
  std::lock_guard lock(mutex_);
  while (!started_.empty() && unsubmitted_.size() < unsubmitted_.capacity()) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;
    prepare(*started_.pop(), entry);
    unsubmitted_.push_back(entry);
  }
}

void UringDisk::prepare(Request& request, io_uring_sqe* entry) noexcept {
  const Attempt& attempt = request.attempt();
  const bool read = attempt.operation == Operation::kRead;
  const int index = registered_index(attempt);
  if (index >= 0) {
    void* const memory = attempt.memory[0].iov_base;
    const auto bytes = static_cast<unsigned>(attempt.bytes);
    if (read) {
      io_uring_prep_read_fixed(entry, attempt.file, memory, bytes, attempt.offset, index);
    } else {
      io_uring_prep_write_fixed(entry, attempt.file, memory, bytes, attempt.offset, index);
    }
    count(&DiskStatistics::fixed_attempts);
  } else if (read) {
    io_uring_prep_readv(entry, attempt.file, attempt.memory, attempt.memory_count, attempt.offset);
  } else {
    io_uring_prep_writev(entry, attempt.file, attempt.memory, attempt.memory_count, attempt.offset);
  }
  io_uring_sqe_set_data(entry, &request);
}

// Returns 0 or an errno value. With `wait` it waits for a result.
int UringDisk::submit_entries(bool wait) noexcept {
  const int submitted = io_uring_submit_and_wait(&ring_, wait ? 1 : 0);
  if (submitted < 0) return -submitted;
  const auto count = std::min(static_cast<std::size_t>(submitted), unsubmitted_.size());
  in_kernel_ += count;
  unsubmitted_.erase(unsubmitted_.begin(),
                     unsubmitted_.begin() + static_cast<std::ptrdiff_t>(count));
  return 0;
}

// The kernel takes no entries. They stay where they are and do nothing if it ever takes them.
void UringDisk::fail_unsubmitted(int error) noexcept {
  RequestQueue refused;
  for (io_uring_sqe* const entry : unsubmitted_) {
    auto* const request = reinterpret_cast<Request*>(entry->user_data);
    if (request == nullptr || entry->opcode == IORING_OP_NOP) continue;
    io_uring_prep_nop(entry);
    io_uring_sqe_set_data(entry, this);
    refused.push(*request);
  }
  {
    std::lock_guard lock(mutex_);
    while (Request* const request = started_.pop()) refused.push(*request);
  }
  while (Request* const request = refused.pop()) arrived(*request, -error);
}

// For new requests, and for the results of those that the kernel has, which it delivers on the way
// out of any system call of this thread.
void UringDisk::wait_outside_the_ring() noexcept {
  pollfd event{new_requests_.get(), POLLIN, 0};
  poll(&event, 1, in_kernel_ > 0 ? kLookAgainMs : -1);
  new_requests_.clear();
}

void UringDisk::settle_results() noexcept {
  // Copied out first: settling one result may take long, and the kernel needs the room.
  struct Result {
    void* data;
    std::int64_t value;
  };
  std::array<Result, 32> results;
  for (;;) {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* result = nullptr;
    io_uring_for_each_cqe(&ring_, head, result) {
      if (count == results.size()) break;
      results[count++] = {io_uring_cqe_get_data(result), result->res};
    }
    if (count == 0) return;
    io_uring_cq_advance(&ring_, count);
    in_kernel_ -= count;
    for (unsigned i = 0; i < count; ++i) {
      if (results[i].data == nullptr) {
        new_requests_.clear();
        listens_ = false;
      } else if (results[i].data != this) {
        arrived(*static_cast<Request*>(results[i].data), results[i].value);
      }
    }
  }
}

}}  // namespace vortex::v0

#include "io/disk/disk.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// A request whose attempts are interrupted so often without moving a byte will not get anywhere.
constexpr unsigned kMaxInterruptions = 1000;

// EAGAIN is a shortage in the kernel. With the pauses between, it may last for about two seconds.
constexpr unsigned kMaxRefusals = 70;
constexpr std::uint64_t kShortestPauseNs = 20'000;
constexpr unsigned kPauseDoublings = 11;

void clear_memory(const Request& request) noexcept {
  if (request.pieces == nullptr) {
    std::memset(request.memory, 0, request.piece_bytes);
    return;
  }
  for (unsigned i = 0; i < request.piece_count; ++i) {
    std::memset(request.pieces->begins[i], 0, request.piece_bytes);
  }
}

}  // namespace

Disk::Disk(DiskOptions options, unsigned depth)
    : name_(std::move(options.name)),
      depth_(options.depth != 0 ? options.depth : depth),
      owner_pid_(getpid()) {}

bool Disk::inherited() const noexcept { return getpid() != owner_pid_; }

void Disk::count(std::uint64_t DiskStatistics::*counter, std::uint64_t by) noexcept {
  std::lock_guard lock(mutex_);
  counts_.*counter += by;
}

std::uint64_t Disk::retry_pause_ns(unsigned refusals) noexcept {
  return kShortestPauseNs << std::min(refusals - 1, kPauseDoublings);
}

void Disk::pause(std::uint64_t nanoseconds) noexcept {
  const KeptErrno kept;
  const timespec time{0, static_cast<long>(nanoseconds)};
  nanosleep(&time, nullptr);
}

void Disk::submit(Request& request, bool more_to_come) noexcept {
  request.bytes_done = 0;
  request.error = 0;
  request.interruptions_ = request.refusals_ = 0;
  request.cut_at_ = 0;
  request.state_.store(Request::State::kUnderWay, std::memory_order_relaxed);
  {
    std::lock_guard lock(mutex_);
    if (log_ != nullptr && idle()) log_->disk_begins();
    (request.operation == Operation::kWrite ? writes_ : reads_).push(request);
  }
  pump();
  if (!more_to_come) flush();
}

Request* Disk::next_to_issue() noexcept {
  std::lock_guard lock(mutex_);
  if (in_flight_ >= depth_ || (reads_.empty() && writes_.empty())) return nullptr;
  ++in_flight_;
  counts_.peak_in_flight = std::max(counts_.peak_in_flight, in_flight_);
  // Writes first (SPAA paper, section 3): a write frees memory, which is what readers wait for.
  Request* const request = (writes_.empty() ? reads_ : writes_).pop();
  if (log_ != nullptr && log_->traces()) request->issued_ns_ = steady_now_ns();
  return request;
}

void Disk::pump() noexcept {
  while (Request* const request = next_to_issue()) issue(*request);
}

void Disk::issue(Request& request) noexcept {
  count(&DiskStatistics::attempts);
  request.prepare_attempt();
  request.copies&& copiers_ != nullptr ? copiers_->start(request) : start(request);
}

void Disk::arrived(Request& request, std::int64_t result) noexcept {
  if (has_ended(request, result)) {
    end(request);
  } else {
    issue(request);
  }
}

bool Disk::has_ended(Request& request, std::int64_t result) noexcept {
  if (result < 0) {
    const int error = static_cast<int>(-result);
    const bool again = (error == EINTR && ++request.interruptions_ < kMaxInterruptions) ||
                       (error == EAGAIN && ++request.refusals_ < kMaxRefusals);
    if (!again) {
      request.error = error;
      return true;
    }
    count(&DiskStatistics::retries);
    if (error == EAGAIN) pause(retry_pause_ns(request.refusals_));
    return false;
  }
  const bool read = request.operation == Operation::kRead;
  if (result == 0) {
    if (!read) request.error = EIO;  // a device that takes nothing and does not say why
    return true;
  }
  request.interruptions_ = request.refusals_ = 0;
  const std::size_t done = request.bytes_done + static_cast<std::size_t>(result);
  if (done >= request.wanted_bytes()) {
    request.bytes_done = std::min(done, request.bytes);
    return true;
  }
  count(&DiskStatistics::short_transfers);
  const std::size_t beyond = done % request.alignment;
  if (beyond == 0) {
    request.bytes_done = done;
    return false;
  }
  // Only the end of a file cuts direct I/O inside a sector; if that is what it was, the transfer of
  // this last sector is cut in the same place again.
  if (request.cut_at_ == done) {
    request.bytes_done = done;
    if (!read) request.error = EIO;
    return true;
  }
  request.cut_at_ = done;
  request.bytes_done = done - beyond;
  return false;
}

void Disk::end(Request& request) noexcept {
  if (request.clear_written && request.operation == Operation::kWrite && request.error == 0) {
    clear_memory(request);
  }
  {
    std::lock_guard lock(mutex_);
    const bool read = request.operation == Operation::kRead;
    ++(read ? counts_.reads : counts_.writes);
    (read ? counts_.read_bytes : counts_.written_bytes) += request.bytes_done;
    if (request.error != 0) ++counts_.failures;
  }
  log_end(request);
  // From the next statement on the request may be gone.
  if (const auto complete = request.complete) {
    request.state_.store(Request::State::kDone, std::memory_order_relaxed);
    complete(request);
  } else {
    request.state_.store(Request::State::kDone, std::memory_order_release);
  }
  {
    std::lock_guard lock(mutex_);
    --in_flight_;
    if (log_ != nullptr && idle()) log_->disk_ends();
  }
  pump();
  flush();
  progress_.notify();
}

void Disk::copy_with(unsigned threads) {
  auto copiers = std::make_unique<Copiers>(
      threads, [this](Request& request, std::int64_t result) { arrived(request, result); });
  if (copiers->any()) copiers_ = std::move(copiers);
}

void Disk::report_to(ActivityLog& log) {
  log_ = &log;
  track_ = log.add_track(name_, 0, true);
}

void Disk::log_end(const Request& request) noexcept {
  if (log_ == nullptr || !log_->traces()) return;
  const bool read = request.operation == Operation::kRead;
  log_->add({request.issued_ns_, steady_now_ns(), request.bytes_done, track_,
             read ? SpanKind::kRead : SpanKind::kWrite});
}

bool Disk::wait(Request& request, const std::atomic<bool>* stop) noexcept {
  flush();
  if (request.done()) return true;
  const Waiting waiting;
  const std::uint64_t begin = now_ns();
  bool ended = true;
  for (;;) {
    const std::uint32_t seen = progress();
    if (request.done()) break;
    if (stop != nullptr && stop->load(std::memory_order_acquire)) {
      ended = false;
      break;
    }
    flush();
    await_progress(seen);
  }
  count(&DiskStatistics::waits);
  count(&DiskStatistics::waited_ns, now_ns() - begin);
  return ended;
}

void Disk::drain() noexcept {
  for (;;) {
    const std::uint32_t seen = progress();
    {
      std::lock_guard lock(mutex_);
      if (idle()) return;
    }
    flush();
    await_progress(seen);
  }
}

DiskStatistics Disk::statistics() const {
  DiskStatistics result;
  {
    std::lock_guard lock(mutex_);
    result = counts_;
  }
  result.backend = backend();
  result.fallback = fallback_;
  result.registration = registration();
  return result;
}

}}  // namespace vortex::v0

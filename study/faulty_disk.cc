#include "study/faulty_disk.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

DiskOptions options_of(const Disk& inner) {
  DiskOptions options;
  options.name = inner.name();
  options.depth = inner.depth();
  return options;
}

void flip_bit(const Attempt& attempt, std::size_t byte) noexcept {
  const iovec* piece = attempt.memory;
  for (; byte >= piece->iov_len; ++piece) byte -= piece->iov_len;
  static_cast<char*>(piece->iov_base)[byte] ^= static_cast<char>(1 << byte % 8);
}

}  // namespace

FaultyDisk::FaultyDisk(std::unique_ptr<Disk> inner, std::shared_ptr<FaultPlan> plan)
    : Disk(options_of(*inner), inner->depth()),
      own_inner_(std::move(inner)),
      inner_(*own_inner_),
      plan_(std::move(plan)),
      backend_(inner_.statistics().backend),
      errands_(depth()) {
  for (Errand& errand : errands_) free_.push_back(&errand);
  held_back_.reserve(depth());
  injected_reports_.reserve(depth());
}

FaultyDisk::~FaultyDisk() {
  if (inherited()) return;
  drain();
  // Its threads may still be on their way out of a report, through here.
  own_inner_.reset();
}

void FaultyDisk::interrupt() noexcept {
  Disk::interrupt();
  inner_.interrupt();
}

DiskStatistics FaultyDisk::statistics() const {
  DiskStatistics result = Disk::statistics();
  const DiskStatistics inner = inner_.statistics();
  result.fallback = inner.fallback;
  result.registration = inner.registration;
  result.fixed_attempts = inner.fixed_attempts;
  return result;
}

void FaultyDisk::register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) {
  inner_.register_memory(begin, bytes, block_bytes);
}

void FaultyDisk::unregister_memory(std::byte* begin) noexcept { inner_.unregister_memory(begin); }

// Progress here is made before the inner disk says that it has made some.
void FaultyDisk::await_progress(std::uint32_t seen) noexcept {
  const std::uint32_t seen_inside = inner_.progress();
  if (progress() == seen) inner_.await_progress(seen_inside);
}

FaultyDisk::Errand& FaultyDisk::errand_for(Request& request) noexcept {
  std::lock_guard lock(mutex_);
  Errand& errand = *free_.back();
  free_.pop_back();
  errand.disk = this;
  errand.outer = &request;
  errand.wanted = request.attempt().bytes;
  errand.moved = 0;
  errand.forced = errand.flips = false;
  errand.overtakers = 0;
  return errand;
}

void FaultyDisk::start(Request& request) noexcept {
  using Kind = PlannedFault::Kind;
  const Attempt& attempt = request.attempt();
  const PlannedFault fault =
      plan_->decide(attempt, started_.fetch_add(1, std::memory_order_relaxed));
  if (fault.kind != Kind::kNone) injected_.fetch_add(1, std::memory_order_relaxed);
  Errand& errand = errand_for(request);
  if (fault.kind == Kind::kError) {
    report_injected(errand, -fault.error);
    return;
  }
  if (fault.kind == Kind::kLate) errand.overtakers = fault.overtakers;
  if (fault.kind == Kind::kFlipped) {
    errand.flipped = fault.bytes;
    errand.flips = attempt.operation == Operation::kRead;
    if (!errand.flips) flip_bit(attempt, fault.bytes % attempt.bytes);
  }
  if (fault.kind == Kind::kSilent) {
    const std::size_t moved = std::min(fault.bytes, attempt.bytes);
    errand.forced = true;
    errand.forced_result = static_cast<std::int64_t>(attempt.bytes);
    errand.wanted = moved - moved % request.alignment;
    if (errand.wanted == 0) {
      report_injected(errand, errand.forced_result);
      return;
    }
  }
  if (fault.kind == Kind::kShort || fault.kind == Kind::kTorn) {
    const bool torn = fault.kind == Kind::kTorn;
    std::size_t reported = std::clamp<std::size_t>(fault.bytes, 1, attempt.bytes);
    // Direct I/O cannot be asked for less than whole sectors. Bytes that are reported beyond them
    // have not been moved, and nobody may rely on them. At the end of the data the request would,
    // and a second cut in the same place would say that the file ends there: in both cases only the
    // moved bytes are reported.
    const std::size_t moved = reported - reported % request.alignment;
    const std::size_t cut_at = request.bytes_done + reported;
    if (cut_at >= request.wanted_bytes() || cut_at == request.cut_at()) reported = moved;
    if (torn || reported > 0) {
      errand.forced = true;
      errand.forced_result = torn ? -fault.error : static_cast<std::int64_t>(reported);
      if (moved == 0) {
        report_injected(errand, errand.forced_result);
        return;
      }
      errand.wanted = moved;
    }
  }
  carry_out(errand);
}

void FaultyDisk::carry_out(Errand& errand) noexcept {
  {
    std::lock_guard lock(mutex_);
    ++with_inner_;
  }
  submit_part(errand);
}

// The pieces of a request are of one size, and an attempt may begin inside one: the rest of that is
// a part of its own.
void FaultyDisk::submit_part(Errand& errand) noexcept {
  const Request& outer = *errand.outer;
  const Attempt& attempt = outer.attempt();
  const unsigned first = errand.moved == 0 ? 0 : 1;
  const iovec* const memory = attempt.memory + first;
  const unsigned count = attempt.memory_count - first;
  std::size_t left = errand.wanted - errand.moved;
  if (count > 1 && memory[0].iov_len != memory[1].iov_len &&
      memory[0].iov_len < outer.piece_bytes) {
    left = std::min(left, memory[0].iov_len);
  }
  Request& request = errand.request;
  request.operation = attempt.operation;
  request.file = attempt.file;
  request.offset =
      attempt.offset == Request::kSequential ? attempt.offset : attempt.offset + errand.moved;
  request.alignment = outer.alignment;
  if (left <= memory[0].iov_len) {
    request.set_memory(static_cast<std::byte*>(memory[0].iov_base), left);
  } else {
    request.bytes = left;
    request.pieces = &errand.pieces;
    request.piece_bytes = memory[0].iov_len;
    request.piece_count = count;
    for (unsigned i = 0; i < count; ++i) {
      errand.pieces.begins[i] = static_cast<std::byte*>(memory[i].iov_base);
    }
  }
  const std::size_t done = outer.bytes_done + errand.moved;
  const std::size_t enough = outer.wanted_bytes() - std::min(done, outer.wanted_bytes());
  request.least_bytes = enough < left ? enough : 0;
  request.complete = &part_ended;
  request.context = &errand;
  inner_.submit(request, true);
}

void FaultyDisk::part_ended(Request& request) noexcept {
  Errand& errand = *static_cast<Errand*>(request.context);
  FaultyDisk& disk = *errand.disk;  // the errand may be another request's once its part has gone
  errand.moved += request.bytes_done;
  const bool whole = request.error == 0 && request.bytes_done == request.bytes;
  if (whole && errand.moved < errand.wanted) {
    disk.submit_part(errand);
    disk.flush();
    return;
  }
  // As for a system call: what was moved counts, and the error comes with the next attempt.
  disk.ended(errand, errand.moved > 0 ? static_cast<std::int64_t>(errand.moved)
                                      : -std::int64_t{request.error});
}

void FaultyDisk::ended(Errand& errand, std::int64_t result) noexcept {
  // A file may end earlier than the planned fault would have cut the transfer.
  if (errand.forced && result == static_cast<std::int64_t>(errand.wanted)) {
    result = errand.forced_result;
  }
  if (errand.flips && result > 0) {
    flip_bit(errand.outer->attempt(), errand.flipped % static_cast<std::size_t>(result));
  }
  const bool late = errand.overtakers > 0;
  {
    std::lock_guard lock(mutex_);
    for (Errand* const held : held_back_) {
      if (held->overtakers > 0) --held->overtakers;
    }
    if (late) {
      errand.result = result;
      held_back_.push_back(&errand);
    }
    --with_inner_;
  }
  if (!late) report(errand, result);
  report_overtaken();
}

void FaultyDisk::report(Errand& errand, std::int64_t result) noexcept {
  Request& request = *errand.outer;
  {
    std::lock_guard lock(mutex_);
    free_.push_back(&errand);
  }
  arrived(request, result);
}

void FaultyDisk::report_overtaken() noexcept {
  for (;;) {
    Errand* due = nullptr;
    {
      std::lock_guard lock(mutex_);
      const auto at = std::find_if(held_back_.begin(), held_back_.end(), [&](const Errand* held) {
        return with_inner_ == 0 || held->overtakers == 0;
      });
      if (at == held_back_.end()) return;
      due = *at;
      held_back_.erase(at);
    }
    report(*due, due->result);
  }
}

// A report may start the next attempt, which may fail on purpose, too: they do not nest.
void FaultyDisk::report_injected(Errand& errand, std::int64_t result) noexcept {
  std::unique_lock lock(mutex_);
  injected_reports_.push_back({errand.outer, result});
  free_.push_back(&errand);
  if (reporting_) return;
  reporting_ = true;
  while (!injected_reports_.empty()) {
    const Report next = injected_reports_.front();
    injected_reports_.erase(injected_reports_.begin());
    lock.unlock();
    arrived(*next.request, next.result);
    // A thread that waits for this disk waits inside the inner one, which must wake it.
    inner_.interrupt();
    lock.lock();
  }
  reporting_ = false;
}

std::unique_ptr<Disk> with_faults(std::unique_ptr<Disk> disk, std::shared_ptr<FaultPlan> plan) {
  if (plan == nullptr) return disk;
  return std::make_unique<FaultyDisk>(std::move(disk), std::move(plan));
}

}}  // namespace vortex::v0

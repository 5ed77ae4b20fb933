#include "vortex/commit_stream.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex::inline v0 {
namespace {

constexpr const char kRefused[] = "the kernel refuses to commit, guard or decommit a block";

}  // namespace

CommitStreamBase::CommitStreamBase(const Options& options)
    : Stream(options.name, Reservation({.bytes = options.reserve_bytes,
                                        .least_bytes = std::min(options.least_reserve_bytes,
                                                                options.reserve_bytes)})),
      block_bytes_(options.block_bytes),
      read_ahead_(options.read_ahead_blocks),
      writer_comeback_(options.writer_comeback_blocks),
      reader_comeback_(options.reader_comeback_blocks),
      empty_(static_cast<std::uint32_t>(read_ahead_ + writer_comeback_)),
      slots_(read_ahead_ + 2 * writer_comeback_ + reader_comeback_ + 1),
      page_tables_(reservation(), block_bytes_) {
  if (block_bytes_ == 0 || block_bytes_ % os::page_bytes() != 0) {
    throw Error(EINVAL, "stream '" + name() + "': a block of " + format_bytes(block_bytes_) +
                            " is no multiple of the page");
  }
  if (read_ahead_ == 0) {
    throw Error(EINVAL, "stream '" + name() +
                            "': without read-ahead the guard that the reader needs is never set; "
                            "read_ahead_blocks must be at least 1");
  }
  open();
}

CommitStreamBase::~CommitStreamBase() { close(); }

void CommitStreamBase::wake() noexcept {
  full_.close();
  empty_.close();
}

std::uint64_t CommitStreamBase::writer_floor() const noexcept {
  return writer_next_ > writer_comeback_ + 1 ? writer_next_ - writer_comeback_ - 1 : 0;
}

std::uint64_t CommitStreamBase::reader_floor() const noexcept {
  return reader_next_ > reader_comeback_ + 1 ? reader_next_ - reader_comeback_ - 1 : 0;
}

CommitStreamBase::State CommitStreamBase::state_of(std::uint64_t index) noexcept {
  const Slot& slot = slot_of(index);
  return slot.index == index ? slot.state : State::kReserved;
}

std::optional<std::uint64_t> CommitStreamBase::length_bytes() const noexcept {
  auto* self = const_cast<CommitStreamBase*>(this);
  std::lock_guard lock(self->mutex());
  return length_ == kUnknown ? std::nullopt : std::optional(length_);
}

bool CommitStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  const State state = state_of(index);
  if (state == State::kCommitted) {
    note_spurious_fault();
    return true;
  }
  // Without word from the processor, a guard tells the reader from the writer, and so does the end.
  const bool reads = access == Access::kUnknown ? state == State::kGuarded || length_ != kUnknown
                                                : access == Access::kRead;
  return reads ? serve_reader(index, offset) : serve_writer(index, offset);
}

bool CommitStreamBase::serve_writer(std::uint64_t index, std::uint64_t offset) noexcept {
  touched_ = {writer_floor(), writer_next_};
  if (length_ != kUnknown) return fail(EFAULT, "touched after finish()", offset);
  if (index < writer_floor()) {
    return fail(EFAULT, "a touch behind the window: raise the comeback (L)", offset);
  }
  if ((index + 1) * block_bytes_ > reservation().bytes()) return handle_overrun(offset);
  if (index >= writer_next_) {
    writer_next_ = index + 1;
    if (!guard_below(writer_floor(), offset)) return false;
  }
  if (!acquire_unlocked(empty_, offset)) return false;
  if (state_of(index) != State::kReserved) return true;
  int error = 0;
  if (os::map_memory(block_at(index), block_bytes_, &error) == nullptr) {
    return fail(error, kRefused, offset);
  }
  slot_of(index) = {State::kCommitted, index};
  return true;
}

bool CommitStreamBase::serve_reader(std::uint64_t index, std::uint64_t offset) noexcept {
  touched_ = {reader_floor(), reader_next_};
  if (index < reader_floor()) {
    return fail(EFAULT, "a read behind the window: raise the comeback (M)", offset);
  }
  if (index >= reader_next_) {
    empty_.release(static_cast<std::uint32_t>(index + 1 - reader_next_));
    reader_next_ = index + 1;
    for (; decommitted_ < std::min(reader_floor(), guarded_); ++decommitted_) {
      if (!decommit(decommitted_, offset)) return false;
    }
    decommitted_ = std::max(decommitted_, reader_floor());
    page_tables_.finished_below(block_at(std::min(guarded_, reader_floor())));
  }
  // The reader in block i has taken i + 2 units: it goes on only when the guard of block i + 1 is
  // there to stop it, or when no guards are to come.
  while (full_taken_ < index + 2 && length_ == kUnknown) {
    if (!acquire_unlocked(full_, offset)) return false;
    ++full_taken_;
  }
  switch (state_of(index)) {
    case State::kCommitted:
      return true;
    case State::kReserved:
      return serve_end(offset);
    case State::kGuarded:
      break;
  }
  if (const int error = os::allow_access(block_at(index), os::page_bytes())) {
    return fail(error, kRefused, offset);
  }
  slot_of(index).state = State::kCommitted;
  return true;
}

bool CommitStreamBase::serve_end(std::uint64_t offset) noexcept {
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = (length_ + page - 1) / page * page;
  if (length_ == kUnknown || offset < length_ || offset >= filler_offset + page) {
    return fail(ERANGE, "a read past the end of the data, or of a block that was never written",
                offset);
  }
  int error = 0;
  if (!filler_placed_ && os::map_memory(base() + filler_offset, page, &error) == nullptr) {
    return fail(error, kRefused, offset);
  }
  filler_placed_ = true;
  return true;
}

bool CommitStreamBase::guard_below(std::uint64_t floor, std::uint64_t offset) noexcept {
  for (; guarded_ < floor; ++guarded_) {
    if (state_of(guarded_) != State::kCommitted) {
      return fail(EINVAL, "the writer jumped over blocks that it can never write again", offset);
    }
    if (guarded_ < reader_floor()) {
      if (!decommit(guarded_, offset)) return false;
    } else {
      if (const int error = os::forbid_access(block_at(guarded_), os::page_bytes())) {
        return fail(error, kRefused, offset);
      }
      slot_of(guarded_).state = State::kGuarded;
    }
    full_.release();
  }
  return true;
}

bool CommitStreamBase::decommit(std::uint64_t index, std::uint64_t offset) noexcept {
  if (const int error = reservation().vacate(block_at(index), block_bytes_)) {
    return fail(error, kRefused, offset);
  }
  slot_of(index).state = State::kReserved;
  return true;
}

bool CommitStreamBase::acquire_unlocked(FutexSemaphore& semaphore, std::uint64_t offset) noexcept {
  mutex().unlock();
  const bool acquired = semaphore.acquire();
  mutex().lock();
  return acquired || fail(ECANCELED, "the stream was closed while a thread waited in it", offset);
}

const std::byte* CommitStreamBase::reader_bytes() {
  {
    std::lock_guard lock(mutex());
    while (full_taken_ == 0 && length_ == kUnknown && acquire_unlocked(full_, 0)) ++full_taken_;
  }
  failure().throw_if_failed();
  return base();
}

void CommitStreamBase::finish_bytes(std::uint64_t length) {
  {
    std::lock_guard lock(mutex());
    failure().throw_if_failed();
    if (length_ != kUnknown) throw Error(EALREADY, "stream '" + name() + "' is finished already");
    const std::uint64_t blocks = (length + block_bytes_ - 1) / block_bytes_;
    if (length < guarded_ * block_bytes_ || blocks > writer_next_) {
      throw Error(EINVAL, "stream '" + name() + "': the data cannot end at " +
                              std::to_string(length) + " bytes; blocks " +
                              std::to_string(guarded_) + " to " + std::to_string(writer_next_) +
                              " are being written");
    }
    length_ = length;
    full_.release(static_cast<std::uint32_t>(writer_comeback_ + 1));
  }
}

}  // namespace vortex::inline v0

#include "vortex/pipeline.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "vortex/detail/stream/saturating.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"
#include "vortex/os/userfaultfd.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr const char kRefused[] = "the kernel refuses to commit, guard or decommit a block";

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

constexpr std::size_t kMaxSlots = std::size_t{1} << 20;

// In a forked child nobody writes, and others may hold the lock.
[[noreturn]] void refuse_in_child(const std::string& name) {
  throw Error(EFAULT,
              "stream '" + name + "': used in a forked child, which does not inherit streams");
}

enum class CommitState : std::uint8_t { kReserved, kCommitted, kGuarded };

// A writer that goes through its blocks out of order spreads them over L more.
std::size_t slots_for(const CommitStreamOptions& options) noexcept {
  const std::size_t writing = detail::saturating_product(options.writer_comeback_blocks, 2);
  const std::size_t reading = detail::saturating_sum(options.reader_comeback_blocks, 1);
  return detail::saturating_sum(options.read_ahead_blocks,
                                detail::saturating_sum(writing, reading));
}

const CommitStreamOptions& checked(const CommitStreamOptions& options, std::uint64_t reserved) {
  const std::string who = "stream '" + options.name + "': ";
  if (options.block_bytes == 0 || options.block_bytes % os::page_bytes() != 0) {
    throw Error(EINVAL, who + "a block of " + format_bytes(options.block_bytes) +
                            " is no multiple of the page");
  }
  if (options.read_ahead_blocks == 0) {
    throw Error(EINVAL, who +
                            "without read-ahead the guard that the reader needs is never set; "
                            "read_ahead_blocks must be at least 1");
  }
  const std::size_t window = slots_for(options);
  if (window > kMaxSlots || options.block_bytes > reserved / window) {
    throw Error(EINVAL, who + "its window of " + std::to_string(window) + " blocks of " +
                            format_bytes(options.block_bytes) + " is too large: the most is " +
                            std::to_string(kMaxSlots) + ", and " + format_bytes(reserved) +
                            " are reserved");
  }
  return options;
}

// Guards of blocks that the writer has left: their first pages. A guard keeps the bytes of its
// page. By signals it is a page that forbids every access. Protection would split a map that
// userfaultfd serves, and its faults would be signals: there the page is not there, and its bytes
// wait in a page beside the stream. Async-signal-safe but for the constructor; the caller has the
// stream's lock.
class BlockGuards {
 public:
  // Guards of `slots` blocks at a time. `userfaultfd` is the one that serves the stream, null where
  // faults are signals. Throws Error(ENOMEM).
  BlockGuards(std::size_t slots, std::shared_ptr<os::Userfaultfd> userfaultfd)
      : userfaultfd_(std::move(userfaultfd)), bytes_(slots * os::page_bytes()) {
    if (userfaultfd_ == nullptr) return;
    int error = 0;
    pages_ = os::map_memory(nullptr, bytes_, &error);
    if (pages_ == nullptr) throw Error(error, "no memory for the pages of guards");
    // Pages move to armed memory only.
    if ((error = userfaultfd_->arm(pages_, bytes_)) != 0) {
      os::unmap(pages_, bytes_);
      throw Error(error, "the kernel refuses to serve the pages of guards");
    }
  }
  ~BlockGuards() {
    if (pages_ != nullptr) os::unmap(pages_, bytes_);
  }
  BlockGuards(const BlockGuards&) = delete;
  BlockGuards& operator=(const BlockGuards&) = delete;

  // Makes a guard of the page, which the slot then keeps, and a page of the guard again. Return 0
  // or an errno value.
  int set(std::byte* page, std::size_t slot) noexcept {
    if (pages_ == nullptr) return os::forbid_access(page, os::page_bytes());
    return userfaultfd_->move(page, kept(slot), os::page_bytes()).error;
  }
  int lift(std::byte* page, std::size_t slot) noexcept {
    if (pages_ == nullptr) return os::allow_access(page, os::page_bytes());
    return userfaultfd_->move(kept(slot), page, os::page_bytes()).error;
  }
  // The bytes of the guard in this slot are not wanted any more.
  void forget(std::size_t slot) noexcept {
    if (pages_ != nullptr) os::discard(kept(slot), os::page_bytes());
  }

 private:
  std::byte* kept(std::size_t slot) const noexcept { return pages_ + slot * os::page_bytes(); }

  const std::shared_ptr<os::Userfaultfd> userfaultfd_;
  const std::size_t bytes_;
  std::byte* pages_ = nullptr;  // by slot; null where faults are signals
};

}  // namespace

struct CommitStreamBase::State {
  struct Slot {
    CommitState state = CommitState::kReserved;
    std::uint64_t index = 0;
  };

  State(const Options& options, Reservation& range)
      : read_ahead(options.read_ahead_blocks),
        writer_comeback(options.writer_comeback_blocks),
        reader_comeback(options.reader_comeback_blocks),
        slots(slots_for(options)),
        page_tables(range, options.block_bytes) {}

  std::size_t slot_number(std::uint64_t index) const noexcept { return index % slots.size(); }
  Slot& slot_of(std::uint64_t index) noexcept { return slots[slot_number(index)]; }
  CommitState state_of(std::uint64_t index) noexcept {
    const Slot& slot = slot_of(index);
    return slot.index == index ? slot.state : CommitState::kReserved;
  }
  std::uint64_t writer_floor() const noexcept {
    return writer_next > writer_comeback + 1 ? writer_next - writer_comeback - 1 : 0;
  }
  std::uint64_t reader_floor() const noexcept {
    return reader_next > reader_comeback + 1 ? reader_next - reader_comeback - 1 : 0;
  }

  const std::uint64_t read_ahead;
  const std::uint64_t writer_comeback;
  const std::uint64_t reader_comeback;
  // The semaphores of the paper, as events. A signal makes the same fault twice: whoever waits
  // looks again at what it waits for, so that the one that is late takes nothing and goes.
  FutexEvent readable;
  FutexEvent writable;

  // The paper's full: all guards, which are there in order, or the end.
  bool is_full(std::uint64_t guards) const noexcept {
    return guarded >= guards || length != kUnknown;
  }
  // The paper's empty: what the reader has entered may be committed again, N + L blocks ahead.
  bool has_empty() const noexcept { return committed < reader_next + read_ahead + writer_comeback; }

  // Guarded by the stream's lock.
  // Block `index` is in slot index % slots.size(). At most N + L + M + 1 blocks are committed.
  std::vector<Slot> slots;
  std::uint64_t writer_next = 0;  // one more than the highest block the writer touched
  std::uint64_t guarded = 0;      // blocks below are guarded or gone
  std::uint64_t reader_next = 0;  // one more than the highest block the reader touched
  std::uint64_t decommitted = 0;  // blocks below are gone, or will be when the writer leaves them
  std::uint64_t committed = 0;    // how many blocks ever were
  std::uint64_t length = kUnknown;
  bool filler_placed = false;
  std::optional<BlockGuards> guards;
  Window touched;  // of whoever faulted last, for messages
  PageTableReclaimer page_tables;
};

CommitStreamBase::CommitStreamBase(const Options& options)
    : Stream(options.name,
             {.bytes = options.reserve_bytes,
              .least_bytes = std::min(options.least_reserve_bytes, options.reserve_bytes)}),
      block_bytes_(options.block_bytes),
      state_(std::make_unique<State>(checked(options, reserved_bytes()), reservation())) {
  State& s = *state_;
  open();
  try {
    s.guards.emplace(s.slots.size(), userfaultfd_in_use());
  } catch (...) {
    close();
    throw;
  }
}

CommitStreamBase::~CommitStreamBase() { close(); }

void CommitStreamBase::wake() noexcept {
  State& s = *state_;
  s.readable.notify();
  s.writable.notify();
}

Stream::Window CommitStreamBase::window() const noexcept { return state_->touched; }

std::optional<std::uint64_t> CommitStreamBase::length_bytes() const noexcept {
  State& s = *state_;
  if (inherited()) return std::nullopt;
  auto* self = const_cast<CommitStreamBase*>(this);
  std::lock_guard lock(self->mutex());
  return s.length == kUnknown ? std::nullopt : std::optional(s.length);
}

bool CommitStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  State& s = *state_;
  const std::uint64_t index = offset / block_bytes_;
  const CommitState state = s.state_of(index);
  if (state == CommitState::kCommitted) {
    note_spurious_fault();
    return true;
  }
  // Without word from the processor, a guard tells the reader from the writer, and so does the end.
  const bool reads = access == Access::kUnknown
                         ? state == CommitState::kGuarded || s.length != kUnknown
                         : access == Access::kRead;
  return reads ? serve_reader(index, offset) : serve_writer(index, offset);
}

// Unlocked while it waits. The ticket comes first: streams are stopped without the lock.
template <typename Look>
bool CommitStreamBase::await(FutexEvent& event, std::uint64_t offset, Look look) noexcept {
  for (;;) {
    const std::uint32_t ticket = event.ticket();
    if (stopping()) {
      return fail(ECANCELED, "the stream was closed while a thread waited in it", offset);
    }
    if (look()) return true;
    mutex().unlock();
    event.await(ticket);
    mutex().lock();
  }
}

bool CommitStreamBase::serve_writer(std::uint64_t index, std::uint64_t offset) noexcept {
  State& s = *state_;
  s.touched = {s.writer_floor(), s.writer_next};
  if (s.length != kUnknown) return fail_touch("touched after finish()", offset);
  if (index < s.writer_floor()) {
    return fail_touch("a touch behind the window: raise the comeback (L)", offset);
  }
  if ((index + 1) * block_bytes_ > reserved_bytes()) return handle_overrun(offset);
  if (index >= s.writer_next) {
    s.writer_next = index + 1;
    if (!guard_below(s.writer_floor(), offset)) return false;
  }
  const auto is_late = [&] {
    return s.state_of(index) != CommitState::kReserved || index < s.writer_floor();
  };
  if (!await(s.writable, offset, [&] { return is_late() || s.has_empty(); })) return false;
  if (is_late()) return true;
  if (const int error = reservation().place_zeros(block_at(index), block_bytes_, true))
    return fail(error, kRefused, offset);
  s.slot_of(index) = {CommitState::kCommitted, index};
  ++s.committed;
  s.writable.notify();
  return true;
}

bool CommitStreamBase::serve_reader(std::uint64_t index, std::uint64_t offset) noexcept {
  State& s = *state_;
  s.touched = {s.reader_floor(), s.reader_next};
  if (index < s.reader_floor()) {
    return fail_touch("a read behind the window: raise the comeback (M)", offset);
  }
  if (index >= s.reader_next) {
    s.reader_next = index + 1;
    s.writable.notify();
    for (; s.decommitted < std::min(s.reader_floor(), s.guarded); ++s.decommitted) {
      if (!decommit(s.decommitted, offset)) return false;
    }
    s.decommitted = std::max(s.decommitted, s.reader_floor());
    s.page_tables.finished_below(block_at(std::min(s.guarded, s.reader_floor())));
  }
  // The reader goes on in block i only when the guard of block i + 1 is there to stop it, or when
  // no guards are to come.
  if (!await(s.readable, offset, [&] { return s.is_full(index + 2); })) return false;
  if (index < s.reader_floor()) return true;  // late: the reader has left the block
  switch (s.state_of(index)) {
    case CommitState::kCommitted:
      return true;
    case CommitState::kReserved:
      return serve_end(offset);
    case CommitState::kGuarded:
      break;
  }
  if (const int error = s.guards->lift(block_at(index), s.slot_number(index)))
    return fail(error, kRefused, offset);
  s.slot_of(index).state = CommitState::kCommitted;
  return true;
}

bool CommitStreamBase::serve_end(std::uint64_t offset) noexcept {
  State& s = *state_;
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = detail::round_up(s.length, page);
  if (s.length == kUnknown || offset < s.length || offset >= filler_offset + page) {
    return fail(ERANGE, "a read past the end of the data, or of a block that was never written",
                offset);
  }
  if (!s.filler_placed) {
    if (const int error = reservation().place_zeros(base() + filler_offset, page, true))
      return fail(error, kRefused, offset);
  }
  s.filler_placed = true;
  return true;
}

bool CommitStreamBase::guard_below(std::uint64_t floor, std::uint64_t offset) noexcept {
  State& s = *state_;
  for (; s.guarded < floor; ++s.guarded) {
    if (s.state_of(s.guarded) != CommitState::kCommitted) {
      return fail(EINVAL, "the writer jumped over blocks that it can never write again", offset);
    }
    if (s.guarded < s.reader_floor()) {
      if (!decommit(s.guarded, offset)) return false;
    } else {
      if (const int error = s.guards->set(block_at(s.guarded), s.slot_number(s.guarded)))
        return fail(error, kRefused, offset);
      s.slot_of(s.guarded).state = CommitState::kGuarded;
    }
    s.readable.notify();
  }
  return true;
}

bool CommitStreamBase::decommit(std::uint64_t index, std::uint64_t offset) noexcept {
  State& s = *state_;
  if (const int error = vacate(block_at(index), block_bytes_)) return fail(error, kRefused, offset);
  if (s.state_of(index) == CommitState::kGuarded) s.guards->forget(s.slot_number(index));
  s.slot_of(index).state = CommitState::kReserved;
  return true;
}

const std::byte* CommitStreamBase::reader_bytes() {
  State& s = *state_;
  if (inherited()) refuse_in_child(name());
  {
    std::lock_guard lock(mutex());
    await(s.readable, 0, [&s] { return s.is_full(1); });
  }
  failure().throw_if_failed();
  return base();
}

void CommitStreamBase::finish_bytes(std::uint64_t length) {
  State& s = *state_;
  if (inherited()) refuse_in_child(name());
  {
    std::lock_guard lock(mutex());
    failure().throw_if_failed();
    if (s.length != kUnknown) throw Error(EALREADY, "stream '" + name() + "' is finished already");
    const std::uint64_t blocks = detail::units_for(length, block_bytes_);
    if (length < s.guarded * block_bytes_ || blocks > s.writer_next) {
      throw Error(EINVAL, "stream '" + name() + "': the data cannot end at " +
                              std::to_string(length) + " bytes; blocks " +
                              std::to_string(s.guarded) + " to " + std::to_string(s.writer_next) +
                              " are being written");
    }
    s.length = length;
    s.readable.notify();
  }
}

}}  // namespace vortex::v0

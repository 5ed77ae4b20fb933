#include "vortex/stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "vortex/engine/fault_engine.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/region_table.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/os/reservation.h"
#include "vortex/stream/filler.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// Whether a thread holds the lock, or one that waits for it to serve a fault, and so on. It would
// wait for itself.
bool locked_for(const FutexMutex& mutex, std::int32_t thread) noexcept {
  for (; thread != 0; thread = served_by(thread)) {
    if (mutex.held_by(thread)) return true;
  }
  return false;
}

}  // namespace

struct Stream::State final : FaultServer {
  State(Stream& served, std::string stream_name, const AddressSpace& space)
      : stream(served),
        name(std::move(stream_name)),
        reservation({.bytes = space.bytes, .least_bytes = space.least_bytes}),
        region(reservation.begin(), reservation.guarded_bytes(), *this) {}

  bool serve(const Fault& fault, Failure& why) noexcept override;
  void abandon(const Failure& inner) noexcept override;
  void withhold(const Fault& fault) noexcept override;
  bool readmit(std::byte* address) noexcept override;
  bool fill(const Fault& fault, FailureCall& call) noexcept override;

  // Keeps an error unless there is one already. `passes`: it is of one fault alone.
  void record(int error, std::string_view cause, std::uint64_t offset, Window window,
              bool passes = false) noexcept;
  // Whether a spurious fault comes so often in a row that serving it does not help.
  bool is_helpless(std::uint64_t offset, std::int32_t thread) noexcept;
  // Leaves filler alone where blocks have taken its place.
  void forget_replaced_filler() noexcept;
  // Whether it refuses every later fault.
  bool failed_for_good() const noexcept;

  Stream& stream;
  std::string name;
  Reservation reservation;
  Region region;
  FutexMutex mutex;
  // Both change under `failure_mutex`: `failure` before `failed` becomes true.
  mutable FutexMutex failure_mutex;
  std::atomic<bool> failed{false};
  bool passing = false;  // of one fault alone: the next one is served
  std::atomic<bool> stopping{false};
  Failure failure;
  bool open = false;
  bool was_inherited = false;  // when it was closed
  std::atomic<std::uint64_t> faults{0};
  std::atomic<std::uint64_t> spurious{0};
  // The last spurious fault, and how often it came in a row.
  std::uint64_t repeated_offset = 0;
  std::int32_t repeated_thread = 0;
  int repeats = 0;
  FailureCall on_failure;
  Filler filler{reservation};
};

Stream::ServiceLock::ServiceLock(Stream& stream) : stream_(stream) {
  static_assert(sizeof(frame_) == sizeof(ServiceFrame) && alignof(ServiceFrame) <= alignof(void*));
  auto* const frame =
      new (frame_) ServiceFrame{&stream.state_->region, thread_state().serving, nullptr};
  if (stream.inherited()) {
    throw Error(EFAULT, "stream '" + stream.name() +
                            "': used in a forked child, which does not inherit streams");
  }
  if (locked_for(stream.state_->mutex, current_thread_id())) {
    throw Error(EDEADLK, "stream '" + stream.name() + "': used by a callback inside its own fault");
  }
  stream.state_->mutex.lock();
  stream.state_->region.pin();
  thread_state().serving = frame;
}

Stream::ServiceLock::~ServiceLock() {
  thread_state().serving = std::launder(reinterpret_cast<ServiceFrame*>(frame_))->outer;
  // In this order: whoever closes the stream waits for the pin alone, and then destroys the lock.
  stream_.state_->mutex.unlock();
  stream_.state_->region.unpin();
}

Stream::Stream(std::string name, const AddressSpace& space)
    : state_(std::make_unique<State>(*this, std::move(name), space)),
      base_(state_->reservation.begin()),
      reserved_bytes_(state_->reservation.bytes()) {}

Stream::~Stream() {
  if (state_->open) fatal("vortex: a stream's destructor did not call close()");
}

const std::string& Stream::name() const noexcept { return state_->name; }

bool Stream::stopping() const noexcept { return state_->stopping.load(std::memory_order_acquire); }

bool Stream::failed() const noexcept { return state_->failed.load(std::memory_order_acquire); }

Reservation& Stream::reservation() noexcept { return state_->reservation; }

int Stream::vacate(std::byte* at, std::size_t bytes) noexcept {
  const int error = state_->reservation.vacate(at, bytes);
  if (error != 0) return error;
  // What is bare is to be filled again where it is refused again.
  state_->filler.forget([at, bytes](const std::byte* begin, std::size_t size) {
    return begin >= at && begin + size <= at + bytes;
  });
  return 0;
}

bool Stream::inherited() const noexcept {
  return state_->open ? state_->region.inherited() : state_->was_inherited;
}

FutexMutex& Stream::mutex() noexcept { return state_->mutex; }

void Stream::note_spurious_fault() noexcept {
  state_->spurious.fetch_add(1, std::memory_order_relaxed);
}

void Stream::open() {
  FaultDispatcher::instance().add(state_->region);
  state_->reservation.be_served_by(userfaultfd_in_use());
  state_->open = true;
}

bool Stream::close() noexcept {
  if (!state_->open) return !state_->was_inherited;
  state_->was_inherited = state_->region.inherited();
  if (!state_->was_inherited) {
    settle_faults();
    state_->stopping.store(true, std::memory_order_release);
    wake();
  }
  FaultDispatcher::instance().remove(state_->region);
  state_->open = false;
  return !state_->was_inherited;
}

Failure Stream::failure() const noexcept {
  if (!failed()) return {};
  std::lock_guard lock(state_->failure_mutex);
  return failed() ? state_->failure : Failure{};
}

void Stream::cancel(int error, std::string_view cause) noexcept {
  state_->record(error, cause, 0, {});
  state_->stopping.store(true, std::memory_order_release);
  wake();
}

Stream::Statistics Stream::statistics() const noexcept {
  return {state_->faults.load(std::memory_order_relaxed),
          state_->spurious.load(std::memory_order_relaxed)};
}

bool Stream::fail(int error, std::string_view cause, std::uint64_t offset) noexcept {
  state_->record(error, cause, offset, window());
  return false;
}

bool Stream::fail_touch(std::string_view cause, std::uint64_t offset) noexcept {
  // If its thread has gone on, it was a touch where one might be, then.
  ThreadState& thread = thread_state();
  if (thread.doubted != &state_->region) return fail(EFAULT, cause, offset);
  thread.doubted = nullptr;
  return false;
}

bool Stream::refuse(int error, std::string_view cause, std::uint64_t offset) noexcept {
  state_->record(error, cause, offset, window(), true);
  return false;
}

void Stream::State::record(int error, std::string_view cause, std::uint64_t offset, Window window,
                           bool passes) noexcept {
  std::lock_guard lock(failure_mutex);
  if (stream.failed() && !passing) return;
  failure = {};
  passing = passes;
  failure.error = error != 0 ? error : EIO;
  failure.stream.text(name);
  failure.cause.text(cause);
  failure.offset = offset;
  failure.block = stream.block_bytes() != 0 ? offset / stream.block_bytes() : 0;
  failure.window_begin = window.begin;
  failure.window_end = window.end;
  failed.store(true, std::memory_order_release);
}

void Stream::forget_refusal() noexcept {
  std::lock_guard lock(state_->failure_mutex);
  if (!state_->passing) return;
  state_->passing = false;
  state_->failed.store(false, std::memory_order_release);
}

bool Stream::serve_locked(Access access, std::uint64_t offset) noexcept {
  if (failed()) forget_refusal();
  if (failed()) return false;
  if (stopping()) return fail(ECANCELED, "destroyed while a thread still used it", offset);
  if (offset >= reserved_bytes_) return handle_overrun(offset);
  if (!handle_fault(access, offset)) return false;
  state_->forget_replaced_filler();
  return true;
}

bool Stream::State::serve(const Fault& fault, Failure& why) noexcept {
  const WorkSpan span(SpanKind::kFault);
  const auto offset = static_cast<std::uint64_t>(fault.address - stream.base());
  const std::int32_t thread = fault.thread != 0 ? fault.thread : current_thread_id();
  if (locked_for(mutex, thread)) {
    stream.fail(EDEADLK, "a callback inside a fault of this stream touched the same stream",
                offset);
    why = stream.failure();
    return false;
  }
  std::lock_guard lock(mutex);
  const std::uint64_t spurious_before = spurious.load(std::memory_order_relaxed);
  bool is_served = stream.serve_locked(fault.access, offset);
  if (is_served && spurious.load(std::memory_order_relaxed) == spurious_before) {
    repeats = 0;
  } else if (is_served && is_helpless(offset, thread)) {
    is_served = stream.fail_touch(
        "a placed block cannot be touched: did something change its protection?", offset);
  }
  if (is_served) {
    faults.fetch_add(1, std::memory_order_relaxed);
  } else {
    why = stream.failure();
  }
  return is_served;
}

void Stream::State::withhold(const Fault& fault) noexcept {
  if (locked_for(mutex, fault.thread)) return;
  std::lock_guard lock(mutex);
  stream.take_from_sight(static_cast<std::uint64_t>(fault.address - stream.base()));
}

// The thread of the access waits for the lock in the handler of its bus error. That ends whenever
// its fault, which waited for the same lock, would have ended: who has the lock serves a fault, or
// does what one does. Once the stream has failed for good, nobody who has it waits for anything;
// before that only a stream that refuse()s sends threads here, and such a one waits for disks
// alone. A thread that waits for itself, by way of a callback, is turned away as it is in a fault.
bool Stream::State::readmit(std::byte* address) noexcept {
  if (locked_for(mutex, current_thread_id())) return false;
  std::lock_guard lock(mutex);
  if (failed_for_good()) return false;
  return stream.clear_refused(static_cast<std::uint64_t>(address - stream.base()));
}

bool Stream::State::failed_for_good() const noexcept {
  std::lock_guard lock(failure_mutex);
  return failed.load(std::memory_order_acquire) && !passing;
}

bool Stream::State::fill(const Fault& fault, FailureCall& call) noexcept {
  if (locked_for(mutex, current_thread_id())) return false;
  std::lock_guard lock(mutex);
  const std::uint64_t block = stream.block_bytes();
  const auto offset = static_cast<std::uint64_t>(fault.address - stream.base());
  if (on_failure.function == nullptr || block == 0 || offset >= stream.reserved_bytes()) {
    return false;
  }
  const std::uint64_t index = offset / block;
  // What may only be read stays so from now on, however often the store is tried.
  if (!stream.is_vacant(index) && fault.access != Access::kRead && failed_for_good()) {
    stream.take_from_sight(offset);
  }
  if (!stream.is_vacant(index)) {
    // Another thread may have been quicker, before the error or once it has passed.
    return stream.serve_locked(fault.access, offset) || Filler::may_try_again(fault.address);
  }
  constexpr std::uint64_t kFillerBytes = std::uint64_t{1} << 20;
  const std::uint64_t piece_begin = offset / kFillerBytes * kFillerBytes;
  const std::uint64_t begin = std::max(piece_begin, index * block);
  const std::uint64_t end = std::min(piece_begin + kFillerBytes, (index + 1) * block);
  const auto bytes = static_cast<std::size_t>(end - begin);
  forget_replaced_filler();
  if (!filler.place(stream.base() + begin, bytes, fault.address)) return false;
  call = on_failure;
  return true;
}

void Stream::State::forget_replaced_filler() noexcept {
  const std::uint64_t block = stream.block_bytes();
  if (block == 0) return;  // fill() has refused it
  filler.forget([this, block](const std::byte* at, std::size_t) {
    return !stream.is_vacant(static_cast<std::uint64_t>(at - stream.base()) / block);
  });
}

void Stream::fill_on_failure(const FailureCall& call) {
  ServiceLock lock(*this);
  state_->on_failure = call;
}

void Stream::clear_filler() {
  ServiceLock lock(*this);
  state_->forget_replaced_filler();
  state_->filler.take_away();
}

bool Stream::is_vacant(std::uint64_t) const noexcept { return false; }

void Stream::take_from_sight(std::uint64_t) noexcept {}

bool Stream::clear_refused(std::uint64_t) noexcept { return false; }

bool Stream::handle_overrun(std::uint64_t offset) noexcept {
  return fail(ENOSPC, "the reservation ends here: raise reserve_bytes", offset);
}

bool Stream::State::is_helpless(std::uint64_t offset, std::int32_t thread) noexcept {
  constexpr int kEnoughRepeats = 1000;
  if (offset != repeated_offset || thread != repeated_thread) repeats = 0;
  repeated_offset = offset;
  repeated_thread = thread;
  return ++repeats > kEnoughRepeats;
}

void Stream::State::abandon(const Failure& inner) noexcept {
  CauseText cause;
  cause.text("a callback inside its fault failed on stream '").text(inner.stream.view());
  cause.text("': ").text(inner.cause.view());
  stream.fail(inner.error, cause.view(), 0);
  mutex.unlock();
}

}}  // namespace vortex::v0

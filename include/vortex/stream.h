// The base class of all streams, and of yours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "vortex/error.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class FutexMutex;
class Reservation;

enum class Access : std::uint8_t {
  kRead,
  kWrite,
  kUnknown,  // the processor, or the engine, does not tell
};

// How many addresses a stream reserves. They cost one kernel map and no memory.
struct AddressSpace {
  std::uint64_t bytes = 0;  // rounded up to whole pages
  // Where the system refuses `bytes`, the stream asks for half of it, down to this; 0: `bytes` or
  // an error.
  std::uint64_t least_bytes = 0;
};

// A range of reserved addresses whose faults are served by handle_fault() (the parent class of
// section 4.4 of the Vortex paper). Derive from it to write a stream of your own: implement
// handle_fault(), call open() at the end of the most derived constructor and close() first in its
// destructor. examples/custom_stream.cc is one.
//
// Faults of one stream are served one at a time; several threads may fault on it at once, and the
// ones that find their block placed go on. After the first error every further fault of the stream
// fails with that error, unless a stream of that kind says otherwise.
class VORTEX_EXPORT Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::string& name() const noexcept;

  // The addresses that are reserved.
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }

  // The first error, or a Failure that converts to false. A fault that was refused for want of
  // something, as a FileArray's on a full disk, shows here until the next one. Thread-safe, does
  // not wait for a fault that is being served.
  Failure failure() const noexcept;

  // The function that is told of a touch that was not served, see fill_on_failure(). It runs on the
  // thread that touched, inside the handler of its signal, by the rules of docs/life_of_a_fault.md,
  // "Rules for code in the handler". No lock of the library is held: it may wait for what the code
  // that touched may wait for. The stream may be gone by then, so `context` must outlive it.
  struct FailureCall {
    void (*function)(void* context, const Failure& failure) noexcept = nullptr;
    void* context = nullptr;
  };

  // For programs that guarded() cannot leave and that must not end, such as interpreters. From now
  // on a touch outside of guarded() that cannot be served (of data, or a read of what a writer has
  // not written) finds zeros, `call` is told, and the program goes on; what it stores there is
  // lost. The zeros take at most 1 MiB of a block, and other threads find them, too. The last 16
  // such places stay until clear_filler() or resize(); after that touches fail, and are told,
  // anew. System calls (userfaultfd) fail with EFAULT.
  //
  // The process still ends, with a line on stderr, where a touch cannot be right (behind the window
  // or an end), inside a fault of another stream, in a forked child, where the system refuses
  // memory, and in commit streams, vanishing arrays and buckets. With a call
  // without a function it ends again at every such touch. Both functions throw Error(EFAULT) in a
  // forked child, and wait for the fault that is being served; not inside a fault.
  void fill_on_failure(const FailureCall& call);
  void clear_filler();

  // Fails the stream from outside, on any thread: whoever waits inside one of its faults is woken
  // and gets this error, as does every later fault. The first error stays. `cause` is copied.
  void cancel(int error, std::string_view cause) noexcept;

  struct Statistics {
    std::uint64_t faults = 0;           // faults served
    std::uint64_t spurious_faults = 0;  // of those, found placed: another thread was faster
  };
  Statistics statistics() const noexcept;

 protected:
  // Reserves the addresses, which begin where 2 MiB do, so that whole spans of that size move as
  // one page-table entry. Behind them lie 2 MiB more in which nothing is ever placed: an access
  // that runs over the end faults there, instead of meeting what somebody else has mapped. Throws
  // Error: EINVAL for zero bytes, or where the least is beyond the address space; ENOMEM when the
  // system refuses, naming the limit that did (RLIMIT_AS, vm.overcommit_memory).
  Stream(std::string name, const AddressSpace& space);
  // close() must have been called: by now the derived part that serves faults is gone.
  virtual ~Stream();

  // From here on faults arrive.
  void open();

  // From its return on no fault arrives and none is being served. Threads that wait inside one are
  // woken with the error that the stream was destroyed while in use. Idempotent. Not inside a
  // fault. Returns false in a forked child, which has nothing to give back.
  bool close() noexcept;

  // Makes the access at base() + offset possible and returns true, or calls fail() and returns
  // false. Runs inside the fault, with the stream locked, on the faulting thread or on one of the
  // engine's while that sleeps: no allocation, no exceptions.
  virtual bool handle_fault(Access access, std::uint64_t offset) noexcept = 0;

  // The same for an offset in the guard behind the reservation, where nothing can be placed: calls
  // fail() and returns false.
  virtual bool handle_overrun(std::uint64_t offset) noexcept;

  // The access at base() + offset was refused though something is placed there, which it may only
  // read: takes that away. Called with the stream locked, where a fault cannot be answered by a
  // signal; streams that place what may only be read override it.
  virtual void take_from_sight(std::uint64_t offset) noexcept;

  // The access at base() + offset was refused, and the page answers so ever after, by refuse() or
  // for good. Where a later access may be served, takes that answer away and returns true. Called
  // with the stream locked, where a fault cannot be answered by a signal; streams that refuse()
  // override it.
  virtual bool clear_refused(std::uint64_t offset) noexcept;

  // Whether data belong where block `index` would be and nothing is placed there, so that zeros may
  // be: see fill_on_failure(). Called with the stream locked.
  virtual bool is_vacant(std::uint64_t index) const noexcept;

  // Wakes a handle_fault() that waits for something; called from another thread, without the lock,
  // after stopping() has become true.
  virtual void wake() noexcept {}

  // Blocks that may be touched, for messages. Called with the stream locked.
  struct Window {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  virtual Window window() const noexcept { return {}; }
  virtual std::size_t block_bytes() const noexcept { return 0; }

  // Records the error of the fault at `offset` unless there is one already, and returns false.
  bool fail(int error, std::string_view cause, std::uint64_t offset) noexcept;
  // The same (EFAULT), for a touch where nothing may be touched. With the engine userfaultfd the
  // thread may have gone on meanwhile, and then nothing is recorded.
  bool fail_touch(std::string_view cause, std::uint64_t offset) noexcept;
  // Refuses this fault alone, for want of something that may be there when the next one comes, and
  // returns false. failure() tells of it until then.
  bool refuse(int error, std::string_view cause, std::uint64_t offset) noexcept;
  // Makes failure() forget the fault that was refused; the next fault does that first. With the
  // stream locked.
  void forget_refusal() noexcept;

  bool stopping() const noexcept;
  bool failed() const noexcept;
  std::byte* base() const noexcept { return base_; }
  // Takes whatever is mapped in [at, at + bytes) of the stream away and leaves bare address space.
  // Returns 0 or an errno value. May be called inside a fault; calls for disjoint ranges may run at
  // once.
  int vacate(std::byte* at, std::size_t bytes) noexcept;
  Reservation& reservation() noexcept;

  // True in a forked child: nothing of the stream is there but this object.
  bool inherited() const noexcept;

  // The lock under which handle_fault() runs, for calls from outside that change the same state.
  // Never hold it while touching stream memory.
  FutexMutex& mutex() noexcept;

  // The lock, and the place of this thread, of a call that does from outside what a fault does:
  // when a callback in it fails in a guarded scope around the call, the stream is abandoned as it
  // is in a fault. Throws Error: EFAULT in a forked child, EDEADLK inside a fault of the same
  // stream.
  class ServiceLock {
   public:
    explicit ServiceLock(Stream& stream);
    ~ServiceLock();
    ServiceLock(const ServiceLock&) = delete;
    ServiceLock& operator=(const ServiceLock&) = delete;

   private:
    Stream& stream_;
    alignas(void*) std::byte frame_[3 * sizeof(void*)];  // a ServiceFrame
  };

  // Does what a fault at base() + offset would do: serves the block unless that has been done. The
  // caller holds a ServiceLock. Returns false after an error.
  bool serve_locked(Access access, std::uint64_t offset) noexcept;

  // handle_fault() found the block placed. A thread for which that does not help, because somebody
  // changed the protection of our memory, is stopped after a while instead of faulting for ever.
  void note_spurious_fault() noexcept;

 private:
  struct State;
  const std::unique_ptr<State> state_;
  std::byte* const base_;
  const std::uint64_t reserved_bytes_;
};

}}  // namespace vortex::v0

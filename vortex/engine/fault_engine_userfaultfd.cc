#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"
#include "vortex/os/descriptor.h"
#include "vortex/os/memory.h"
#include "vortex/os/userfaultfd.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"
#include "vortex/thread/race_detector.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// How often the listener looks for the next fault before it sleeps: some ten microseconds, as long
// as an end of a channel spins.
constexpr int kSpins = 40;
// Faults that are served at once, each waiting for another: as many threads as touch streams, and
// one more for each callback that reads another stream.
constexpr std::size_t kMaxThreads = 1024;
// A server that neither ended nor said that it would wait within this time lets another one listen.
constexpr int kPatienceMs = 1;
// So often the threads that stand by look, without a fault to be seen, before they sleep for good.
constexpr int kIdleLooks = 20;

// The threads that answer faults. One listens. It serves what it reads itself, since waking another
// thread costs more than the fault; only when it is about to wait (see this_thread.h), or takes
// long, does one that stands by listen in its place. So there are as many threads as faults that
// wait for each other, and one more.
class FaultThreads {
 public:
  explicit FaultThreads(std::shared_ptr<os::Userfaultfd> faults) : faults_(std::move(faults)) {
    if (!stop_event_) throw Error(errno, "no descriptor for the engine userfaultfd");
    // One waits in a fault while the other serves the one that ends it. The first may have required
    // the second itself.
    for (std::size_t i = 0; i < 2; ++i) {
      const int error = add_thread([&] { return count_.load(std::memory_order_relaxed) == i; });
      if (error == 0) continue;
      end_threads();
      throw Error(error, "no thread for the engine userfaultfd");
    }
  }

  // No fault is being served.
  ~FaultThreads() { end_threads(); }
  FaultThreads(const FaultThreads&) = delete;
  FaultThreads& operator=(const FaultThreads&) = delete;

  const std::shared_ptr<os::Userfaultfd>& faults() const noexcept { return faults_; }

  void settle() noexcept {
    pollfd unread{faults_->descriptor(), POLLIN, 0};
    while (poll(&unread, 1, 0) > 0) sched_yield();
    const std::lock_guard lock(reading_);
  }

  bool being_served(std::int32_t thread) noexcept {
    const std::lock_guard lock(reading_);
    for (std::size_t i = 0; i < count_.load(std::memory_order_acquire); ++i) {
      if (servers_[i].serves.load(std::memory_order_acquire) == thread) return true;
    }
    return false;
  }

  std::int32_t served_by(std::int32_t thread) const noexcept {
    for (std::size_t i = 0; i < count_.load(std::memory_order_acquire); ++i) {
      if (servers_[i].id.load(std::memory_order_relaxed) == thread) {
        return servers_[i].serves.load(std::memory_order_relaxed);
      }
    }
    return 0;
  }

 private:
  struct Message {
    os::PageFault fault;
    Region* region = nullptr;  // pinned; null: nobody's
    bool doubtful = true;
  };

  // A fault that was refused in doubt: what is read from now on of this thread at this page is not
  // doubtful, since the kernel shows faults of threads that sleep.
  struct Doubt {
    std::int32_t thread = 0;
    std::uintptr_t page = 0;
    bool is(const os::PageFault& fault) const noexcept {
      return thread == fault.thread && page == page_of(fault);
    }
  };
  static std::uintptr_t page_of(const os::PageFault& fault) noexcept {
    return reinterpret_cast<std::uintptr_t>(fault.address) / os::page_bytes();
  }

  struct Server {
    MaskedThread thread;
    std::atomic<std::int32_t> id{0};
    std::atomic<std::int32_t> serves{0};  // the thread whose fault it serves; 0: none
  };

  // The listener: nobody, somebody, or the server of this fault when it is done.
  static constexpr std::uint64_t kNobody = 0, kSomebody = 1, kFirstFault = 2;

  void end_threads() noexcept {
    stopping_.store(true, std::memory_order_seq_cst);
    stop_event_.signal();
    alarm_.notify();
    for (std::size_t i = 0; i < count_.load(); ++i) servers_[i].thread.join();
  }

  // The thread stands by. Asks wanted() while nobody else can add one, and adds none if it says no.
  template <typename Wanted>
  int add_thread(const Wanted& wanted) noexcept {
    std::lock_guard lock(adding_);
    if (!wanted()) return 0;
    const std::size_t index = count_.load(std::memory_order_relaxed);
    if (index == servers_.size()) return EAGAIN;
    Server& server = servers_[index];
    standing_by_.fetch_add(1, std::memory_order_relaxed);
    // It runs callbacks, which may touch streams themselves and divide by zero.
    const int error =
        server.thread.start([this, &server] { run(server); }, ThreadSignals::kOwnFaults);
    if (error == 0) {
      count_.store(index + 1, std::memory_order_release);
    } else {
      standing_by_.fetch_sub(1, std::memory_order_relaxed);
    }
    return error;
  }

  void run(Server& server) noexcept {
    server.id.store(current_thread_id(), std::memory_order_relaxed);
    while (stand_by()) {
      Message message;
      while (listen(server, &message)) {
        const std::uint64_t number = faults_begun_.fetch_add(1, std::memory_order_relaxed);
        const std::uint64_t mine = kFirstFault + number;
        turn_.store(mine, std::memory_order_seq_cst);
        if (asleep_.load(std::memory_order_seq_cst) != 0) alarm_.notify();
        require_stand_by();
        answer(server, message, mine);
        std::uint64_t expected = mine;
        if (!turn_.compare_exchange_strong(expected, kSomebody)) break;
      }
      if (stopping_.load(std::memory_order_relaxed)) return;
      standing_by_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // The next one that waits will need somebody. What was refused is tried again at the next fault.
  void require_stand_by() noexcept {
    const auto nobody = [this] { return standing_by_.load(std::memory_order_relaxed) == 0; };
    if (nobody()) add_thread(nobody);
  }

  // Returns true when this thread has to listen.
  bool stand_by() noexcept {
    std::uint64_t seen = kNobody;
    int idle_looks = 0;
    bool mine = false;
    while (!mine && !stopping_.load(std::memory_order_seq_cst)) {
      const std::uint32_t ticket = alarm_.ticket();
      std::uint64_t turn = turn_.load(std::memory_order_seq_cst);
      if (turn == kNobody || (turn >= kFirstFault && turn == seen)) {
        mine = turn_.compare_exchange_strong(turn, kSomebody);
        continue;
      }
      idle_looks = turn == kSomebody && seen == kSomebody ? idle_looks + 1 : 0;
      seen = turn;
      if (idle_looks < kIdleLooks) {
        alarm_.await_for(ticket, kPatienceMs);
        continue;
      }
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      // The engine may have stopped before the ticket was drawn.
      if (turn_.load(std::memory_order_seq_cst) == kSomebody &&
          !stopping_.load(std::memory_order_seq_cst)) {
        alarm_.await(ticket);
      }
      asleep_.fetch_sub(1, std::memory_order_relaxed);
      idle_looks = 0;
    }
    standing_by_.fetch_sub(1, std::memory_order_relaxed);
    if (mine) require_stand_by();
    return mine;
  }

  // Waits for a fault. False: the engine stops.
  bool listen(Server& server, Message* message) noexcept {
    for (;;) {
      for (int spin = 0; spin < kSpins; ++spin) {
        std::lock_guard lock(reading_);
        if (!faults_->next(&message->fault)) continue;
        message->region = pin_region(message->fault.address);
        message->doubtful = !settle_doubt(message->fault);
        server.serves.store(message->fault.thread, std::memory_order_relaxed);
        return true;
      }
      std::array<pollfd, 2> descriptors = {
          {{faults_->descriptor(), POLLIN, 0}, {stop_event_.get(), POLLIN, 0}}};
      poll(descriptors.data(), descriptors.size(), -1);
      if (stopping_.load(std::memory_order_relaxed)) return false;
    }
  }

  // With `reading_` locked. Whether there was a doubt about this fault.
  bool settle_doubt(const os::PageFault& fault) noexcept {
    const auto found = std::find_if(doubts_.begin(), doubts_.end(),
                                    [&fault](const Doubt& doubt) { return doubt.is(fault); });
    if (found == doubts_.end()) return false;
    *found = {};
    return true;
  }

  void note_doubt(const os::PageFault& fault) noexcept {
    const std::lock_guard lock(reading_);
    doubts_[next_doubt_++ % doubts_.size()] = {fault.thread, page_of(fault)};
  }

  void answer(Server& server, const Message& message, std::uint64_t mine) noexcept;

  // The waiting hook of a server: hands the listening on.
  static void hand_on() noexcept;

  const std::shared_ptr<os::Userfaultfd> faults_;
  const os::Event stop_event_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> turn_{kNobody};
  std::atomic<std::uint64_t> faults_begun_{0};
  std::atomic<int> standing_by_{0};
  std::atomic<int> asleep_{0};  // of those, who do not look by themselves
  FutexEvent alarm_;            // for those who stand by
  FutexMutex reading_;          // from reading a fault until its region is pinned
  // Under `reading_`. One that is overwritten is noted again.
  std::array<Doubt, 32> doubts_{};
  std::size_t next_doubt_ = 0;
  FutexMutex adding_;
  std::atomic<std::size_t> count_{0};
  std::array<Server, kMaxThreads> servers_;
};

// Never freed: a forked child leaves its parent's behind.
std::atomic<FaultThreads*> threads{nullptr};

// The turn that hand_on() hands on.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t serving_turn = 0;

void FaultThreads::hand_on() noexcept {
  FaultThreads* const all = threads.load(std::memory_order_acquire);
  os::set_waiting_hook(nullptr);
  std::uint64_t mine = serving_turn;
  if (all != nullptr && all->turn_.compare_exchange_strong(mine, kNobody)) all->alarm_.notify();
}

void FaultThreads::answer(Server& server, const Message& message, std::uint64_t mine) noexcept {
  const os::PageFault& fault = message.fault;
  serving_turn = mine;
  os::set_waiting_hook(&hand_on);
  {
    const OrderedByKernel ordered;
    const bool sure = serve_elsewhere(message.region,
                                      {.address = fault.address,
                                       .access = fault.write ? Access::kWrite : Access::kRead,
                                       .thread = fault.thread,
                                       .doubtful = message.doubtful},
                                      *faults_);
    if (!sure) note_doubt(fault);
  }
  os::set_waiting_hook(nullptr);
  server.serves.store(0, std::memory_order_release);
  faults_->wake(fault.address);
}

// ---- The engine.

void prepare() {
  auto made = std::make_unique<FaultThreads>(os::Userfaultfd::make());
  install_bus_handler();
  threads.store(made.release(), std::memory_order_release);
}

void admit(std::byte* begin, std::size_t bytes) {
  const auto refused = [bytes](int error) {
    return Error(error, "cannot have the faults of " + format_bytes(bytes) +
                            " of address space from userfaultfd (RLIMIT_DATA and "
                            "vm.overcommit_memory=2 count them as memory): reserve less");
  };
  const FaultThreads& all = *threads.load(std::memory_order_acquire);
  // A child that had these maps would read zeros; a core dump would hold as many.
  os::advise(begin, bytes, MADV_DONTFORK);
  os::advise(begin, bytes, MADV_DONTDUMP);
  // On a 4 KiB fault the kernel makes the page table that keeps a huge page from being moved there.
  os::advise(begin, bytes, MADV_HUGEPAGE);
  if (const int error = all.faults()->arm(begin, bytes)) throw refused(error);
  if (const int error = os::allow_access(begin, bytes)) throw refused(error);
}

void settle() noexcept {
  if (FaultThreads* const all = threads.load(std::memory_order_acquire)) all->settle();
}

void stop() noexcept {
  delete threads.exchange(nullptr, std::memory_order_acq_rel);
  remove_bus_handler();
}

// The descriptor is the parent's; the threads are not there.
void leave_to_parent() noexcept {
  if (FaultThreads* const all = threads.exchange(nullptr, std::memory_order_acq_rel)) {
    os::close_descriptor(all->faults()->descriptor());
  }
}

}  // namespace

constinit const FaultEngine kUserfaultfdEngine = {
    .prepare = &prepare,
    .admit = &admit,
    .settle = &settle,
    .stop = &stop,
    .leave_to_parent = &leave_to_parent,
};

std::shared_ptr<os::Userfaultfd> userfaultfd_in_use() noexcept {
  const FaultThreads* const all = threads.load(std::memory_order_acquire);
  return all != nullptr ? all->faults() : nullptr;
}

bool being_served(std::int32_t thread) noexcept {
  FaultThreads* const all = threads.load(std::memory_order_acquire);
  return all != nullptr && all->being_served(thread);
}

bool is_fault_thread() noexcept { return serving_turn != 0; }

std::int32_t served_by(std::int32_t thread) noexcept {
  const FaultThreads* const all = threads.load(std::memory_order_acquire);
  return all != nullptr ? all->served_by(thread) : 0;
}

}}  // namespace vortex::v0

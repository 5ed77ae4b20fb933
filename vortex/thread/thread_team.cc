#include "vortex/detail/array/thread_team.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "vortex/thread/askers.h"
#include "vortex/thread/control_groups.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 { namespace detail {

class ThreadTeam::Impl {
 public:
  explicit Impl(unsigned threads) : workers_(threads - 1), owner_(getpid()) {
    for (MaskedThread& worker : workers_) {
      if (!start(worker, started_ + 1)) break;
      ++started_;
    }
  }
  // Before the workers are joined.
  ~Impl() { work_.close(); }

  unsigned threads() const noexcept { return started_ + 1; }
  void work_within(Around around) { around_ = std::move(around); }

  void run(std::size_t parts, const std::function<void(std::size_t)>& part) {
    // In a forked child the lock may be held by a thread that is not there.
    if (parts <= 1 || started_ == 0 || owner_ != getpid()) {
      for (std::size_t i = 0; i < parts; ++i) part(i);  // under the number that the caller has
      return;
    }
    const Numbered caller(0);
    {
      const std::lock_guard lock(lock_);
      part_ = &part;
      next_ = 0;
      parts_ = parts;
    }
    work_.release(static_cast<std::uint32_t>(std::min<std::size_t>(parts - 1, started_)));
    take_parts();
    for (;;) {
      std::uint32_t ticket;
      {
        const std::lock_guard lock(lock_);
        if (running_ == 0) break;
        ticket = ended_.ticket();
      }
      ended_.await(ticket);
    }
    // A worker that wakes late finds no part.
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // What sort_thread() tells meanwhile.
  class Numbered {
   public:
    explicit Numbered(unsigned number) noexcept : before_(os::set_sort_thread(number)) {}
    ~Numbered() { os::set_sort_thread(before_); }

   private:
    const unsigned before_;
  };

  bool start(MaskedThread& worker, unsigned number) {
    try {
      return worker.start(
                 [this, number] {
                   os::set_sort_thread(number);
                   while (work_.acquire()) work(number);
                 },
                 ThreadSignals::kOwnFaults) == 0;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // What is around the work belongs to whoever has set it: a worker that wakes late, when the job
  // has ended, does not call it.
  void work(unsigned number) noexcept {
    {
      const std::lock_guard lock(lock_);
      if (next_ == parts_) return;
      ++running_;
    }
    try {
      around_ ? around_(number, [this] { take_parts(); }) : take_parts();
    } catch (...) {
      take_parts();  // without it
    }
    bool last = false;
    {
      const std::lock_guard lock(lock_);
      last = --running_ == 0;
    }
    if (last) ended_.notify();
  }

  // Does parts of the job until none is left to begin.
  void take_parts() noexcept {
    std::exception_ptr error;
    std::unique_lock lock(lock_);
    while (next_ < parts_) {
      const std::size_t index = next_++;
      const std::function<void(std::size_t)>& part = *part_;
      ++running_;
      lock.unlock();
      try {
        part(index);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      --running_;
      if (error != nullptr) {
        next_ = parts_;
        if (error_ == nullptr) error_ = std::move(error);
        error = nullptr;
      }
    }
    const bool last = running_ == 0;
    lock.unlock();
    if (last) ended_.notify();
  }

  FutexMutex lock_;
  const std::function<void(std::size_t)>* part_ = nullptr;
  Around around_;
  std::size_t next_ = 0;  // the first part that has not begun
  std::size_t parts_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr error_;
  FutexEvent ended_;
  FutexSemaphore work_;
  std::vector<MaskedThread> workers_;  // the last: their destructors wait for them
  unsigned started_ = 0;
  const pid_t owner_;
};

ThreadTeam::ThreadTeam(unsigned threads)
    : impl_(
          std::make_unique<Impl>(std::min(threads != 0 ? threads : usable_cores(), kMaxThreads))) {}
ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::work_within(Around around) { impl_->work_within(std::move(around)); }

unsigned ThreadTeam::threads() const noexcept { return impl_->threads(); }

void ThreadTeam::run(std::size_t parts, const std::function<void(std::size_t)>& part) {
  impl_->run(parts, part);
}

unsigned ThreadTeam::resolve(unsigned threads) {
  if (threads == 1) return 1;
  const unsigned assumed = assumed_cores();
  if (threads != 0 && threads <= assumed) return std::min(threads, kMaxThreads);
  const unsigned cores = usable_cores();
  return std::min({threads != 0 ? threads : cores, std::max(cores, assumed), kMaxThreads});
}

}}}  // namespace vortex::v0::detail

#include "vortex/detail/merge/task_ring.h"

#include <atomic>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "vortex/thread/activity.h"
#include "vortex/thread/askers.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"
#include "vortex/thread/race_detector.h"

namespace vortex { inline namespace v0 { namespace detail {

class TaskRing::Impl {
 public:
  Impl(Kind kind, std::size_t slots, unsigned threads, Work work)
      : kind_(kind == Kind::kSort ? SpanKind::kSort : SpanKind::kMerge),
        work_(std::move(work)),
        askers_(Asking::askers()),
        done_(slots) {
    threads_.reserve(threads);
    for (unsigned i = 1; i < threads; ++i) {
      if (!start_worker(i)) break;
    }
  }
  ~Impl() {
    waiting_.close();
    threads_.clear();
  }

  std::size_t free_slots() const noexcept { return done_.size() - (submitted_ - released_); }
  bool empty() const noexcept { return submitted_ == released_; }
  std::size_t next_free() const noexcept { return submitted_ % done_.size(); }

  void submit() noexcept {
    done_[next_free()].store(false, std::memory_order_relaxed);
    ++submitted_;
    waiting_.release();
  }

  std::size_t await() noexcept {
    const auto slot = static_cast<std::size_t>(released_ % done_.size());
    for (;;) {
      const std::uint32_t ticket = ended_.ticket();
      if (done_[slot].load(std::memory_order_acquire)) {
        note_acquired(&done_[slot]);
        return slot;
      }
      if (waiting_.try_acquire()) {
        do_next(0);
      } else {
        const Waiting waiting;
        ended_.await(ticket);
      }
    }
  }

  void release() noexcept { ++released_; }

 private:
  // False: the system grants no further thread, or there is no memory for it.
  bool start_worker(unsigned number) {
    const auto body = [this, number, log = Working::log()] {
      try {
        os::set_sort_thread(number);
        const Working working(log, "worker", number);
        while (is_any_waiting()) do_next(number);
      } catch (const std::bad_alloc&) {
        // There is no memory for its log: the others do the work.
      }
    };
    try {
      auto thread = std::make_unique<MaskedThread>();
      if (thread->start(body, ThreadSignals::kOwnFaults) != 0) return false;
      threads_.push_back(std::move(thread));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // False: the ring goes.
  bool is_any_waiting() noexcept {
    const Waiting waiting;
    return waiting_.acquire();
  }

  // A unit of `waiting_` was taken, so a slot is there to be begun. It may be one that was
  // submitted after that unit, which whoever begins the one before it has seen.
  void do_next(unsigned worker) noexcept {
    note_released(&begun_);
    const auto slot =
        static_cast<std::size_t>(begun_.fetch_add(1, std::memory_order_acq_rel) % done_.size());
    note_acquired(&begun_);
    {
      const Asking asking(askers_);
      const WorkSpan span(kind_);
      work_(slot, worker);
    }
    note_released(&done_[slot]);
    done_[slot].store(true, std::memory_order_release);
    ended_.notify();
  }

  const SpanKind kind_;
  const Work work_;
  Askers* const askers_;
  std::uint64_t submitted_ = 0;
  std::uint64_t released_ = 0;
  std::vector<std::atomic<bool>> done_;
  std::atomic<std::uint64_t> begun_{0};
  FutexSemaphore waiting_;  // slots that nobody has begun to work on
  FutexEvent ended_;        // work on a slot
  std::vector<std::unique_ptr<MaskedThread>> threads_;
};

TaskRing::TaskRing(Kind kind, std::size_t slots, unsigned threads, Work work)
    : impl_(std::make_unique<Impl>(kind, slots, threads, std::move(work))) {}
TaskRing::~TaskRing() = default;

std::size_t TaskRing::free_slots() const noexcept { return impl_->free_slots(); }
bool TaskRing::empty() const noexcept { return impl_->empty(); }
std::size_t TaskRing::next_free() const noexcept { return impl_->next_free(); }
void TaskRing::submit() noexcept { impl_->submit(); }
std::size_t TaskRing::await() noexcept { return impl_->await(); }
void TaskRing::release() noexcept { impl_->release(); }

}}}  // namespace vortex::v0::detail

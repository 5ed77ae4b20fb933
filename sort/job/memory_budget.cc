#include "vortex/memory_budget.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "vortex/error.h"
#include "vortex/os/futex.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

// The free bytes, and the queue for them: each caller draws a number, and the least number that
// still waits comes first.
class MemoryBudget::State {
 public:
  explicit State(std::uint64_t bytes) noexcept : free_(bytes) {}

  std::uint64_t free_bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    return free_;
  }
  std::size_t waiting() const noexcept {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  std::uint64_t take(std::uint64_t least, std::uint64_t most, const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] { changed_.notify(); });
    const InQueue place(*this);
    for (;;) {
      std::uint32_t ticket = 0;
      {
        const std::lock_guard lock(mutex_);
        if (stop.stop_requested())
          throw Error(ECANCELED, "a sort that waited for memory was ended");
        if (waiting_.front() == place.number && free_ >= least) {
          const std::uint64_t taken = std::min(free_, most);
          free_ -= taken;
          return taken;
        }
        ticket = changed_.ticket();
      }
      changed_.await(ticket);
    }
  }

  std::uint64_t take_unclaimed(std::uint64_t most) noexcept {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) return 0;
    const std::uint64_t taken = std::min(free_, most);
    free_ -= taken;
    return taken;
  }

  void give(std::uint64_t bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      free_ += bytes;
    }
    changed_.notify();
  }

 private:
  struct InQueue {
    explicit InQueue(State& state) : state(state) {
      const std::lock_guard lock(state.mutex_);
      number = state.next_++;
      state.waiting_.push_back(number);
    }
    ~InQueue() {
      {
        const std::lock_guard lock(state.mutex_);
        std::erase(state.waiting_, number);
      }
      state.changed_.notify();
    }
    InQueue(const InQueue&) = delete;
    InQueue& operator=(const InQueue&) = delete;

    State& state;
    std::uint64_t number = 0;
  };

  mutable FutexMutex mutex_;
  FutexEvent changed_;
  std::uint64_t free_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> waiting_;  // ascending
};

MemoryBudget::MemoryBudget(std::uint64_t bytes)
    : bytes_(bytes), state_(std::make_unique<State>(bytes)) {}
MemoryBudget::~MemoryBudget() = default;

std::shared_ptr<MemoryBudget> MemoryBudget::make(std::uint64_t bytes) {
  return std::shared_ptr<MemoryBudget>(new MemoryBudget(bytes));
}

std::uint64_t MemoryBudget::free_bytes() const noexcept { return state_->free_bytes(); }
std::size_t MemoryBudget::waiting() const noexcept { return state_->waiting(); }

MemoryShare MemoryBudget::take(std::uint64_t least, std::uint64_t most, std::stop_token stop) {
  most = std::max(least, most);
  if (least > bytes_) {
    throw Error(ENOMEM, "a sort that needs " + format_bytes(least) +
                            " of memory at least, under a budget of " + format_bytes(bytes_) +
                            " for all sorts: make the budget larger, or let the sort do with less");
  }
  return {shared_from_this(), state_->take(least, most, stop)};
}

MemoryShare::MemoryShare(MemoryShare&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this == &other) return *this;
  shrink_to(0);
  budget_ = std::move(other.budget_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MemoryShare::shrink_to(std::uint64_t bytes) noexcept {
  if (bytes >= bytes_) return;
  budget_->state_->give(bytes_ - bytes);
  bytes_ = bytes;
}

std::uint64_t MemoryShare::grow_to(std::uint64_t bytes) noexcept {
  if (!budget_ || bytes <= bytes_) return 0;
  const std::uint64_t taken = budget_->state_->take_unclaimed(bytes - bytes_);
  bytes_ += taken;
  return taken;
}

MemoryShare take_memory_share(SortResources& resources) {
  if (!resources.budget) return {};
  const std::uint64_t most = std::min(resources.memory_bytes, resources.budget->bytes());
  const std::uint64_t least =
      resources.least_memory_bytes != 0 ? resources.least_memory_bytes : most / 4;
  MemoryShare share = resources.budget->take(least, most, resources.stop);
  resources.memory_bytes = share.bytes();
  return share;
}

}  // namespace vortex::inline v0

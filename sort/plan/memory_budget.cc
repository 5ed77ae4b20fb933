#include "vortex/memory_budget.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "sort/plan/memory_limits.h"
#include "vortex/error.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

namespace {

// Never that of a thread before, as kernel ids are.
std::uint64_t this_thread() noexcept {
  static std::atomic<std::uint64_t> next{0};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// While a lender has promised more, it is asked so often.
constexpr int kAskAgainMs = 2;
// Two seconds, in which a slow disk or a busy machine ends what keeps blocks: then lenders have no
// more.
constexpr unsigned kAsksInVain = 1000;

}  // namespace

MemoryLender::~MemoryLender() = default;

struct MemoryShare::Holding {
  std::uint64_t bytes = 0;
  std::uint64_t thread = 0;  // that it belongs to
  MemoryLender* lender = nullptr;
};

// The free bytes, and the queue for them: each caller draws a number, and the least number that
// still waits comes first.
class MemoryBudget::State {
 public:
  using Holding = MemoryShare::Holding;

  explicit State(std::uint64_t bytes) noexcept : free_(bytes) {}

  std::uint64_t free_bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    return free_;
  }
  std::size_t waiting() const noexcept {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  // Fills in the holding.
  void take(std::uint64_t least, std::uint64_t most, const std::stop_token& stop, Holding& holding);

  std::uint64_t grow(Holding& holding, std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty() || bytes <= holding.bytes) return 0;
    const std::uint64_t taken = std::min(free_, bytes - holding.bytes);
    free_ -= taken;
    holding.bytes += taken;
    return taken;
  }

  void shrink(Holding& holding, std::uint64_t bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (bytes >= holding.bytes) return;
      free_ += holding.bytes - bytes;
      holding.bytes = bytes;
    }
    changed_.notify();
  }

  std::uint64_t bytes_of(const Holding& holding) const noexcept {
    const std::lock_guard lock(mutex_);
    return holding.bytes;
  }

  void adopt(Holding& holding) noexcept {
    const std::uint64_t thread = this_thread();
    const std::lock_guard lock(mutex_);
    holding.thread = thread;
  }

  void end(Holding& holding) noexcept {
    shrink(holding, 0);
    const std::lock_guard lock(mutex_);
    std::erase(holdings_, &holding);
  }

  void begin_lending(Holding& holding, MemoryLender& lender) {
    {
      const std::lock_guard lock(lending_);
      if (holding.lender == nullptr) lending_out_.push_back(&holding);
      holding.lender = &lender;
      const std::lock_guard also(mutex_);
      asked_in_vain_.reset();
      vain_asks_ = 0;
      ++lendings_;
    }
    changed_.notify();  // those who wait ask it
  }

  void end_lending(Holding& holding) noexcept {
    {
      const std::lock_guard lock(lending_);
      if (std::exchange(holding.lender, nullptr) == nullptr) return;
      std::erase(lending_out_, &holding);
    }
    changed_.notify();  // it may have promised something
  }

 private:
  struct Waiter {
    std::uint64_t number = 0;
    std::uint64_t thread = 0;
    std::uint64_t least = 0;  // that it needs
  };
  struct InQueue {
    InQueue(State& state, std::uint64_t least) : state(state) {
      {
        const std::lock_guard lock(state.mutex_);
        number = state.next_++;
        state.waiting_.push_back({number, this_thread(), least});
      }
      state.changed_.notify();  // one more thread gives nothing back
    }
    ~InQueue() {
      {
        const std::lock_guard lock(state.mutex_);
        state.leave(number);
      }
      state.changed_.notify();
    }
    InQueue(const InQueue&) = delete;
    InQueue& operator=(const InQueue&) = delete;

    State& state;
    std::uint64_t number = 0;
  };

  void leave(std::uint64_t number) noexcept {
    std::erase_if(waiting_, [&](const Waiter& waiter) { return waiter.number == number; });
  }
  bool is_first(std::uint64_t number) const noexcept { return waiting_.front().number == number; }
  bool waits(std::uint64_t thread) const noexcept {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Waiter& waiter) { return waiter.thread == thread; });
  }
  // What those shares hold together of which `counts(share)` is true.
  template <typename Counts>
  std::uint64_t held(const Counts& counts) const noexcept {
    std::uint64_t bytes = 0;
    for (const Holding* const holding : holdings_) {
      if (counts(*holding)) bytes += holding->bytes;
    }
    return bytes;
  }
  bool ask_lenders(std::uint64_t number, std::uint64_t least) noexcept;
  void expect_no_deadlock(const InQueue& place);

  mutable FutexMutex mutex_;
  FutexEvent changed_;
  std::uint64_t free_;
  std::uint64_t next_ = 0;
  std::vector<Waiter> waiting_;  // numbers ascend
  // The first of those who wait, when lenders have no more to give to it.
  std::optional<std::uint64_t> asked_in_vain_;
  std::uint64_t asked_for_ = 0;  // the sort for which lenders were asked last
  unsigned vain_asks_ = 0;
  std::uint64_t lendings_ = 1;  // that have begun, and one more
  std::vector<Holding*> holdings_;

  // Held while lenders are called, who shrink their shares: taken before the other one.
  FutexMutex lending_;
  std::vector<Holding*> lending_out_;
};

void MemoryBudget::State::take(std::uint64_t least, std::uint64_t most, const std::stop_token& stop,
                               Holding& holding) {
  holding.thread = this_thread();
  const std::stop_callback wake(stop, [this] { changed_.notify(); });
  const InQueue place(*this, least);
  std::uint64_t asked = 0;  // those of so many lendings; 0: none lately
  bool more_comes = false;
  for (;;) {
    std::uint32_t ticket = 0;
    std::uint64_t lendings = 0;
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      ticket = changed_.ticket();  // before the look at the stop, which notifies without the lock
      if (stop.stop_requested()) throw Error(ECANCELED, "a sort that waited for memory was ended");
      first = is_first(place.number);
      lendings = lendings_;
      if (first && free_ >= least) {
        holdings_.push_back(&holding);
        holding.bytes = std::min(free_, most);
        free_ -= holding.bytes;
        return;
      }
      expect_no_deadlock(place);
    }
    if (first && asked != lendings) {
      more_comes = ask_lenders(place.number, least);
      asked = lendings;
      continue;
    }
    if (more_comes) {
      changed_.await_for(ticket, kAskAgainMs);
    } else {
      changed_.await(ticket);
    }
    asked = 0;
  }
}

// For the first of those who wait. Returns whether one of them has promised more.
bool MemoryBudget::State::ask_lenders(std::uint64_t number, std::uint64_t least) noexcept {
  bool more_comes = false;
  bool in_vain = false;
  {
    const std::lock_guard lock(lending_);
    for (Holding* const holding : lending_out_) {
      const std::uint64_t free = free_bytes();
      if (free >= least) break;
      if (holding->lender->give_back(least - free)) more_comes = true;
    }
    const std::lock_guard also(mutex_);
    if (std::exchange(asked_for_, number) != number || more_comes || free_ >= least) vain_asks_ = 0;
    if (!more_comes && free_ < least) {
      // Blocks that lenders have given up may still be on their way home.
      if (!lending_out_.empty() && ++vain_asks_ < kAsksInVain) return true;
      in_vain = asked_in_vain_ != number;
      asked_in_vain_ = number;
    }
  }
  if (in_vain) changed_.notify();  // others, who may hold what it needs, look
  return more_comes;
}

// With the lock held. The first cannot go on with what is free and what comes from lenders and from
// threads that do not wait: one of those who hold the rest leaves.
void MemoryBudget::State::expect_no_deadlock(const InQueue& place) {
  const Waiter first = waiting_.front();
  if (asked_in_vain_ != first.number) return;
  const std::uint64_t all = free_ + held([](const Holding&) { return true; });
  const std::uint64_t of_waiting =
      held([&](const Holding& holding) { return waits(holding.thread); });
  if (all - of_waiting >= first.least) return;
  const std::uint64_t own =
      held([](const Holding& holding) { return holding.thread == this_thread(); });
  if (own == 0) return;
  leave(place.number);
  throw Error(EDEADLK,
              "a sort waits for memory that its own thread holds: of a budget of " +
                  format_bytes(all) + " the sorts of this thread hold " + format_bytes(own) +
                  ", and " + format_bytes(first.least) +
                  " are needed: call sort() before the next sorter is made, end those that are "
                  "not needed any more, or give them less memory_bytes or least_memory_bytes");
}

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
  auto holding = std::make_unique<MemoryShare::Holding>();
  state_->take(least, most, stop, *holding);
  return {shared_from_this(), std::move(holding)};
}

MemoryShare::MemoryShare() noexcept = default;
MemoryShare::MemoryShare(std::shared_ptr<MemoryBudget> budget,
                         std::unique_ptr<Holding> holding) noexcept
    : budget_(std::move(budget)), holding_(std::move(holding)) {}
MemoryShare::~MemoryShare() { end(); }
MemoryShare::MemoryShare(MemoryShare&& other) noexcept = default;

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this == &other) return *this;
  end();
  budget_ = std::move(other.budget_);
  holding_ = std::move(other.holding_);
  return *this;
}

void MemoryShare::end() noexcept {
  if (!holding_) return;
  end_lending();
  budget_->state_->end(*holding_);
}

std::uint64_t MemoryShare::bytes() const noexcept {
  return holding_ ? budget_->state_->bytes_of(*holding_) : 0;
}

void MemoryShare::shrink_to(std::uint64_t bytes) noexcept {
  if (holding_) budget_->state_->shrink(*holding_, bytes);
}

std::uint64_t MemoryShare::grow_to(std::uint64_t bytes) noexcept {
  return holding_ ? budget_->state_->grow(*holding_, bytes) : 0;
}

bool MemoryShare::others_wait() const noexcept { return holding_ && budget_->waiting() > 0; }

// Only whoever uses the share writes its thread, which others look at under the lock.
void MemoryShare::adopt() noexcept {
  if (holding_ && holding_->thread != this_thread()) budget_->state_->adopt(*holding_);
}

void MemoryShare::lend_by(MemoryLender& lender) {
  if (holding_) budget_->state_->begin_lending(*holding_, lender);
}

void MemoryShare::end_lending() noexcept {
  if (holding_) budget_->state_->end_lending(*holding_);
}

MemoryShare take_memory_share(SortResources& resources) {
  if (!resources.budget) return {};
  const std::uint64_t most = std::min(resources.memory_bytes, resources.budget->bytes());
  const std::uint64_t least = resources.least_memory_bytes != 0
                                  ? resources.least_memory_bytes
                                  : std::max<std::uint64_t>(most / 4, 1);
  MemoryShare share = resources.budget->take(least, most, resources.stop);
  resources.memory_bytes = share.bytes();
  return share;
}

}}  // namespace vortex::v0

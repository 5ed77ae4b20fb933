#include "vortex/thread/askers.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "vortex/array_calls.h"

namespace vortex { inline namespace v0 {

namespace {

struct Current {
  Askers* askers = nullptr;
  unsigned number = 0;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Current current;
[[gnu::tls_model("initial-exec")]] constinit thread_local unsigned number_in_sort = 0;

}  // namespace

unsigned sort_thread() noexcept { return number_in_sort; }

unsigned os::set_sort_thread(unsigned number) noexcept {
  return std::exchange(number_in_sort, number);
}

unsigned Askers::begin() noexcept {
  for (;;) {
    std::uint32_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto free = std::find(taken_.begin(), taken_.end(), false);
      if (free != taken_.end()) {
        *free = true;
        return static_cast<unsigned>(free - taken_.begin());
      }
      ticket = ended_.ticket();
    }
    ended_.await(ticket);
  }
}

void Askers::end(unsigned number) noexcept {
  {
    const std::lock_guard lock(mutex_);
    taken_[number] = false;
  }
  ended_.notify();
}

Asking::Asking(Askers* askers) noexcept : askers_(askers) {
  if (askers_ == nullptr) return;
  before_ = current.askers;
  number_before_ = current.number;
  if (before_ != askers_) current = {askers_, askers_->begin()};
  told_before_ = os::set_sort_thread(current.number);
}

Asking::~Asking() {
  if (askers_ == nullptr) return;
  os::set_sort_thread(told_before_);
  if (before_ != askers_) askers_->end(current.number);
  current = {before_, number_before_};
}

Askers* Asking::askers() noexcept { return current.askers; }

}}  // namespace vortex::v0

#include "lines/memory/arena_warmer.h"

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// One huge page is touched at a time.
constexpr std::size_t kStep = std::size_t{2} << 20;
constexpr std::ptrdiff_t kMostAhead = std::ptrdiff_t{64} << 20;
// A smaller arena is not worth a thread, and a smaller step not worth a word to it.
constexpr std::ptrdiff_t kLeastUsed = std::ptrdiff_t{4} << 20;
constexpr std::ptrdiff_t kNewsBytes = std::ptrdiff_t{1} << 20;

char* step_down(char* at) noexcept {
  return at - 1 - (reinterpret_cast<std::uintptr_t>(at) - 1) % kStep;
}
char* step_up(char* at) noexcept { return step_down(at) + kStep; }

}  // namespace

ArenaWarmer::~ArenaWarmer() { stop(); }

void ArenaWarmer::begin(std::span<char> memory) {
  const std::lock_guard lock(mutex_);
  memory_ = memory;
  next_note_ = kLeastUsed;
  front_ = front_wanted_ = memory.data();
  back_ = back_wanted_ = memory.data() + memory.size();
}

void ArenaWarmer::note(const char* front, const char* back) {
  if (failed_ || memory_.empty()) return;
  char* const begin = memory_.data();
  char* const end = begin + memory_.size();
  const std::ptrdiff_t used_front = front - begin;
  const std::ptrdiff_t used_back = end - back;
  if (used_front + used_back < next_note_) return;
  next_note_ = used_front + used_back + kNewsBytes;
  if (!running_) {
    running_ = task_.start(
        "arena warmer", [this] { run(); }, [] {});
    failed_ = !running_;
  }
  {
    const std::lock_guard lock(mutex_);
    front_ = std::max(front_, begin + used_front);
    back_ = std::min(back_, end - used_back);
    const std::ptrdiff_t room = back - front;
    front_wanted_ = begin + used_front + std::min({used_front, kMostAhead, room});
    back_wanted_ = end - used_back - std::min({used_back, kMostAhead, room});
  }
  changed_.notify();
}

// Takes no lock: in a forked child nobody would let go of it.
void ArenaWarmer::stop() noexcept {
  stopped_.store(true, std::memory_order_relaxed);
  changed_.notify();
  try {
    task_.finish();
  } catch (...) {
    // What it has not touched whoever fills the arena touches.
  }
}

// To be called with the lock held. Returns nothing where enough is resident.
ArenaWarmer::Range ArenaWarmer::next_range() {
  Range range;
  if (front_ < std::min(front_wanted_, back_)) {
    range.begin = front_;
    front_ = range.end = std::min(step_up(front_ + 1), back_);
  } else if (back_ > std::max(back_wanted_, front_)) {
    range.end = back_;
    back_ = range.begin = std::max(step_down(back_), front_);
  }
  return range;
}

void ArenaWarmer::run() {
  while (!stopped_.load(std::memory_order_relaxed)) {
    Range range;
    std::uint32_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      range = next_range();
      ticket = changed_.ticket();
    }
    if (range.begin != range.end) {
      os::touch(reinterpret_cast<std::byte*>(range.begin),
                static_cast<std::size_t>(range.end - range.begin));
    } else if (!stopped_.load(std::memory_order_relaxed)) {
      changed_.await(ticket);
    }
  }
}

}}  // namespace vortex::v0

// Waiting for "something has happened since I looked", inside a fault handler too.
#pragma once

#include <atomic>
#include <cstdint>

namespace vortex::inline v0 {

// A number that only grows. A waiter reads it, looks whether what it wants is there, and sleeps
// until the number has changed: what happens in between is not lost.
class EventCount {
 public:
  std::uint32_t now() const noexcept { return count_.load(std::memory_order_seq_cst); }
  void advance() noexcept;
  // Returns at once when the number is no longer `seen`; may also return for no reason.
  void wait(std::uint32_t seen) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace vortex::inline v0

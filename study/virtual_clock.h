// Time that passes only when it is told to: simulations that give the same result every time.
#pragma once

#include <cstdint>

namespace vortex { inline namespace v0 {

// Something that happens at a point of virtual time. Linked through itself; pending in one clock at
// most.
class VirtualEvent {
 public:
  virtual void happen() noexcept = 0;

 protected:
  ~VirtualEvent() = default;

 private:
  friend class VirtualClock;
  std::uint64_t time_ns_ = 0;
  VirtualEvent* next_ = nullptr;
};

// The clock of one simulation: all its disks and whatever computes beside them. Events happen in
// the order of their times, at equal times in the order in which they were scheduled. For one
// thread.
class VirtualClock {
 public:
  std::uint64_t now_ns() const noexcept { return now_ns_; }

  // Not before now. Linear in the number of pending events, of which every disk has one.
  void schedule(VirtualEvent& event, std::uint64_t time_ns) noexcept;

  // Moves on to the next event and lets it happen. False: none is pending.
  bool step() noexcept;

  // Lets time pass: what a computation of that length would see. Everything due happens on the way.
  void advance(std::uint64_t duration_ns) noexcept;

 private:
  std::uint64_t now_ns_ = 0;
  VirtualEvent* first_ = nullptr;
};

}}  // namespace vortex::v0

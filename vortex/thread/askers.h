// How many threads call the program's functions for one sort at once, and their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "vortex/thread/futex.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

namespace os {

// What sort_thread() (vortex/array_calls.h) tells this thread from now on. Returns what it was.
VORTEX_EXPORT unsigned set_sort_thread(unsigned number) noexcept;

}  // namespace os

// As many numbers as threads may ask at once. A sort has more threads than that: those that put
// records to buckets, and those that sort buckets, take turns.
class VORTEX_EXPORT Askers {
 public:
  // Allocates; throws std::bad_alloc.
  explicit Askers(unsigned most) : taken_(most) {}

  // The least number that is free; waits for one.
  unsigned begin() noexcept;
  void end(unsigned number) noexcept;

 private:
  FutexMutex mutex_;
  std::vector<bool> taken_;
  FutexEvent ended_;
};

// The calling thread asks for a sort while this lives, with a number of its own, which
// sort_thread() tells. One within another of the same sort keeps its number. The outermost one of a
// thread has to live outside guarded(), which might leave it by a jump; and whoever waits for work
// of others that ask waits outside it, or is one of two at most that do.
class VORTEX_EXPORT Asking {
 public:
  // Null: any number of threads ask, and each has the number that it has.
  explicit Asking(Askers* askers) noexcept;
  ~Asking();
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  // For whom the calling thread asks, if there is somebody: threads that it starts do, too.
  static Askers* askers() noexcept;

 private:
  Askers* const askers_;
  Askers* before_ = nullptr;
  unsigned number_before_ = 0;
  unsigned told_before_ = 0;
};

}}  // namespace vortex::v0

// Work that goes on beside the thread that started it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>

#include "vortex/thread/masked_thread.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// One task at a time, in a thread of its own, whose error is kept for the thread that started it.
// To be used by one thread; busy() may be asked by the task as well. When it goes it waits for the
// end of the task, and forgets its error.
class VORTEX_EXPORT BackgroundTask {
 public:
  // Runs `task`, which may throw, and then `ended`, which may not. busy() is false before `ended`
  // is called. The task before must have been finished. The thread works for the log of the calling
  // thread, under `name`, which must stay. False: the system refuses a thread, and nothing was run.
  // Throws std::bad_alloc likewise.
  bool start(const char* name, std::function<void()> task, std::function<void()> ended);

  bool busy() const noexcept { return busy_.load(std::memory_order_acquire); }

  // Waits for the end of the task, if there is one, and throws what that threw.
  void finish();

 private:
  std::atomic<bool> busy_{false};
  std::exception_ptr thrown_;
  MaskedThread thread_;  // destroyed first: its end is waited for
};

}}  // namespace vortex::v0

#include "vortex/thread/background_task.h"

#include <utility>

#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

bool BackgroundTask::start(const char* name, std::function<void()> task,
                           std::function<void()> ended) {
  std::function<void()> work = [this, name, task = std::move(task), ended = std::move(ended),
                                log = Working::log()] {
    try {
      const Working working(log, name);
      task();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    busy_.store(false, std::memory_order_release);
    ended();
  };
  busy_.store(true, std::memory_order_relaxed);
  const int error = thread_.start(std::move(work), ThreadSignals::kOwnFaults);
  if (error != 0) busy_.store(false, std::memory_order_relaxed);
  return error == 0;
}

void BackgroundTask::finish() {
  {
    const Waiting waiting;
    thread_.join();
  }
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}}  // namespace vortex::v0

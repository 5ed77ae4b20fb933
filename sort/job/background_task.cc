#include "sort/job/background_task.h"

#include <ctime>
#include <utility>

namespace vortex::inline v0 {

double thread_cpu_seconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool BackgroundTask::start(std::function<void()> task, std::function<void()> ended) {
  busy_.store(true, std::memory_order_relaxed);
  const int error = thread_.start(
      [this, task = std::move(task), ended = std::move(ended)] {
        try {
          task();
        } catch (...) {
          thrown_ = std::current_exception();
        }
        task_cpu_seconds_ = thread_cpu_seconds();
        busy_.store(false, std::memory_order_release);
        ended();
      },
      ThreadSignals::kOwnFaults);
  if (error != 0) busy_.store(false, std::memory_order_relaxed);
  return error == 0;
}

void BackgroundTask::finish() {
  thread_.join();
  cpu_seconds_ += std::exchange(task_cpu_seconds_, 0);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace vortex::inline v0

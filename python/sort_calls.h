// What calls of sorts have in common: who is told of them, and their resources.
#pragma once

#include <vortex/block_pool.h>
#include <vortex/error.h>
#include <vortex/sort_resources.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "module.h"

#include <nanobind/stl/optional.h>

namespace vortex_python {

// What a sort reports goes to a function of Python's, and a signal that Python has noted ends the
// sort, both at most 20 times a second, and when a phase begins. What Python raises is kept here: a
// sort may pass it from one of its threads to another.
class Watch {
 public:
  explicit Watch(nb::object progress) : progress_(std::move(progress)) {}

  vortex::SortProgressFunction function() {
    return [this](const vortex::SortProgress& progress) { report(progress); };
  }

  // Calls `sort` without the GIL, when calls of other threads have ended, which may have it: only
  // this thread may wait for it meanwhile. What Python raised is thrown in place of the sort's
  // error. Throws vortex::Error (EDEADLK) where a handler of a signal calls inside such a call.
  template <typename Sort>
  void run(const Sort& sort) {
    std::optional<nb::python_error> raised;
    {
      const nb::gil_scoped_release released;
      const Turn turn(*this);
      try {
        receive_faults();
        sort();
      } catch (...) {
        if (!raised_) throw;
      }
      if (raised_) raised.emplace(std::move(*raised_));
      raised_.reset();
    }
    if (raised) throw std::move(*raised);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{50};

  // While it lives, the thread that made it is the caller.
  class Turn {
   public:
    explicit Turn(Watch& watch) : watch_(watch) {
      if (watch.caller_.load() == std::this_thread::get_id()) {
        vortex::throw_error(EDEADLK, "a sorter is used inside a call of itself");
      }
      watch.mutex_.lock();
      watch.caller_ = std::this_thread::get_id();
    }
    ~Turn() {
      watch_.caller_ = std::thread::id();
      watch_.mutex_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Watch& watch_;
  };

  void report(const vortex::SortProgress& progress) {
    if (std::this_thread::get_id() != caller_.load()) return;
    const Clock::time_point now = Clock::now();
    if (last_ && now - *last_ < kInterval && progress.phase == phase_) return;
    last_ = now;
    phase_ = progress.phase;
    const nb::gil_scoped_acquire acquired;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress_.is_none()) {
        const std::string_view phase = vortex::to_string(progress.phase);
        progress_(nb::str(phase.data(), phase.size()), progress.bytes, progress.phase_bytes);
      }
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
    }
    if (raised_) throw vortex::Error(ECANCELED, "the sort was ended from Python");
  }

  nb::object progress_;
  std::mutex mutex_;
  std::atomic<std::thread::id> caller_;
  std::optional<Clock::time_point> last_;
  vortex::SortPhase phase_ = vortex::SortPhase::kReading;
  std::optional<nb::python_error> raised_;
};

// Copies bytes of the array of a sorter, from byte `offset` on. No block is entered before the one
// in front of it: memcpy(3) of several, by processors on which it is no instruction, begins at
// their end, which the window does not reach.
inline void copy_sorted(const std::byte* sorted, std::uint64_t offset, std::size_t bytes,
                        std::byte* to) {
  const vortex::Failure failure = vortex::guarded([&] {
    for (std::size_t at = 0; at < bytes;) {
      const std::size_t left = vortex::kMinBlockBytes - (offset + at) % vortex::kMinBlockBytes;
      const std::size_t some = std::min(bytes - at, left);
      std::memcpy(to + at, sorted + offset + at, some);
      at += some;
    }
  });
  failure.throw_if_failed();
}

inline vortex::SortResources resources_of(std::uint64_t first, std::uint64_t memory,
                                          std::vector<std::string> folders, unsigned threads,
                                          Watch& watch) {
  return {.first_records = first,
          .memory_bytes = memory,
          .folders = std::move(folders),
          .threads = threads,
          .progress = watch.function()};
}

}  // namespace vortex_python

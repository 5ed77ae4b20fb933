// Memory that becomes resident before it is written to, by a thread of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "vortex/thread/background_task.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// Goes ahead of what fills an arena from both ends, as far as that has come already and no further
// than 64 MiB: the kernel clears memory when it is first touched, which takes a good part of the
// time in which records are read. The memory stays as it is.
//
// The thread that fills the arena calls it. The memory must outlive the warmer. A forked child can
// destroy it, and nothing else.
class ArenaWarmer {
 public:
  ArenaWarmer() = default;
  ~ArenaWarmer();
  ArenaWarmer(const ArenaWarmer&) = delete;
  ArenaWarmer& operator=(const ArenaWarmer&) = delete;

  // Begins with an arena that nobody has written to.
  void begin(std::span<char> memory);
  // Tells that the memory in front of `front` and from `back` on is in use.
  void note(const char* front, const char* back);
  // Nothing more is touched when this returns.
  void stop() noexcept;

 private:
  struct Range {
    char* begin = nullptr;
    char* end = nullptr;
  };

  Range next_range();
  void run();

  FutexMutex mutex_;
  FutexEvent changed_;
  std::atomic<bool> stopped_{false};
  bool failed_ = false;  // there is no thread to be had
  bool running_ = false;
  std::span<char> memory_;
  std::ptrdiff_t next_note_ = 0;  // bytes in use
  // Memory is resident in front of front_ and from back_ on, and is to become so up to the wanted
  // places.
  char* front_ = nullptr;
  char* back_ = nullptr;
  char* front_wanted_ = nullptr;
  char* back_wanted_ = nullptr;
  BackgroundTask task_;  // destroyed first
};

}}  // namespace vortex::v0

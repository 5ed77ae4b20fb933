// Threads that work on one job together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// The caller of run() and some threads beside it. The threads sleep between jobs. No handler of the
// program runs on them, but for the signals that their own instructions raise (ThreadSignals in
// vortex/thread/masked_thread.h): a job may touch streams and call the program's functions.
class VORTEX_EXPORT ThreadTeam {
 public:
  // A team of `threads`, the caller of run() among them; 0: one for each core that the process may
  // use. Starts the others. Where the system refuses a thread, or memory for it, the team is
  // smaller. Throws std::bad_alloc when there is no memory for the team itself.
  explicit ThreadTeam(unsigned threads);
  // Ends the threads and waits for that. A forked child, which does not have them, does not wait.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // How many there are, the caller of run() included.
  unsigned threads() const noexcept;

  // Calls part(0) ... part(parts - 1), each once, on all threads: whoever is free takes the next.
  // They begin in that order, and those that run at the same time must not wait for each other:
  // there may be fewer threads than parts. Returns when all have ended, and what they have written
  // can be read then. When a part throws, no more parts begin, and after the end of those that run
  // the first exception is thrown here. Does not allocate. Not inside a fault, not inside a part,
  // and one call at a time.
  //
  // The threads belong to the process that made the team: in a forked child the caller does all
  // parts alone.
  void run(std::size_t parts, const std::function<void(std::size_t)>& part);

  // From the next run() on, each thread but its caller does its parts inside `around`, which gets
  // the thread's number, from 1 on, and calls `work` once. What it throws is ignored.
  using Around = std::function<void(unsigned number, const std::function<void()>& work)>;
  void work_within(Around around);

  static constexpr unsigned kMaxThreads = 4096;
  // The threads that `threads` of a sort's options mean: at most kMaxThreads, and one for each core
  // that the process may use now, as 0 does: others would take processor time and memory, and gain
  // nothing. Reads a few small files, but for 1.
  static unsigned resolve(unsigned threads);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}}}  // namespace vortex::v0::detail

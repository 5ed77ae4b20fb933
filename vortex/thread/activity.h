// Counts what the threads and the disks of one job do over time: how long they worked at once, and,
// where that is wanted, each piece of their work.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vortex/thread/futex.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The clock of statistics, readable inside a fault.
inline std::uint64_t steady_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline double seconds_since(std::uint64_t begin_ns) noexcept {
  return 1e-9 * static_cast<double>(steady_now_ns() - begin_ns);
}

// The processor time that all threads of the process have taken.
inline double process_cpu_seconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

enum class SpanKind : std::uint8_t {
  kRead,   // of a disk, `detail` bytes
  kWrite,  // likewise
  kFault,  // the rest, of a thread: in the handler, for a stream
  kWait,   // for a disk or another thread
  kPartition,
  kTake,  // of records into memory, keys included
  kSort,
  kMerge,
  kCopy,  // of records that are sorted
  kFree,  // of what runs have on a disk
};

// A piece of work, from begin to end on the clock of steady_now_ns(). Without initial values, so
// that room for many is not touched before they come.
struct Span {
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
  std::uint64_t detail;
  std::uint32_t track;  // of the thread or disk
  SpanKind kind;
};

// Threads work for a log while a Working lives, except for the time of a Waiting. Disks report to
// it (Disk::report_to()). Everything may be called by any thread, inside a fault too where no other
// comment says otherwise, and what is called there neither allocates nor throws.
class VORTEX_EXPORT ActivityLog {
 public:
  static constexpr unsigned kPhases = 3;
  // 32 bytes each, which are resident once a span is in them.
  static constexpr std::size_t kSpansOfTrace = std::size_t{1} << 20;

  // The time of a phase, and which part of it something worked. The last two are added up over all
  // disks and all threads.
  struct Totals {
    std::uint64_t all_ns = 0;
    std::uint64_t disks_ns = 0;    // a disk had a request at least
    std::uint64_t threads_ns = 0;  // a thread worked at least
    std::uint64_t both_ns = 0;
    std::uint64_t sum_disks_ns = 0;
    std::uint64_t sum_threads_ns = 0;
  };

  // Threads and disks with the same name and number share a track.
  struct Track {
    std::string name;
    unsigned number = 0;
    bool is_disk = false;
  };

  // Keeps the first `most_spans` spans. Allocates; throws std::bad_alloc.
  explicit ActivityLog(std::size_t most_spans = 0);

  // Spans from now on belong to `phase`, less than kPhases; at first to phase 0.
  void begin_phase(unsigned phase) noexcept;
  Totals totals(unsigned phase) const noexcept;

  // Allocates, so not inside a fault; throws std::bad_alloc.
  std::uint32_t add_track(const std::string& name, unsigned number, bool is_disk);

  void disk_begins() noexcept { change(disks_, 1); }
  void disk_ends() noexcept { change(disks_, -1); }
  void thread_begins() noexcept { change(threads_, 1); }
  void thread_ends() noexcept { change(threads_, -1); }

  bool traces() const noexcept { return most_spans_ != 0; }
  void add(const Span& span) noexcept;

  // The spans kept; to be called when nobody works any more.
  std::uint64_t begin_ns() const noexcept { return begin_ns_; }
  std::span<const Span> spans() const noexcept;
  std::uint64_t spans_lost() const noexcept;
  const std::vector<Track>& tracks() const noexcept { return tracks_; }

 private:
  void change(int& working, int by) noexcept;
  void settle() noexcept;

  const std::size_t most_spans_;
  const std::unique_ptr<Span[]> spans_;
  std::atomic<std::uint64_t> spans_added_{0};
  const std::uint64_t begin_ns_;
  mutable FutexMutex mutex_;  // the rest
  std::vector<Track> tracks_;
  std::array<Totals, kPhases> totals_{};
  unsigned phase_ = 0;
  std::uint64_t settled_ns_;
  int disks_ = 0;
  int threads_ = 0;
};

// The calling thread works for a log while this lives, which it must not do inside guarded().
class VORTEX_EXPORT Working {
 public:
  // With no log it does nothing. Throws std::bad_alloc.
  explicit Working(ActivityLog* log, const char* thread, unsigned number = 0);
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

  // The log for which the calling thread works; none: null.
  static ActivityLog* log() noexcept;

 private:
  const bool is_working_;
};

// The threads of a ThreadTeam, which the streams' library does not have, work for the log of the
// caller, which outlives it.
template <typename Team>
void work_for_log(Team& team) {
  ActivityLog* const log = Working::log();
  if (log == nullptr) return;
  team.work_within([log](unsigned number, const auto& work) {
    const Working working(log, "worker", number);
    work();
  });
}

// The calling thread waits for something while this lives.
class VORTEX_EXPORT Waiting {
 public:
  Waiting() noexcept;
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::uint64_t begin_ns_;  // 0: nobody keeps it
};

// A span of the calling thread's work. One that guarded() leaves by a jump is not kept.
class VORTEX_EXPORT WorkSpan {
 public:
  explicit WorkSpan(SpanKind kind) noexcept;
  ~WorkSpan();
  WorkSpan(const WorkSpan&) = delete;
  WorkSpan& operator=(const WorkSpan&) = delete;

 private:
  std::uint64_t begin_ns_;  // 0: nobody keeps it
  SpanKind kind_;
};

}}  // namespace vortex::v0

// A sort calls its watch now and then: the watch ends it when asked to, and tells how far it is.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>

#include "sort/record/record_output.h"
#include "vortex/sort_resources.h"
#include "vortex/stream.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

inline constexpr const char* kSortInterrupted = "the sort was interrupted";

// Ends a sort that waits inside a fault: while this lives, a request to stop wakes whoever waits
// inside a fault of the stream, which fails with ECANCELED.
class StreamStop {
 public:
  StreamStop(Stream& stream, const std::stop_token& stop)
      : on_stop_(stop, [&stream] { stream.cancel(ECANCELED, kSortInterrupted); }) {}

 private:
  std::stop_callback<std::function<void()>> on_stop_;
};

// Tells how far the sort is, and ends it with Error(ECANCELED) when that is asked for. The sorting
// thread calls; any thread may stop, and ask whether the sort goes on.
class SortWatch {
 public:
  // Bytes between two reports.
  static constexpr std::uint64_t kNoteBytes = std::uint64_t{1} << 20;

  SortWatch(std::stop_token stop, SortProgressFunction progress);

  // These throw Error(ECANCELED), and what the progress function throws. begin() also begins the
  // phase of the log that the calling thread works for.
  void begin(SortPhase phase, std::optional<std::uint64_t> phase_bytes);
  void add(std::uint64_t bytes);
  // Reports again where the sort is: it is busy with something that moves nothing forward.
  void look() { report(); }
  void expect_going() const;

  // For threads that do parts of what the sorting one does: as add(), but that one tells, with what
  // it adds next. Throws Error(ECANCELED).
  void add_in_part(std::uint64_t bytes);
  // For the sorting thread when it has no part left: returns when `done()`, which is looked at
  // after each end_part(), and tells what others add. Throws as add().
  void await_parts(const std::function<bool()>& done);
  void end_part() noexcept { in_parts_event_.notify(); }

  // For a thread beside the sorting one, which has moved `bytes`. Throws Error(ECANCELED).
  void add_beside(std::uint64_t bytes);
  // For the sorting thread while it waits for the other: look(), where that has moved enough.
  void look_beside();

  // As if the token had asked for it.
  void stop_now() noexcept { stopped_.store(true, std::memory_order_relaxed); }

  const std::stop_token& stop() const noexcept { return stop_; }
  // For loops that look for themselves.
  const std::atomic<bool>& stopped() const noexcept { return stopped_; }

 private:
  void report();

  std::stop_token stop_;
  SortProgressFunction progress_;
  std::atomic<bool> stopped_{false};
  SortProgress now_;
  std::uint64_t reported_ = 0;
  std::atomic<std::uint64_t> in_parts_{0};  // that have been added, and not told
  FutexEvent in_parts_event_;
  std::atomic<std::uint64_t> beside_{0};
  std::uint64_t reported_beside_ = 0;
  std::stop_callback<std::function<void()>> on_stop_;
};

// Whether records that are written bring the phase further, in the sorting thread or in another one
// that does a part; or have been counted when they came in, or so and are written beside the
// sorting thread, which then is the one that tells.
enum class Written { kCounts, kCountsInPart, kIsCounted, kBeside };

// Passes records on and tells the watch.
class WatchedOutput final : public RecordOutput {
 public:
  // Both outlive it.
  WatchedOutput(RecordOutput& out, SortWatch& watch, Written written = Written::kCounts) noexcept
      : out_(out), watch_(watch), written_(written) {}

  std::span<std::byte> room(std::size_t most_bytes) override { return out_.room(most_bytes); }
  void written(std::size_t bytes) override;
  // Tells the watch of what has been written and not been told yet: the caller waits from here on.
  void tell_rest();

  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  RecordOutput& out_;
  SortWatch& watch_;
  Written written_;
  std::uint64_t bytes_ = 0;
  std::uint64_t noted_ = 0;
};

}}  // namespace vortex::v0

// The trace of a sort as a file that viewers of traces open.
#pragma once

#include <string>

#include "sort/job/sort_files.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// A file in the JSON format of Chrome's traces: one process for the threads of the sort and one for
// each disk, in which each request has a track while it is under way. Times are microseconds since
// the log began.
class TraceFile {
 public:
  // Opens or makes the trace that they name, whose contents stay until write(). Throws Error:
  // EINVAL when it is an input or the output, and what opening it says.
  explicit TraceFile(const SortPlaces& places);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Replaces the contents. Nobody works for the log any more. Throws Error; what is written then is
  // not whole.
  void write(const ActivityLog& log);
  // Does that when this is destroyed, and says nothing where it fails. The log outlives it.
  void write_at_end(const ActivityLog& log) noexcept { at_end_ = &log; }

 private:
  void append(const std::string& text);

  const std::string path_;
  const int file_;
  const ActivityLog* at_end_ = nullptr;
};

}}  // namespace vortex::v0

#include "sort/job/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "vortex/detail/stream/printable.h"
#include "vortex/error.h"
#include "vortex/os/names.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kThreadsProcess = 1;

constexpr std::array kNames = {
    Named{SpanKind::kRead, "read"},   Named{SpanKind::kWrite, "write"},
    Named{SpanKind::kFault, "fault"}, Named{SpanKind::kWait, "wait"},
    Named{SpanKind::kSort, "sort"},   Named{SpanKind::kPartition, "partition"},
    Named{SpanKind::kMerge, "merge"}, Named{SpanKind::kTake, "take"},
    Named{SpanKind::kCopy, "copy"},   Named{SpanKind::kFree, "free"},
};

void put(std::string& text, std::initializer_list<std::string_view> pieces) {
  for (const std::string_view piece : pieces) text += piece;
}

void put_quoted(std::string& text, std::string_view name) {
  text += '"';
  detail::put_printable(name, [&text](std::string_view piece) {
    for (const char letter : piece) {
      if (letter == '"' || letter == '\\') text += '\\';
      text += letter;
    }
  });
  text += '"';
}

std::string microseconds(std::uint64_t nanoseconds) {
  const std::string part = std::to_string(nanoseconds % 1000);
  std::string text = std::to_string(nanoseconds / 1000);
  put(text, {".", std::string_view("000").substr(part.size()), part});
  return text;
}

// Threads are threads of one process, and each disk is a process.
void put_ids(std::string& text, const ActivityLog::Track& track, std::size_t index) {
  put(text,
      {"\"pid\":", std::to_string(track.is_disk ? kThreadsProcess + 1 + index : kThreadsProcess),
       ",\"tid\":", std::to_string(index + 1)});
}

void put_name(std::string& text, const ActivityLog::Track& track, std::size_t index) {
  put(text,
      {R"({"ph":"M","name":)", track.is_disk ? R"("process_name")" : R"("thread_name")", ","});
  put_ids(text, track, index);
  text += R"(,"args":{"name":)";
  put_quoted(text,
             track.number == 0 ? track.name : track.name + " " + std::to_string(track.number));
  text += "}},\n";
}

// The event, but for its time and its end.
void put_event(std::string& text, char kind, const ActivityLog::Track& track, const Span& span) {
  put(text, {R"({"ph":")", std::string_view(&kind, 1), R"(","name":")", name_in(kNames, span.kind),
             "\","});
  put_ids(text, track, span.track);
}

void put_span(std::string& text, const ActivityLog& log, const Span& span, std::size_t number) {
  const ActivityLog::Track& track = log.tracks()[span.track];
  const std::string begin = microseconds(span.begin_ns - log.begin_ns());
  if (!track.is_disk) {
    put_event(text, 'X', track, span);
    put(text, {",\"ts\":", begin, ",\"dur\":", microseconds(span.end_ns - span.begin_ns), "},\n"});
    return;
  }
  // The requests of a disk overlap.
  const std::string id = ",\"cat\":\"disk\",\"id\":" + std::to_string(number);
  put_event(text, 'b', track, span);
  put(text, {",\"ts\":", begin, id, ",\"args\":{\"bytes\":", std::to_string(span.detail), "}},\n"});
  put_event(text, 'e', track, span);
  put(text, {",\"ts\":", microseconds(span.end_ns - log.begin_ns()), id, "},\n"});
}

// `standard` is what the name "-" stands for.
bool is_same(const struct stat& file, const std::string& other, int standard) {
  struct stat status {};
  const int failed = other == "-" ? fstat(standard, &status) : stat(other.c_str(), &status);
  return failed == 0 && file.st_dev == status.st_dev && file.st_ino == status.st_ino &&
         S_ISREG(file.st_mode);
}

[[noreturn]] void refuse_output(const SortPlaces& places) {
  throw Error(EINVAL, "the trace '" + places.trace + "' is the output, which would replace it");
}

// Returns whether there is a file of that name.
bool expect_own(const SortPlaces& places) {
  struct stat earlier {};
  const bool exists = stat(places.trace.c_str(), &earlier) == 0;
  for (const std::string& input : places.inputs) {
    if (!exists || !is_same(earlier, input, STDIN_FILENO)) continue;
    throw Error(EINVAL, "the trace '" + places.trace + "' is an input, which it would overwrite");
  }
  if (places.trace == places.output || (exists && is_same(earlier, places.output, STDOUT_FILENO))) {
    refuse_output(places);
  }
  return exists;
}

// Two names of a file that is not there cannot be told to be the same before it is.
int open_trace(const SortPlaces& places) {
  const bool existed = expect_own(places);
  const std::string& path = places.trace;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw Error(errno, "open the trace '" + path + "'");
  struct stat made {};
  if (existed || fstat(file, &made) != 0 || !is_same(made, places.output, STDOUT_FILENO)) {
    return file;
  }
  std::error_code failed;  // where links lead
  unlink(std::filesystem::canonical(path, failed).c_str());
  close(file);
  refuse_output(places);
}

}  // namespace

TraceFile::TraceFile(const SortPlaces& places) : path_(places.trace), file_(open_trace(places)) {}

TraceFile::~TraceFile() {
  try {
    if (at_end_ != nullptr) write(*at_end_);
  } catch (const std::exception&) {
    // The cause of the failure counts, not what becomes of its trace.
  }
  close(file_);
}

void TraceFile::append(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw Error(written < 0 ? errno : EIO, "write the trace '" + path_ + "'");
    done += static_cast<std::size_t>(written);
  }
}

void TraceFile::write(const ActivityLog& log) {
  // Pipes cannot be shortened.
  if (ftruncate(file_, 0) != 0 && errno != EINVAL) {
    throw Error(errno, "shorten the trace '" + path_ + "'");
  }
  std::string text = "{\"traceEvents\":[\n";
  for (std::size_t i = 0; i < log.tracks().size(); ++i) put_name(text, log.tracks()[i], i);
  std::size_t number = 0;
  for (const Span& span : log.spans()) {
    put_span(text, log, span, ++number);
    if (text.size() < kBufferBytes) continue;
    append(text);
    text.clear();
  }
  put(text, {R"({"ph":"M","name":"process_name","pid":)", std::to_string(kThreadsProcess),
             R"(,"args":{"name":"threads of the sort"}})",
             "\n],\"otherData\":{\"spans_lost\":", std::to_string(log.spans_lost()), "}}\n"});
  append(text);
}

}}  // namespace vortex::v0

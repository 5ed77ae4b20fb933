#include "sort/job/file_sort.h"

#include <algorithm>
#include <cstdint>

#include "sort/plan/memory_limits.h"

namespace vortex { inline namespace v0 {

namespace {

const SortPlaces& expect_limits(const SortPlaces& places) {
  vortex::expect_limits(places.resources);
  return places;
}

}  // namespace

FileSort::FileSort(const SortPlaces& places, std::size_t record_bytes)
    : places_(expect_limits(places)),
      activity_(places.trace.empty() ? 0 : ActivityLog::kSpansOfTrace),
      files_(places, record_bytes) {}

SortContext& FileSort::context() {
  if (!context_) context_.emplace(places_.resources, files_.folders());
  return *context_;
}

void FileSort::begin(RecordKind& kind) {
  files_.open_output();
  kind.start();
  begun_ = true;
}

void FileSort::run(RecordKind& kind, SortReport& report) {
  if (places_.trace.empty()) return sort(kind, report);
  trace_.emplace(places_);
  try {
    sort(kind, report);
  } catch (...) {
    trace_->write_at_end(activity_);
    throw;
  }
  trace_->write(activity_);
}

void FileSort::form_runs(RecordKind& kind) {
  if (begun_) context().watch().begin(SortPhase::kReading, kind.input_bytes());
  for (std::size_t i = 0; i < places_.inputs.size(); ++i) kind.form_runs(i);
  kind.end_forming();
}

void FileSort::sort(RecordKind& kind, SortReport& report) {
  const Working working(&activity_, "sort");
  std::uint64_t begin = steady_now_ns();
  const double cpu_begin = process_cpu_seconds();
  if (!kind.begins_small()) {
    // Waiting for a share of a budget takes no time of the sort's, and needs no output.
    const std::uint64_t waiting = steady_now_ns();
    context();
    begin += steady_now_ns() - waiting;
    this->begin(kind);
  }
  const auto merged = places_.merge_inputs ? kind.merge_inputs() : RecordKind::Merged::kNothing;
  if (merged == RecordKind::Merged::kNothing) form_runs(kind);
  if (merged != RecordKind::Merged::kToOutput) {
    report.run_formation_seconds = seconds_since(begin);
    write(kind);
  }
  if (begun_) {
    count_io(kind, report);
    kind.runs().close();  // takes its time, too
    count_overlap(report);
  }
  // Runs may be shorter than what they hold: packed, or lines that share their beginnings.
  const std::uint64_t in_runs = std::min(report.run_bytes, report.output_bytes);
  report.least_io_bytes = report.input_bytes + report.output_bytes + 2 * in_runs;
  report.cpu_seconds = process_cpu_seconds() - cpu_begin;
  report.seconds = seconds_since(begin);
  report.merge_seconds = report.seconds - report.run_formation_seconds;
}

void FileSort::write(RecordKind& kind) {
  if (begun_) {
    kind.reduce_runs();
    context().watch().begin(SortPhase::kWriting, kind.bytes_to_write());
  }
  kind.write_output();
}

void FileSort::count_io(RecordKind& kind, SortReport& report) const {
  const RunCounts counts = kind.counts();
  report.runs = counts.runs;
  report.merges = counts.merges;
  report.passes = counts.passes;
  report.run_bytes = counts.bytes;
  const auto count = [&report](const DiskStatistics& disk) {
    report.read_bytes += disk.read_bytes;
    report.written_bytes += disk.written_bytes;
  };
  count(files_.disk_statistics());
  for (const RunStoreDiskStatistics& part : kind.runs().disks()) {
    count(part.disk);
    // A run that is the output was not written beside it.
    report.folder_bytes.push_back(counts.bytes == 0 ? 0 : part.disk.written_bytes);
  }
}

void FileSort::count_overlap(SortReport& report) {
  activity_.begin_phase(static_cast<unsigned>(SortPhase::kWriting));  // counts what has passed
  for (unsigned phase = 0; phase < report.overlap.size(); ++phase) {
    const ActivityLog::Totals totals = activity_.totals(phase);
    const auto seconds = [](std::uint64_t ns) { return 1e-9 * static_cast<double>(ns); };
    report.overlap[phase] = {.seconds = seconds(totals.all_ns),
                             .disks = seconds(totals.disks_ns),
                             .threads = seconds(totals.threads_ns),
                             .both = seconds(totals.both_ns),
                             .sum_of_disks = seconds(totals.sum_disks_ns),
                             .sum_of_threads = seconds(totals.sum_threads_ns)};
  }
}

}}  // namespace vortex::v0

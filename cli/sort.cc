// vortex sort: files of records in order.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupt.h"
#include "cli/open_files.h"
#include "cli/progress_line.h"
#include "cli/sort_lines.h"
#include "cli/sort_options.h"
#include "cli/verbs.h"
#include "sort/job/disk_bound.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/process_memory.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {
namespace {

RecordFormat format_of(const SortOptions& options) {
  if (options.records.empty()) {
    throw Error(EINVAL,
                "how long is a record? Give --record BYTES, or --form; for text, --lines or --csv");
  }
  return parse_record_options(options.records, "");
}

ExternalSortOptions external_sort_options(const SortOptions& options) {
  expect_places(options);
  ExternalSortOptions result{.format = format_of(options)};
  result.inputs = options.inputs;
  result.output = options.output;
  result.resources = sort_resources(options);
  result.unique = options.unique;
  result.merge_inputs = options.merge;
  result.trace = options.trace;
  return result;
}

double bytes_per_second(const ExternalSortReport& report) {
  return static_cast<double>(report.records_in * report.record_bytes) /
         std::max(report.seconds, 1e-9);
}

// How many times as long as the disks need the sort took.
double times_io_bound(const ExternalSortReport& report, double io_bound_seconds) {
  return report.seconds / std::max(io_bound_seconds, 1e-9);
}

double cpu_seconds_per_gib(const ExternalSortReport& report) {
  constexpr double kGiB = 1 << 30;
  const auto bytes = static_cast<double>(report.records_in * report.record_bytes);
  return bytes == 0 ? 0 : report.cpu_seconds / (bytes / kGiB);
}

// The phases that the sort had, in their order.
std::vector<SortPhase> phases_of(const ExternalSortReport& report) {
  std::vector<SortPhase> phases;
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kMerging, SortPhase::kWriting}) {
    // A sort that only merges opens its files in the first one.
    const double seconds = report.overlap[static_cast<unsigned>(phase)].seconds;
    if (seconds > 0.01 * report.seconds) phases.push_back(phase);
  }
  return phases;
}

double share(double part, double whole) { return part / std::max(whole, 1e-9); }

nlohmann::ordered_json overlap_json(const ExternalSortReport& report) {
  nlohmann::ordered_json json;
  for (const SortPhase phase : phases_of(report)) {
    const SortOverlap& overlap = report.overlap[static_cast<unsigned>(phase)];
    json[std::string(to_string(phase))] = {
        {"seconds", overlap.seconds},
        {"disks_busy", share(overlap.disks, overlap.seconds)},
        {"threads_busy", share(overlap.threads, overlap.seconds)},
        {"both_busy", share(overlap.both, overlap.seconds)},
        {"mean_disks_busy", share(overlap.sum_of_disks, overlap.seconds)},
        {"mean_threads_busy", share(overlap.sum_of_threads, overlap.seconds)},
    };
  }
  return json;
}

std::string overlap_line(const ExternalSortReport& report) {
  std::string line;
  for (const SortPhase phase : phases_of(report)) {
    const SortOverlap& overlap = report.overlap[static_cast<unsigned>(phase)];
    const auto percent = [&](double part) { return 100 * share(part, overlap.seconds); };
    line += fmt::format("{}{}: disks {:.0f} %, threads {:.0f} % ({:.1f} at a time), both {:.0f} %",
                        line.empty() ? "" : "; ", to_string(phase), percent(overlap.disks),
                        percent(overlap.threads), share(overlap.sum_of_threads, overlap.seconds),
                        percent(overlap.both));
  }
  return line;
}

void print_json(const SortPlan& plan) {
  const auto known = [](bool is_known, std::uint64_t number) {
    return is_known ? nlohmann::ordered_json(number) : nlohmann::ordered_json();
  };
  const bool length_known = plan.request.bytes.has_value();
  nlohmann::ordered_json json = {
      {"kind", "vortex sort plan"},
      {"input_bytes", known(length_known, plan.request.bytes.value_or(0))},
      {"record_bytes", plan.request.record_bytes},
      {"memory_bytes", plan.request.memory_bytes},
      {"block_bytes", plan.block_bytes},
      {"pool_blocks", plan.pool_blocks},
  };
  if (plan.merged_inputs != 0) {
    json["merged_inputs"] = plan.merged_inputs;
    json["inputs_at_a_time"] = plan.plain_merge_order();
    json["passes"] = plan.passes;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  json.update(nlohmann::ordered_json{
      {"buckets", plan.formation.buckets},
      {"bucket_blocks", plan.bucket_blocks},
      {"scratch_bytes", plan.formation.scratch_bytes},
      {"forecast_memory_bytes", plan.forecast_memory_bytes},
      {"least_run_bytes", plan.least_run_bytes()},
      {"in_memory", plan.in_memory()},
  });
  if (!plan.in_memory()) {
    const MergeBuffers buffers = plan.merge_buffers(plan.merge_order);
    json["most_runs"] = known(length_known, plan.runs);
    json["passes"] = known(length_known, plan.passes);
    json["merge_order"] = plan.merge_order;
    json["read_buffers"] = buffers.read_buffers;
    json["write_requests"] = buffers.writer.write_behind;
    json["write_request_bytes"] = buffers.writer.request_bytes;
    json["prefetch"] = prefetch_kind_name(plan.request.prefetch);
    json["disks"] = plan.request.disks;
  }
  fmt::print("{}\n", json.dump(2));
}

void print_json(std::FILE* out, const ExternalSortOptions& what, const ExternalSortReport& report,
                const std::optional<DiskBound>& bound) {
  nlohmann::ordered_json json = {
      {"kind", "vortex sort"},
      {"format", to_string(*what.format)},
      {"records_in", report.records_in},
      {"records_out", report.records_out},
      {"record_bytes", report.record_bytes},
      {"memory_bytes", what.resources.memory_bytes},
      {"block_bytes", report.plan.block_bytes},
      {"runs", report.runs},
      {"merges", report.merges},
      {"passes", report.passes},
      {"run_bytes", report.run_bytes},
      {"folder_bytes", report.folder_bytes},
      {"read_bytes", report.read_bytes},
      {"written_bytes", report.written_bytes},
      {"io_bytes", report.io_bytes()},
      {"least_io_bytes", report.least_io_bytes},
      {"cpu_seconds", report.cpu_seconds},
      {"cpu_seconds_per_gib", cpu_seconds_per_gib(report)},
      {"run_formation_seconds", report.run_formation_seconds},
      {"merge_seconds", report.merge_seconds},
      {"seconds", report.seconds},
      {"bytes_per_second", bytes_per_second(report)},
      {"overlap", overlap_json(report)},
      {"peak_resident_bytes", process_memory().peak_resident_bytes},
  };
  if (bound) {
    const double seconds = bound->seconds(report);
    json["io_bound_seconds"] = seconds;
    json["times_io_bound"] = times_io_bound(report, seconds);
    json["disks"] = nlohmann::ordered_json::array();
    for (const DiskBound::FileSystem& disk : bound->file_systems()) {
      json["disks"].push_back({{"folder", disk.folder},
                               {"read_bytes_per_second", disk.speed.read},
                               {"write_bytes_per_second", disk.speed.write},
                               {"copy_bytes_per_second", disk.speed.copy}});
    }
  }
  fmt::print(out, "{}\n", json.dump(2));
}

void print(std::FILE* out, const ExternalSortOptions& what, const ExternalSortReport& report,
           const std::optional<DiskBound>& bound) {
  const std::uint64_t bytes = report.records_in * report.record_bytes;
  fmt::print(out, "{}", to_string(report.plan));
  fmt::print(out, "sorted          {} {}, {}\n", report.records_in, to_string(*what.format),
             format_bytes(bytes));
  if (what.unique) fmt::print(out, "left            {} records\n", report.records_out);
  fmt::print(out, "runs made       {}, {} on disk in all, {} merges in {} passes\n", report.runs,
             format_bytes(report.run_bytes), report.merges, report.passes);
  fmt::print(out, "time            {:.3f} s, {:.0f} MB/s; {:.3f} s forming runs, {:.3f} s behind\n",
             report.seconds, bytes_per_second(report) / 1e6, report.run_formation_seconds,
             report.merge_seconds);
  fmt::print(out, "moved           {} by the disks, {} at least\n", format_bytes(report.io_bytes()),
             format_bytes(report.least_io_bytes));
  fmt::print(out, "processor time  {:.3f} s, {:.2f} s a GiB\n", report.cpu_seconds,
             cpu_seconds_per_gib(report));
  fmt::print(out, "busy            {}\n", overlap_line(report));
  if (bound) {
    for (const DiskBound::FileSystem& disk : bound->file_systems()) {
      fmt::print(out, "disk            of {}: reads {:.0f} MB/s, writes {:.0f}, copies {:.0f}\n",
                 disk.folder, disk.speed.read / 1e6, disk.speed.write / 1e6, disk.speed.copy / 1e6);
    }
    const double seconds = bound->seconds(report);
    fmt::print(out,
               "least time      {:.3f} s for the disks; the sort took {:.2f} times that, and "
               "{:.2f} s of the processors a GiB\n",
               seconds, times_io_bound(report, seconds), cpu_seconds_per_gib(report));
  }
  fmt::print(out, "peak memory     {}\n", format_bytes(process_memory().peak_resident_bytes));
}

}  // namespace

int sort(const SortOptions& options) {
  if (options.lines.wanted()) return sort_lines(options);
  expect_no_line_options(options.lines);
  ExternalSortOptions what = external_sort_options(options);
  std::FILE* const out = options.output == "-" ? stderr : stdout;
  allow_many_open_files();
  // Made before a plan that is only shown, too: its thread takes address space, which is then gone
  // for that plan as it is for the sort.
  Interrupt interrupt;
  what.resources.stop = interrupt.token();
  interrupt.end_process_or([&] {
    if (options.plan) {
      const SortPlan plan = plan_external_sort(what);
      if (options.json) {
        print_json(plan);
      } else {
        fmt::print("{}", to_string(plan));
      }
      return;
    }
    ProgressLine line("vortex sort", options.progress);
    if (line.wanted())
      what.resources.progress = [&line](const SortProgress& now) { line.show(now); };
    std::optional<DiskBound> disks;
    if (options.bound) disks.emplace(what);
    const ExternalSortReport report = external_sort(what);
    line.finish();
    if (options.json) print_json(out, what, report, disks);
    if (options.verbose) print(stderr, what, report, disks);
  });
  return kExitGood;
}

}  // namespace vortex::cli

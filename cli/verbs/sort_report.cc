#include "cli/verbs/sort_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "vortex/error.h"
#include "vortex/memory_budget.h"

namespace vortex::cli {

namespace {

double bytes_per_second(const SortReport& report) {
  return static_cast<double>(report.input_bytes) / std::max(report.seconds, 1e-9);
}

// How many times as long as the disks need the sort took.
double times_io_bound(const SortReport& report, double io_bound_seconds) {
  return report.seconds / std::max(io_bound_seconds, 1e-9);
}

double cpu_seconds_per_gib(const SortReport& report) {
  constexpr double kGiB = 1 << 30;
  const auto bytes = static_cast<double>(report.input_bytes);
  return bytes == 0 ? 0 : report.cpu_seconds / (bytes / kGiB);
}

// The phases that the sort had, in their order.
std::vector<SortPhase> phases_of(const SortReport& report) {
  std::vector<SortPhase> phases;
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kMerging, SortPhase::kWriting}) {
    // A sort that only merges opens its files in the first one.
    const double seconds = report.overlap[static_cast<unsigned>(phase)].seconds;
    if (seconds > 0.01 * report.seconds) phases.push_back(phase);
  }
  return phases;
}

double share(double part, double whole) { return part / std::max(whole, 1e-9); }

nlohmann::ordered_json overlap_json(const SortReport& report) {
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

std::string overlap_line(const SortReport& report) {
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

void print_disks(std::FILE* out, const DiskBound& bound) {
  for (const DiskBound::FileSystem& disk : bound.file_systems()) {
    fmt::print(out, "disk            of {}: reads {:.0f} MB/s, writes {:.0f}, copies {:.0f}\n",
               disk.folder, disk.speed.read / 1e6, disk.speed.write / 1e6, disk.speed.copy / 1e6);
  }
}

}  // namespace

nlohmann::ordered_json known(std::optional<std::uint64_t> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

void add_report(nlohmann::ordered_json& json, const SortReport& report,
                const std::optional<DiskBound>& bound) {
  json.update(nlohmann::ordered_json{
      {"runs", report.runs},
      {"merges", report.merges},
      {"passes", report.passes},
      {"merge_parts", report.merge_parts},
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
  });
  if (!bound) return;
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

void print_report(std::FILE* out, const SortReport& report, const std::optional<DiskBound>& bound) {
  fmt::print(out, "runs made       {}, {} on disk in all, {} {} in {} {}\n", report.runs,
             format_bytes(report.run_bytes), report.merges, report.merges == 1 ? "merge" : "merges",
             report.passes, report.passes == 1 ? "pass" : "passes");
  fmt::print(out,
             "time            {:.3f} s, {:.0f} MB/s; {:.3f} s forming runs, then {:.3f} s merging "
             "and writing\n",
             report.seconds, bytes_per_second(report) / 1e6, report.run_formation_seconds,
             report.merge_seconds);
  fmt::print(out, "moved           {} by the disks; the least for this memory is {}\n",
             format_bytes(report.io_bytes()), format_bytes(report.least_io_bytes));
  fmt::print(out, "processor time  {:.3f} s, {:.2f} s a GiB\n", report.cpu_seconds,
             cpu_seconds_per_gib(report));
  const std::string busy = overlap_line(report);
  if (!busy.empty()) fmt::print(out, "busy            {}\n", busy);
  if (bound) {
    print_disks(out, *bound);
    const double seconds = bound->seconds(report);
    fmt::print(out,
               "least time      {:.3f} s for the disks; the sort took {:.2f} times that, and "
               "{:.2f} s of the processors a GiB\n",
               seconds, times_io_bound(report, seconds), cpu_seconds_per_gib(report));
  }
  fmt::print(out, "peak memory     {}\n", format_bytes(process_memory().peak_resident_bytes));
}

}  // namespace vortex::cli

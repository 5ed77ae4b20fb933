#include "cli/sort_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/interrupt.h"
#include "cli/line_options.h"
#include "cli/open_files.h"
#include "cli/progress_line.h"
#include "cli/sort_options.h"
#include "lines/small_line_files.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/process_memory.h"

namespace vortex::cli {
namespace {

// Options of records alone, where lines are sorted.
void expect_options_for_lines(const SortOptions& options) {
  const auto refuse = [](bool given, const char* name) {
    if (given) {
      throw Error(EINVAL, fmt::format("{} is for records of one length, not for lines", name));
    }
  };
  refuse(!options.records.form.empty(), "--form");
  refuse(!options.records.record.empty(), "--record");
  refuse(options.plan, "--plan");
  refuse(options.bound, "--bound");
  refuse(!options.trace.empty(), "--trace");
}

LineSortOptions line_sort_options(const SortOptions& options) {
  expect_places(options);
  expect_options_for_lines(options);
  LineSortOptions result;
  result.framing = line_framing(options.lines);
  result.order = parse_line_order(options.lines, options.records.keys, options.inputs,
                                  options.records.reverse, options.stable, options.unique);
  result.inputs = options.inputs;
  result.output = options.output;
  result.header_records = options.lines.header;
  result.merge_inputs = options.merge;
  result.resources = sort_resources(options);
  return result;
}

double bytes_per_second(const LineSortReport& report) {
  return static_cast<double>(report.input_bytes) / std::max(report.seconds, 1e-9);
}

void print_json(std::FILE* out, const LineSortReport& report) {
  const nlohmann::ordered_json json = {
      {"kind", "vortex sort of lines"},
      {"records_in", report.records_in},
      {"records_out", report.records_out},
      {"input_bytes", report.input_bytes},
      {"output_bytes", report.output_bytes},
      {"invalid_records", report.invalid_records},
      {"runs", report.runs},
      {"merges", report.merges},
      {"passes", report.passes},
      {"merge_parts", report.merge_parts},
      {"run_bytes", report.run_bytes},
      {"cpu_seconds", report.cpu_seconds},
      {"run_formation_seconds", report.run_formation_seconds},
      {"merge_seconds", report.merge_seconds},
      {"seconds", report.seconds},
      {"bytes_per_second", bytes_per_second(report)},
      {"peak_resident_bytes", process_memory().peak_resident_bytes},
  };
  fmt::print(out, "{}\n", json.dump(2));
}

void print(std::FILE* out, const LineSortReport& report) {
  fmt::print(out, "sorted          {} lines, {}\n", report.records_in,
             format_bytes(report.input_bytes));
  if (report.records_out != report.records_in) {
    fmt::print(out, "left            {} lines\n", report.records_out);
  }
  if (report.invalid_records != 0) {
    fmt::print(out, "invalid         {} records, whose quotes are not as RFC 4180 has them\n",
               report.invalid_records);
  }
  fmt::print(out, "runs made       {}, {} on disk in all, {} merges in {} passes\n", report.runs,
             format_bytes(report.run_bytes), report.merges, report.passes);
  fmt::print(out, "time            {:.3f} s, {:.0f} MB/s; {:.3f} s forming runs, {:.3f} s behind\n",
             report.seconds, bytes_per_second(report) / 1e6, report.run_formation_seconds,
             report.merge_seconds);
  fmt::print(out, "processor time  {:.3f} s\n", report.cpu_seconds);
  fmt::print(out, "peak memory     {}\n", format_bytes(process_memory().peak_resident_bytes));
}

// For all sizes.
LineSortReport sort_any(LineSortOptions& what, SmallLineFiles& small, ProgressLine& line) {
  allow_many_open_files();
  Interrupt interrupt;
  what.resources.stop = interrupt.token();
  return interrupt.end_process_or([&] {
    if (line.wanted())
      what.resources.progress = [&line](const SortProgress& now) { line.show(now); };
    const LineSortReport report = vortex::sort_lines(what, small.begun());
    line.finish();
    return report;
  });
}

}  // namespace

int sort_lines(const SortOptions& options) {
  LineSortOptions what = line_sort_options(options);
  ProgressLine line("vortex sort", options.progress);
  // A signal ends the process then as it ends any other.
  SmallLineFiles small(what);
  const std::optional<LineSortReport> done = options.progress ? std::nullopt : small.sort();
  const LineSortReport report = done ? *done : sort_any(what, small, line);
  warn_of_unclosed(report);
  if (options.json) print_json(options.output == "-" ? stderr : stdout, report);
  if (options.verbose) print(stderr, report);
  return kExitGood;
}

}  // namespace vortex::cli

// vortex sort --lines and --csv.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/interrupt.h"
#include "cli/common/process.h"
#include "cli/common/progress_line.h"
#include "cli/records/line_options.h"
#include "cli/verbs/sort_options.h"
#include "cli/verbs/sort_report.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::cli {

namespace {

LineSortOptions line_sort_options(const SortOptions& options) {
  expect_places(options);
  LineSortOptions result =
      parse_lines(options.lines, options.records, options.inputs, options.stable, options.unique);
  result.output = options.output;
  result.merge_inputs = options.merge;
  result.trace = options.trace;
  result.resources = sort_resources(options);
  return result;
}

void print_plan_json(const SortPlan& plan) {
  nlohmann::ordered_json json = {
      {"kind", "vortex plan of a sort of lines"},
      {"input_bytes", known(plan.input_bytes)},
      {"memory_bytes", plan.memory_bytes},
      {"threads", plan.threads},
      {"request_cost_bytes", plan.request_cost_bytes},
      {"block_bytes", plan.block_bytes},
      {"pool_blocks", plan.pool_blocks},
      {"arena_bytes", plan.arena_bytes},
      {"longest_record", plan.longest_record},
      {"merge_order", plan.merge_order},
      {"prefetch", prefetch_kind_name(plan.prefetch)},
      {"disks", plan.disks},
  };
  if (plan.first_records != 0) json["first_records"] = plan.first_records;
  if (plan.merged_inputs != 0) {
    json["merged_inputs"] = plan.merged_inputs;
    json["inputs_in_blocks"] = plan.inputs_in_blocks;
  }
  fmt::print("{}\n", json.dump(2));
}

int show_plan(const LineSortOptions& what, bool as_json) {
  allow_many_open_files();
  const SortPlan plan = plan_line_sort(what);
  if (as_json) {
    print_plan_json(plan);
  } else {
    fmt::print("{}", to_string(plan));
  }
  return kExitGood;
}

void print_report_json(std::FILE* out, const SortReport& report,
                       const std::optional<DiskBound>& bound) {
  nlohmann::ordered_json json = {
      {"kind", "vortex sort of lines"},      {"records_in", report.records_in},
      {"records_out", report.records_out},   {"input_bytes", report.input_bytes},
      {"output_bytes", report.output_bytes}, {"invalid_records", report.invalid_records},
  };
  add_report(json, report, bound);
  fmt::print(out, "{}\n", json.dump(2));
}

void print(std::FILE* out, const SortReport& report, const std::optional<DiskBound>& bound) {
  if (report.plan.pool_blocks != 0) fmt::print(out, "{}", to_string(report.plan));
  fmt::print(out, "sorted          {} lines, {}\n", report.records_in,
             format_bytes(report.input_bytes));
  if (report.records_out != report.records_in) {
    fmt::print(out, "left            {} lines\n", report.records_out);
  }
  if (report.invalid_records != 0) {
    fmt::print(out, "invalid         {} records, whose quotes are not as RFC 4180 has them\n",
               report.invalid_records);
  }
  print_report(out, report, bound);
}

}  // namespace

int sort_lines(const SortOptions& options) {
  LineSortOptions what = line_sort_options(options);
  if (options.plan) return show_plan(what, options.json);
  std::optional<DiskBound> disks;
  if (options.bound) disks.emplace(what.inputs, what.output, what.resources, what.merge_inputs);
  ProgressLine line("vortex sort", options.progress);
  const auto show = [&line](const SortProgress& now) { line.show(now); };
  if (options.progress) what.resources.progress = show;
  Interrupt interrupt;
  // A signal ends a sort that is over before this as it ends any process.
  what.before_threads = [&](SortResources& resources) {
    allow_many_open_files();
    resources.stop = interrupt.start();
    if (line.wanted()) resources.progress = show;
  };
  const SortReport report = interrupt.end_process_or([&] { return vortex::sort_lines(what); });
  line.finish();
  warn_of_unclosed(report);
  if (options.json) print_report_json(options.output == "-" ? stderr : stdout, report, disks);
  if (options.verbose) print(stderr, report, disks);
  return kExitGood;
}

}  // namespace vortex::cli

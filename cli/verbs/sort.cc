// vortex sort: files of records in order.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/common/interrupt.h"
#include "cli/common/process.h"
#include "cli/common/progress_line.h"
#include "cli/verbs/sort_options.h"
#include "cli/verbs/sort_report.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
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

void print_json(const SortPlan& plan) {
  nlohmann::ordered_json json = {
      {"kind", "vortex sort plan"},        {"input_bytes", known(plan.input_bytes)},
      {"record_bytes", plan.record_bytes}, {"memory_bytes", plan.memory_bytes},
      {"block_bytes", plan.block_bytes},   {"pool_blocks", plan.pool_blocks},
  };
  if (plan.first_records != 0) json["first_records"] = plan.first_records;
  if (plan.merged_inputs != 0) {
    json["merged_inputs"] = plan.merged_inputs;
    json["inputs_at_a_time"] = plan.inputs_in_blocks;
    json["passes"] = plan.passes;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  json.update(nlohmann::ordered_json{
      {"buckets", plan.buckets},
      {"bucket_blocks", plan.bucket_blocks},
      {"scratch_bytes", plan.scratch_bytes},
      {"forecast_memory_bytes", plan.forecast_memory_bytes},
      {"least_run_bytes", plan.least_run_bytes},
      {"in_memory", plan.in_memory()},
  });
  if (!plan.in_memory()) {
    const auto if_length_known = [&](std::uint64_t number) {
      return known(plan.input_bytes ? std::optional(number) : std::nullopt);
    };
    json["expected_runs"] = if_length_known(plan.expected_runs);
    json["most_runs"] = if_length_known(plan.runs);
    json["expected_passes"] = if_length_known(plan.expected_passes);
    json["passes"] = if_length_known(plan.passes);
    json["kept_bytes"] = if_length_known(plan.kept_bytes);
    json["pass_order"] = if_length_known(plan.pass_order);
    json["pass_parts"] = if_length_known(plan.pass_parts);
    json["merge_order"] = plan.merge_order;
    json["merge_parts"] = plan.merge_parts;
    json["read_buffers"] = plan.read_buffers;
    json["write_requests"] = plan.write_requests;
    json["write_request_bytes"] = plan.write_request_bytes;
    json["prefetch"] = prefetch_kind_name(plan.prefetch);
    json["disks"] = plan.disks;
  }
  fmt::print("{}\n", json.dump(2));
}

void print_json(std::FILE* out, const ExternalSortOptions& what, const SortReport& report,
                const std::optional<DiskBound>& bound) {
  nlohmann::ordered_json json = {
      {"kind", "vortex sort"},
      {"format", to_string(*what.format)},
      {"records_in", report.records_in},
      {"records_out", report.records_out},
      {"record_bytes", report.plan.record_bytes},
      {"memory_bytes", what.resources.memory_bytes},
      {"block_bytes", report.plan.block_bytes},
  };
  add_report(json, report, bound);
  fmt::print(out, "{}\n", json.dump(2));
}

void print(std::FILE* out, const ExternalSortOptions& what, const SortReport& report,
           const std::optional<DiskBound>& bound) {
  fmt::print(out, "{}", to_string(report.plan));
  fmt::print(out, "sorted          {} {}, {}\n", report.records_in, to_string(*what.format),
             format_bytes(report.input_bytes));
  if (report.records_out != report.records_in) {
    fmt::print(out, "left            {} records\n", report.records_out);
  }
  print_report(out, report, bound);
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
  what.resources.stop = interrupt.start();
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
    if (options.bound) disks.emplace(what.inputs, what.output, what.resources, what.merge_inputs);
    const SortReport report = external_sort(what);
    line.finish();
    if (options.json) print_json(out, what, report, disks);
    if (options.verbose) print(stderr, what, report, disks);
  });
  return kExitGood;
}

}  // namespace vortex::cli

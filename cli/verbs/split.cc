// vortex split: files of records divided into files by ranges of keys.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/common/interrupt.h"
#include "cli/common/process.h"
#include "cli/common/progress_line.h"
#include "cli/verbs/sort_options.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/file_reader.h"

namespace vortex::cli {

namespace {

std::vector<std::byte> splitters_in(const std::string& path) {
  std::vector<std::byte> splitters;
  const FileReader<std::byte> file(path);
  guarded([&] { splitters.assign(file.data(), file.data() + file.size()); }).throw_if_failed();
  if (!splitters.empty()) return splitters;
  throw Error(EINVAL, "'" + path + "' holds no splitter");
}

ExternalPartitionOptions partition_options(const SplitOptions& options) {
  const SortOptions& sort = options.sort;
  if (sort.records.empty()) {
    throw Error(EINVAL, "how long is a record? Give --record BYTES, or --form");
  }
  if (options.splitters.empty() == (options.parts == 0)) {
    throw Error(EINVAL, "how are they divided? Give --parts, or --splitters FILE");
  }
  if (std::count(sort.inputs.begin(), sort.inputs.end(), "-") > 1) {
    throw Error(EINVAL, "standard input can be read once only");
  }
  ExternalPartitionOptions result;
  result.inputs = sort.inputs;
  result.prefix = sort.output;
  result.format = parse_record_options(sort.records, "");
  result.parts = options.parts;
  if (!options.splitters.empty()) result.splitters = splitters_in(options.splitters);
  result.divide_equal_keys = options.divide_equal;
  result.resources = sort_resources(sort);
  if (!result.resources.folder_speeds.empty()) {
    throw Error(EINVAL, "a part lies in one folder, whatever its speed is: give --disk DIR");
  }
  return result;
}

void print_json(const ExternalPartitionOptions& what, const ExternalPartitionReport& report) {
  nlohmann::ordered_json json = {
      {"kind", "vortex split"},
      {"format", to_string(*what.format)},
      {"records", report.records},
      {"bytes", report.bytes},
      {"sampled_records", report.sampled_records},
      {"memory_bytes", what.resources.memory_bytes},
      {"block_bytes", report.block_bytes},
      {"pool_blocks", report.pool_blocks},
      {"read_bytes", report.read_bytes},
      {"written_bytes", report.written_bytes},
      {"faults", report.faults},
      {"cpu_seconds", report.cpu_seconds},
      {"seconds", report.seconds},
      {"peak_resident_bytes", process_memory().peak_resident_bytes},
      {"parts", nlohmann::ordered_json::array()},
  };
  for (const PartReport& part : report.parts) {
    json["parts"].push_back(
        {{"path", part.path}, {"records", part.records}, {"bytes", part.bytes}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print(const ExternalPartitionReport& report) {
  for (const PartReport& part : report.parts) {
    fmt::print("{}  {} records, {}\n", part.path, part.records, format_bytes(part.bytes));
  }
  fmt::print("divided  {} records, {}, in {:.3f} s, {:.0f} MB/s\n", report.records,
             format_bytes(report.bytes), report.seconds,
             static_cast<double>(report.bytes) / std::max(report.seconds, 1e-9) / 1e6);
}

}  // namespace

int split(const SplitOptions& options) {
  ExternalPartitionOptions what = partition_options(options);
  allow_many_open_files();
  Interrupt interrupt;
  what.resources.stop = interrupt.start();
  interrupt.end_process_or([&] {
    ProgressLine line("vortex split", options.sort.progress);
    if (line.wanted()) {
      what.resources.progress = [&line](const SortProgress& now) {
        line.show("dividing", now.bytes, now.phase_bytes);
      };
    }
    const ExternalPartitionReport report = external_partition(what);
    line.finish();
    if (options.sort.json) print_json(what, report);
    if (options.sort.verbose) print(report);
  });
  return kExitGood;
}

}  // namespace vortex::cli

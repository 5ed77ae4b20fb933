// Sorts of files, and divisions, as whole jobs.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sort/sort_cases.h"
#include "tests/trust/jobs/whole_job.h"
#include "vortex/disk.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"

namespace vortex::test {

struct SortShape {
  std::string name;
  bool lines = false;
  bool runs = false;
  bool pipe = false;
  bool merge = false;     // two sorted inputs
  bool in_place = false;  // the output's contents are replaced
  bool unique = false;    // by more threads: branches merge the runs
  bool csv = false;       // lines, by their first column
  DiskBackend backend = DiskBackend::kBest;
};

// Runs are what the job is about.
inline void expect_runs(const SortShape& shape, const SortReport& report) {
  if ((shape.runs != (report.runs > 1) && !shape.merge) || (shape.unique && report.runs < 6)) {
    throw std::logic_error("a sort with " + std::to_string(report.runs) + " runs");
  }
}

inline void order_by(const SortShape& shape, LineSortOptions& options) {
  LineKeyOptions keys;
  if (shape.csv) {
    keys.keys = {"1"};
    keys.fields = FieldRules::kCsv;
    options.framing = RecordFraming::quoted();
  }
  options.order = line_order(keys);
  options.order.unique = shape.unique;
}

// Calls use(options) with those of either kind of records.
template <typename Use>
void with_options(const Place& place, const SortShape& shape, std::uint64_t memory_bytes,
                  const std::vector<std::string>& inputs, const Use& use) {
  const auto use_with_files = [&](auto options) {
    options.inputs = inputs;
    options.output = place.output();
    options.merge_inputs = shape.merge;
    options.resources = job_resources(place, memory_bytes, shape.backend);
    if (shape.unique) options.resources.threads = 4;
    if constexpr (requires { options.order.keys; }) order_by(shape, options);
    if (shape.in_place) options.resources.output_in_place = InPlace::kAlways;
    if (shape.pipe && shape.lines) options.resources.compression = RunCompression::kAlways;
    use(options);
  };
  if (shape.lines) {
    use_with_files(LineSortOptions{});
  } else {
    ExternalSortOptions options;
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    use_with_files(options);
  }
}

struct SortFiles {
  SortReport operator()(const LineSortOptions& options) const { return sort_lines(options); }
  SortReport operator()(const ExternalSortOptions& options) const { return external_sort(options); }
};
struct PlanFiles {
  void operator()(const LineSortOptions& options) const { plan_line_sort(options); }
  void operator()(const ExternalSortOptions& options) const { plan_external_sort(options); }
};

inline void sort_at(const Place& place, const SortShape& shape, std::uint64_t memory_bytes,
                    const std::vector<std::string>& inputs) {
  with_options(place, shape, memory_bytes, inputs,
               [&](const auto& options) { expect_runs(shape, SortFiles()(options)); });
}

inline std::uint64_t memory_for(const Place& place, const SortShape& shape) {
  if (!shape.runs && !shape.merge) return 8 << 20;
  if (shape.unique) return 1 << 20;
  return least_memory([&](std::uint64_t bytes) {
    const std::vector<std::string> pipe = {"/dev/zero"};
    with_options(place, shape, bytes, shape.pipe ? pipe : place.paths(), PlanFiles());
  });
}

inline WholeJob sort_job(const SortShape& shape, std::mt19937_64& random) {
  const auto place = std::make_shared<Place>();
  const std::size_t bytes = shape.lines && shape.runs && !shape.pipe ? 3 << 19 : 1 << 19;
  std::string all;
  for (int i = 0; i < (shape.merge ? 2 : shape.pipe && shape.lines ? 3 : 1); ++i) {
    std::string input =
        shape.lines ? random_lines(bytes, random) : random_numbers(bytes / 8, random);
    all += input;
    if (shape.merge) input = shape.lines ? sorted_lines(input) : sorted_numbers(input);
    place->add_input(std::move(input));
  }
  const std::string expected = shape.lines ? sorted_lines(all) : sorted_numbers(all);
  const std::uint64_t memory = memory_for(*place, shape);
  const auto pipes = std::make_shared<std::vector<std::unique_ptr<FullPipe>>>();
  WholeJob job;
  job.name = shape.name;
  job.prepare = [=] {
    place->restore();
    for (std::size_t i = 0; shape.pipe && i < place->paths().size(); ++i) {
      pipes->push_back(std::make_unique<FullPipe>(place->input(i)));
    }
  };
  job.run = [=] {
    std::vector<std::string> paths = place->paths();
    for (std::size_t i = 0; i < pipes->size(); ++i) paths[i] = (*pipes)[i]->path();
    sort_at(*place, shape, memory, paths);
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) {
    pipes->clear();
    // What is replaced in place may be a part then.
    if (shape.in_place && !ended_well) place->restore();
    return place->complaint(ended_well, expected, files_may_stay);
  };
  return job;
}

// Parts by given splitters. Where a name cannot be taken, those in front of it stay.
inline WholeJob division_job(std::mt19937_64& random) {
  static constexpr std::uint64_t kSplitters[] = {25'000, 50'000, 75'000};
  const auto place = std::make_shared<Place>();
  place->add_input(random_numbers(std::size_t{1} << 15, random));
  std::vector<std::string> parts(std::size(kSplitters) + 1);
  for (std::size_t at = 0; at < place->input().size(); at += 8) {
    std::uint64_t number = 0;
    std::memcpy(&number, place->input().data() + at, 8);
    const auto* const part = std::upper_bound(std::begin(kSplitters), std::end(kSplitters), number);
    parts[static_cast<std::size_t>(part - kSplitters)] += place->input().substr(at, 8);
  }
  const auto path_of = [=](std::size_t part) {
    return place->output() + ".0000" + std::to_string(part);
  };
  WholeJob job;
  job.name = "Division";
  job.quick = true;
  job.run = [=] {
    ExternalPartitionOptions options;
    options.inputs = place->paths();
    options.prefix = place->output();
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    const auto splitters = std::as_bytes(std::span(kSplitters));
    options.splitters.assign(splitters.begin(), splitters.end());
    options.resources = job_resources(*place, 8 << 20);
    options.resources.folders.clear();
    external_partition(options);
  };
  job.complaint = [=](bool ended_well, bool files_may_stay) -> std::string {
    std::string wrong;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const bool there = access(path_of(part).c_str(), F_OK) == 0;
      if (there ? Place::text(path_of(part)) != parts[part] : ended_well) {
        wrong = "part " + std::to_string(part) + (there ? " is not whole" : " is not there");
      }
      unlink(path_of(part).c_str());
    }
    return wrong.empty() ? place->complaint(false, {}, files_may_stay) : wrong;
  };
  return job;
}

inline const std::vector<SortShape>& sort_shapes() {
  static const std::vector<SortShape> shapes = {
      {.name = "RecordsInMemory"},
      {.name = "RecordsWithRuns", .runs = true},
      {.name = "RecordsWithRunsByThreads", .runs = true, .backend = DiskBackend::kThreads},
      {.name = "RecordsOfAPipe", .runs = true, .pipe = true},
      {.name = "RecordsMerged", .merge = true},
      {.name = "RecordsInPlace", .in_place = true},
      {.name = "LinesInMemory", .lines = true},
      {.name = "LinesWithRuns", .lines = true, .runs = true},
      {.name = "LinesWithRunsByThreads",
       .lines = true,
       .runs = true,
       .backend = DiskBackend::kThreads},
      {.name = "UniqueLinesWithRuns", .lines = true, .runs = true, .unique = true},
      {.name = "LinesOfAPipe", .lines = true, .runs = true, .pipe = true},
      {.name = "LinesMerged", .lines = true, .merge = true},
      {.name = "Csv", .lines = true, .csv = true},
  };
  return shapes;
}

}  // namespace vortex::test

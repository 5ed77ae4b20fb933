// Sorts of files, and whether they are sorted.
#include <vortex/error.h>
#include <vortex/external_sort.h>
#include <vortex/file_reader.h>
#include <vortex/line_sort.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "module.h"
#include "sort_calls.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace vortex_python {

namespace {

// OFFSET:LENGTH[:TYPE][:desc], as the program vortex takes it.
KeyTuple parse_key(const std::string& text) {
  const vortex::RecordKey key = vortex::parse_record_key(text);
  const int kind = key.type.kind == vortex::KeyKind::kUnsigned ? 1
                   : key.type.kind == vortex::KeyKind::kSigned ? 2
                   : key.type.kind == vortex::KeyKind::kFloat  ? 3
                                                               : 0;
  return {key.offset, key.length, kind, key.type.byte_order == vortex::ByteOrder::kBigEndian,
          key.descending};
}

constexpr std::size_t kCheckBytes = std::size_t{1} << 20;

// A record sort's counts: records read and written, runs, passes.
using Counts = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, unsigned>;

Counts sort_record_files(std::vector<std::string> inputs, std::string output, std::size_t record,
                         const std::vector<KeyTuple>& keys, bool unique, bool merge,
                         std::uint64_t first, std::uint64_t memory,
                         std::vector<std::string> folders, unsigned threads, nb::object progress) {
  Watch watch(std::move(progress));
  vortex::ExternalSortOptions options{
      .inputs = std::move(inputs),
      .output = std::move(output),
      .format = format_of(record, keys),
      .unique = unique,
      .merge_inputs = merge,
      .resources = resources_of(first, memory, std::move(folders), threads, watch)};
  vortex::SortReport report;
  watch.run([&] { report = vortex::external_sort(options); });
  return {report.records_in, report.records_out, report.runs, report.passes};
}

vortex::LineSortOptions line_options(std::vector<std::string> inputs, const LineKeys& line_keys,
                                     std::uint64_t header, bool stable, bool unique,
                                     vortex::SortResources resources) {
  const std::string& separator = std::get<2>(line_keys);
  vortex::LineSortOptions options{.inputs = std::move(inputs),
                                  .order = order_of_lines(line_keys, stable, unique),
                                  .header_records = header,
                                  .resources = std::move(resources)};
  if (std::get<3>(line_keys)) {
    options.framing = vortex::RecordFraming::quoted('\n', separator.empty() ? ',' : separator[0]);
  }
  return options;
}

Counts sort_line_files(std::vector<std::string> inputs, std::string output,
                       const LineKeys& line_keys, std::uint64_t header, bool stable, bool unique,
                       bool merge, std::uint64_t first, std::uint64_t memory,
                       std::vector<std::string> folders, unsigned threads, nb::object progress) {
  Watch watch(std::move(progress));
  vortex::LineSortOptions options =
      line_options(std::move(inputs), line_keys, header, stable, unique,
                   resources_of(first, memory, std::move(folders), threads, watch));
  options.output = std::move(output);
  options.merge_inputs = merge;
  vortex::SortReport report;
  watch.run([&] { report = vortex::sort_lines(options); });
  return {report.records_in, report.records_out, report.runs, report.passes};
}

// Of the first line that is out of order: its file, its number from 1 on, and its offset.
using Disorder = std::optional<std::tuple<std::string, std::uint64_t, std::uint64_t>>;

Disorder check_line_files(std::vector<std::string> inputs, const LineKeys& line_keys,
                          std::uint64_t header, bool unique, std::uint64_t memory, unsigned threads,
                          nb::object progress) {
  Watch watch(std::move(progress));
  const vortex::LineSortOptions options =
      line_options(std::move(inputs), line_keys, header, true, unique,
                   resources_of(0, memory, {}, threads, watch));
  std::optional<vortex::LineDisorder> found;
  watch.run([&] { found = vortex::check_lines(options); });
  if (!found) return std::nullopt;
  return std::tuple(found->input, found->record, found->offset);
}

// The number, from 0 on, of the first of `count` records, which begin at byte `offset` of a file,
// that must not follow the one in front of it; `count`: there is none.
std::uint64_t check_record_file(const std::string& path, std::uint64_t offset, std::uint64_t count,
                                std::size_t record, const std::vector<KeyTuple>& keys, bool unique,
                                std::uint64_t memory, nb::object progress) {
  Watch watch(std::move(progress));
  const vortex::RecordFormat format = format_of(record, keys);
  std::uint64_t at = 1;
  watch.run([&] {
    const vortex::FileReader<std::byte> file(path, {.memory_bytes = memory});
    if (count > (file.size() - std::min(file.size(), offset)) / record) {
      vortex::throw_error(ENODATA, path + " ends before its last record");
    }
    const std::byte* const records = file.data() + offset;
    const int least = unique ? 0 : 1;
    bool in_order = true;
    while (in_order && at < count) {
      const std::uint64_t end =
          std::min(count, at + std::max(kCheckBytes / record, std::size_t{1}));
      const vortex::Failure failure = vortex::guarded([&] {
        for (; in_order && at < end; at += in_order ? 1 : 0) {
          in_order = format.compare(records + (at - 1) * record, records + at * record) < least;
        }
      });
      failure.throw_if_failed();
      watch.function()({vortex::SortPhase::kReading, at * record, count * record});
    }
  });
  return std::min(at, count);
}

}  // namespace

void bind_sorts(nb::module_& module) {
  module.def("parse_key", &parse_key);
  module.def("sort_record_files", &sort_record_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("sort_line_files", &sort_line_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg().none());
  module.def("check_line_files", &check_line_files, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none());
  module.def("check_record_file", &check_record_file, nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace vortex_python

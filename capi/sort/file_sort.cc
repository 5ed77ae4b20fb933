// External sorts of files.
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "capi/sort/record_format.h"
#include "capi/sort/sort_resources.h"
#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/external_sort.h"
#include "vortex/line_key.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

// The files of the options of either kind of records.
template <typename Options>
Options options_of(const vtx_file_sort* files, const vtx_sort_resources* resources) {
  if (files == nullptr) throw Error(EINVAL, "the names of the files are NULL");
  expect_array(files->inputs, files->input_count, sizeof(*files->inputs), "the inputs");
  Options options;
  for (std::size_t i = 0; i < files->input_count; ++i) {
    options.inputs.push_back(required(files->inputs[i], "the name of an input"));
  }
  options.output = required(files->output, "the name of the output");
  options.merge_inputs = files->merge != 0;
  options.resources = sort_resources_of(resources);
  return options;
}

ExternalSortOptions options_of(const vtx_file_sort* files, const vtx_record_format* format,
                               const vtx_sort_resources* resources) {
  auto options = options_of<ExternalSortOptions>(files, resources);
  options.format = record_format_of(format);
  options.unique = files->unique != 0;
  return options;
}

std::optional<char> separator_of(const vtx_line_format& format) {
  if (format.separator == nullptr) return std::nullopt;
  if (std::strlen(format.separator) == 1) return format.separator[0];
  throw Error(EINVAL,
              "the separator '" + std::string(format.separator) + "' of fields is not one byte");
}

LineOrder order_of(const vtx_line_format& format, bool unique) {
  expect_array(format.keys, format.key_count, sizeof(*format.keys), "the keys");
  LineKeyOptions keys;
  for (std::size_t i = 0; i < format.key_count; ++i) {
    keys.keys.emplace_back(required(format.keys[i], "a key"));
  }
  if (format.letters != nullptr) keys.letters = format.letters;
  if (format.locale != nullptr) keys.locale = format.locale;
  keys.separator = separator_of(format);
  if (format.csv != 0) keys.fields = FieldRules::kCsv;
  keys.stable = format.stable != 0;
  keys.unique = unique;
  return line_order(keys);
}

LineSortOptions options_of(const vtx_file_sort* files, const vtx_line_format* given,
                           const vtx_sort_resources* resources) {
  const vtx_line_format format = given != nullptr ? *given : vtx_line_format{};
  auto options = options_of<LineSortOptions>(files, resources);
  options.order = order_of(format, files->unique != 0);
  const char delimiter = format.zero_terminated != 0 ? '\0' : '\n';
  options.framing = format.csv != 0
                        ? RecordFraming::quoted(delimiter, separator_of(format).value_or(','))
                        : RecordFraming::delimited(delimiter);
  options.header_records = format.header_lines;
  return options;
}

vtx_sort_report report_of(const SortReport& made) noexcept {
  vtx_sort_report report = {};
  report.records_in = made.records_in;
  report.records_out = made.records_out;
  report.runs = made.runs;
  report.merges = made.merges;
  report.passes = made.passes;
  report.run_bytes = made.run_bytes;
  report.read_bytes = made.read_bytes;
  report.written_bytes = made.written_bytes;
  report.seconds = made.seconds;
  report.cpu_seconds = made.cpu_seconds;
  return report;
}

}  // namespace

}}}  // namespace vortex::v0::capi

int vtx_sort_files(const vtx_file_sort* files, const vtx_record_format* format,
                   const vtx_sort_resources* resources, vtx_sort_report* report) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    const vortex::ExternalSortReport made =
        vortex::external_sort(options_of(files, format, resources));
    if (report != nullptr) *report = report_of(made);
  });
}

int vtx_sort_lines(const vtx_file_sort* files, const vtx_line_format* format,
                   const vtx_sort_resources* resources, vtx_sort_report* report) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    const vortex::LineSortReport made = vortex::sort_lines(options_of(files, format, resources));
    if (report != nullptr) *report = report_of(made);
  });
}

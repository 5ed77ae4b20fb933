// External sorts of files.
#include <cstddef>

#include "capi/handle.h"
#include "capi/record_format.h"
#include "capi/sort_resources.h"
#include "vortex/c.h"
#include "vortex/external_sort.h"

namespace vortex::inline v0::capi {
namespace {

ExternalSortOptions options_of(const vtx_file_sort* files, const vtx_record_format* format,
                               const vtx_sort_resources* resources) {
  if (files == nullptr) throw Error(EINVAL, "the names of the files are NULL");
  expect_array(files->inputs, files->input_count, sizeof(*files->inputs), "the inputs");
  ExternalSortOptions options;
  for (std::size_t i = 0; i < files->input_count; ++i) {
    options.inputs.push_back(required(files->inputs[i], "the name of an input"));
  }
  options.output = required(files->output, "the name of the output");
  options.format = record_format_of(format);
  options.unique = files->unique != 0;
  options.merge_inputs = files->merge != 0;
  options.resources = sort_resources_of(resources);
  return options;
}

vtx_sort_report report_of(const ExternalSortReport& made) noexcept {
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
}  // namespace vortex::inline v0::capi

int vtx_sort_files(const vtx_file_sort* files, const vtx_record_format* format,
                   const vtx_sort_resources* resources, vtx_sort_report* report) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    const vortex::ExternalSortReport made =
        vortex::external_sort(options_of(files, format, resources));
    if (report != nullptr) *report = report_of(made);
  });
}

// Sorts of files of records and of lines, and partitions of files.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/sort/sort_options.h"
#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/external_sort.h"
#include "vortex/line_sort.h"
#include "vortex/thread/of_thread.h"

namespace vortex { inline namespace v0 { namespace capi { namespace {

// The files of the options of either kind of records.
template <typename Options, typename Files>
Options files_of(const Files* files, const vtx_sort_resources* resources) {
  if (files == nullptr) throw Error(EINVAL, "the names of the files are NULL");
  auto options = options_of<Options>(files);
  options.resources = sort_resources_of(resources);
  return options;
}

ExternalSortOptions sort_options_of(const vtx_file_sort* files, const vtx_record_format* format,
                                    const vtx_sort_resources* resources) {
  auto options = files_of<ExternalSortOptions>(files, resources);
  required(files->output, "the name of the output");
  options.format = record_format_of(format);
  return options;
}

LineSortOptions sort_options_of(const vtx_file_sort* files, const vtx_line_format* format,
                                const vtx_sort_resources* resources) {
  auto options = files_of<LineSortOptions>(files, resources);
  options.order = line_order_of(format, files->unique != 0);
  options.framing = line_framing_of(format);
  if (format != nullptr) options.header_records = format->header_lines;
  return options;
}

// What a call tells stays with its thread, whose next call of the kind replaces it. A call asks for
// the place before it does what cannot be taken back. Throws std::bad_alloc.
template <typename Told>
Told& place_to_keep() {
  static const OfThread<Told> kept;
  return kept.get();
}
template <typename Told>
Told& keep(Told told) {
  return place_to_keep<Told>() = std::move(told);
}

ExternalPartitionOptions partition_options_of(const vtx_file_partition* files,
                                              const vtx_record_format* format,
                                              const vtx_sort_resources* resources) {
  auto options = files_of<ExternalPartitionOptions>(files, resources);
  options.format = record_format_of(format);
  expect_array(files->splitters, files->splitter_bytes, 1, "the splitters");
  const auto* const splitters = static_cast<const std::byte*>(files->splitters);
  options.splitters.assign(splitters, splitters + files->splitter_bytes);
  return options;
}

void tell_report(const ExternalPartitionReport& made, vtx_partition_report& report) {
  auto& kept = place_to_keep<std::vector<vtx_part_report>>();
  kept.resize(made.parts.size());
  for (std::size_t i = 0; i < kept.size(); ++i) tell_fields(made.parts[i], kept[i]);
  report = {};
  tell_fields(made, report);
  report.parts = kept.data();
  report.part_count = kept.size();
}

void tell_report(SortReport made, vtx_sort_report& report) {
  report = {};
  tell_fields(keep(std::move(made)), report);
}

}  // namespace

}}}  // namespace vortex::v0::capi

using namespace vortex::capi;

int vtx_sort_files(const vtx_file_sort* files, const vtx_record_format* format,
                   const vtx_sort_resources* resources, vtx_sort_report* report) {
  return answer(thread_error(), [&] {
    const auto options = sort_options_of(files, format, resources);
    if (report != nullptr) place_to_keep<vortex::SortReport>();
    auto made = vortex::external_sort(options);
    if (report != nullptr) tell_report(std::move(made), *report);
  });
}

int vtx_plan_files(const vtx_file_sort* files, const vtx_record_format* format,
                   const vtx_sort_resources* resources, const char** text) {
  return answer(thread_error(), [&] {
    expect_place(text);
    *text = keep(to_string(vortex::plan_external_sort(sort_options_of(files, format, resources))))
                .c_str();
  });
}

int vtx_partition_files(const vtx_file_partition* files, const vtx_record_format* format,
                        const vtx_sort_resources* resources, vtx_partition_report* report) {
  return answer(thread_error(), [&] {
    const auto options = partition_options_of(files, format, resources);
    if (report != nullptr) {
      place_to_keep<vortex::ExternalPartitionReport>();
      place_to_keep<std::vector<vtx_part_report>>().reserve(
          std::min(std::max(options.parts, options.splitters.size() + 1), vortex::kMostParts));
    }
    auto made = vortex::external_partition(options);
    if (report != nullptr) tell_report(keep(std::move(made)), *report);
  });
}

int vtx_sort_lines(const vtx_file_sort* files, const vtx_line_format* format,
                   const vtx_sort_resources* resources, vtx_sort_report* report) {
  return answer(thread_error(), [&] {
    const auto options = sort_options_of(files, format, resources);
    required(files->output, "the name of the output");
    if (report != nullptr) place_to_keep<vortex::SortReport>();
    auto made = vortex::sort_lines(options);
    if (report != nullptr) tell_report(std::move(made), *report);
  });
}

int vtx_plan_lines(const vtx_file_sort* files, const vtx_line_format* format,
                   const vtx_sort_resources* resources, const char** text) {
  return answer(thread_error(), [&] {
    expect_place(text);
    const auto options = sort_options_of(files, format, resources);
    required(files->output, "the name of the output");
    *text = keep(to_string(vortex::plan_line_sort(options))).c_str();
  });
}

int vtx_check_lines(const vtx_file_sort* files, const vtx_line_format* format,
                    const vtx_sort_resources* resources, vtx_line_disorder* disorder) {
  return answer(thread_error(), [&] {
    expect_place(disorder);
    auto found = vortex::check_lines(sort_options_of(files, format, resources));
    vtx_line_disorder told = {};
    if (found) {
      const vortex::LineDisorder& kept = keep(std::move(*found));
      tell_fields(kept, told);
      told.bytes = kept.text.size();
    }
    *disorder = told;
  });
}

int vtx_sort_lines_in_memory(vtx_line* lines, size_t count, const vtx_line_format* format,
                             unsigned threads, size_t* kept) {
  return answer(thread_error(), [&] {
    expect_array(lines, count, sizeof(*lines), "the lines");
    std::vector<std::string_view> views(count);
    for (std::size_t i = 0; i < count; ++i) {
      expect_array(lines[i].text, lines[i].bytes, 1, "the bytes of a line");
      views[i] = {lines[i].text, lines[i].bytes};
    }
    const std::size_t left =
        vortex::sort_lines_in_memory(views, line_order_of(format, false), threads);
    for (std::size_t i = 0; i < left; ++i) lines[i] = {views[i].data(), views[i].size()};
    if (kept != nullptr) *kept = left;
  });
}

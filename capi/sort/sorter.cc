// The sorters of the C interface, of records and of lines.
#include "vortex/sorter.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "capi/sort/sort_fields.h"
#include "capi/sort/sort_options.h"
#include "capi/stream/input_output.h"
#include "vortex/c.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

struct vtx_sorter : vortex::capi::Handle {
  vtx_sorter(const vortex::SortResources& resources, const vortex::RecordFormat& format)
      : sorter(resources, vortex::order_of_format(format)), record_(sorter.record_bytes()) {}

  // The sorter copies single records into its batch, where no error of a stream can be met
  // half-way: they are copied from where they lie before.
  void push_one(const std::byte* record) {
    vortex::guarded([&] { std::memcpy(record_.data(), record, record_.size()); }).throw_if_failed();
    sorter.push(record_.data());
  }

  vortex::ByteSorter sorter;
  std::optional<vortex::capi::StreamInput> sorted;

 private:
  std::vector<std::byte> record_;
};

struct vtx_line_sorter : vortex::capi::Handle {
  vtx_line_sorter(const vtx_line_format* format, const vtx_sort_resources* resources)
      : sorter(vortex::capi::line_order_of(format, false),
               vortex::capi::sort_resources_of(resources)) {}

  vortex::LineSorter sorter;
};

using namespace vortex::capi;

int vtx_sorter_create(const vtx_record_format* format, const vtx_sort_resources* resources,
                      vtx_sorter** sorter) {
  return answer_with(sorter, [&] {
    return std::make_unique<vtx_sorter>(sort_resources_of(resources), record_format_of(format));
  });
}

int vtx_sorter_push(vtx_sorter* sorter, const void* records, size_t count) {
  return answer(*sorter, [&] {
    expect_array(records, count, sorter->sorter.record_bytes(), "the records to push");
    const auto* const first = static_cast<const std::byte*>(records);
    if (count == 1) return sorter->push_one(first);
    sorter->sorter.push(first, count);
  });
}

uint64_t vtx_sorter_size(const vtx_sorter* sorter) { return sorter->sorter.size(); }

int vtx_sorter_statistics(const vtx_sorter* sorter, vtx_run_counts* counts) {
  return answer_told(*sorter, counts, [&] { return sorter->sorter.counts(); });
}

int vtx_sorter_sort(vtx_sorter* sorter, vtx_input** sorted) {
  return answer(*sorter, [&] {
    expect_place(sorted);
    sorter->sorter.sort();
    *sorted = &sorter->sorted.emplace(sorter->sorter.stream());
  });
}

void vtx_sorter_close(vtx_sorter* sorter) { delete sorter; }

int vtx_line_sorter_create(const vtx_line_format* format, const vtx_sort_resources* resources,
                           vtx_line_sorter** sorter) {
  return answer_with(sorter, [&] { return std::make_unique<vtx_line_sorter>(format, resources); });
}

int vtx_line_sorter_push(vtx_line_sorter* sorter, const char* text, size_t bytes) {
  return answer(*sorter, [&] {
    expect_array(text, bytes, 1, "the bytes of a line");
    sorter->sorter.push({text, bytes});
  });
}

uint64_t vtx_line_sorter_size(const vtx_line_sorter* sorter) { return sorter->sorter.records(); }

int vtx_line_sorter_next(vtx_line_sorter* sorter, const char** text, size_t* bytes) {
  return answer(*sorter, [&] {
    expect_place(text);
    expect_place(bytes);
    std::string_view line;
    const bool more = sorter->sorter.next(line);
    *text = more ? line.data() : nullptr;
    *bytes = more ? line.size() : 0;
  });
}

int vtx_line_sorter_statistics(const vtx_line_sorter* sorter, vtx_run_counts* counts) {
  return answer_told(*sorter, counts, [&] { return sorter->sorter.counts(); });
}

void vtx_line_sorter_close(vtx_line_sorter* sorter) { delete sorter; }

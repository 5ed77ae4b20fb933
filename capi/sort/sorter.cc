// The sorter of the C interface.
#include "vortex/sorter.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "capi/sort/record_format.h"
#include "capi/sort/sort_resources.h"
#include "capi/stream/input.h"
#include "vortex/c.h"
#include "vortex/guarded.h"

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

using vortex::capi::answer;

int vtx_sorter_create(const vtx_record_format* format, const vtx_sort_resources* resources,
                      vtx_sorter** sorter) {
  using namespace vortex::capi;
  return answer_with(sorter, [&] {
    return std::make_unique<vtx_sorter>(sort_resources_of(resources), record_format_of(format));
  });
}

int vtx_sorter_push(vtx_sorter* sorter, const void* records, size_t count) {
  return answer(*sorter, [&] {
    vortex::capi::expect_array(records, count, sorter->sorter.record_bytes(),
                               "the records to push");
    const auto* const first = static_cast<const std::byte*>(records);
    if (count == 1) return sorter->push_one(first);
    sorter->sorter.push(first, count);
  });
}

uint64_t vtx_sorter_size(const vtx_sorter* sorter) { return sorter->sorter.size(); }

int vtx_sorter_sort(vtx_sorter* sorter, vtx_input** sorted) {
  return answer(*sorter, [&] {
    vortex::capi::expect_place(sorted);
    sorter->sorter.sort();
    *sorted = &sorter->sorted.emplace(sorter->sorter.stream());
  });
}

void vtx_sorter_close(vtx_sorter* sorter) { delete sorter; }

// Sorts of records in memory.
#include <cstddef>

#include "capi/sort/place_sort.h"
#include "capi/sort/record_format.h"
#include "capi/sort/sort_options.h"
#include "capi/stream/handle.h"
#include "vortex/c.h"

int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                     const vtx_sort_options* options) {
  using namespace vortex::capi;
  return answer(thread_error(), [&] {
    const vortex::SortOptions wanted = sort_options_of(options);
    const vortex::RecordFormat by = record_format_of(format);
    expect_array(records, count, by.record_bytes(), "the records to sort");
    vortex::sort_by_places(static_cast<std::byte*>(records), count,
                           wanted.order == vortex::Order::kDescending ? by.reversed() : by,
                           wanted.threads);
  });
}

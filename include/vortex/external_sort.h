// Sorting files that are larger than memory.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "vortex/external_sort_options.h"
#include "vortex/record_kernels.h"
#include "vortex/record_order.h"
#include "vortex/sort_plan.h"

namespace vortex::inline v0 {
// The plan that external_sort() would follow. Opens the inputs, reads nothing, writes nothing.
// Throws Error as external_sort() does.
SortPlan plan_external_sort(const ExternalSortOptions& options);

// Sorts the records of the inputs, stable, into the output. Runs of about the memory's size are
// sorted and kept in the folders, in files without a name; a merge of order k reads them again, as
// many times as it takes. What fits in memory is read and written once.
//
// Inputs are not changed. The output appears under its name when it is complete and synced, and
// whatever happens before leaves nothing behind; it may be one of the inputs. A symbolic link is
// kept, and what it points to is replaced. The mode of a file that is replaced is kept. Devices and
// pipes are written to in order.
//
// Blocks; allocates; uses the SIGSEGV handler. One sort uses one thread beside those of its disks.
// Throws Error: EINVAL (length of an input that is no multiple of the record's, wrong options),
// ENOMEM (too little memory, with the least that would do), ENOSPC (too little room, found out
// before the start where the lengths are known), ECANCELED, EBUSY (an input changed meanwhile), and
// whatever the disks report.
ExternalSortReport external_sort(const ExternalSortOptions& options);

// The same by any order of records; options.format must be empty (EINVAL).
SortPlan plan_external_sort(const ExternalSortOptions& options,
                            std::shared_ptr<const RecordOrder> order);
ExternalSortReport external_sort(const ExternalSortOptions& options,
                                 std::shared_ptr<const RecordOrder> order);

// The same for files whose records are objects of type T, trivially copyable, one behind the other
// as they lie in memory, ordered by `less(const T&, const T&)`: a strict weak order that must not
// throw, called on the calling thread alone. options.format must be empty (EINVAL).
//
//   vortex::external_sort<Point>(
//       {.inputs = {"points"}, .output = "sorted", .resources = {.memory_bytes = 1 << 30}},
//       [](const Point& a, const Point& b) { return a.x < b.x; });
//
// Numbers (integers of up to 64 bits, float, double) need no comparator: they are sorted by their
// bits, which is faster and a total order, NaNs included (see RadixKey). Where keys are numbers or
// strings of bytes at fixed places in larger records, a format is faster than a comparator for the
// same reason.
template <typename T, typename Less = std::less<T>>
ExternalSortReport external_sort(const ExternalSortOptions& options, Less less = {}) {
  return external_sort(options, order_of_type<T>(std::move(less)));
}
template <typename T, typename Less = std::less<T>>
SortPlan plan_external_sort(const ExternalSortOptions& options, Less less = {}) {
  return plan_external_sort(options, order_of_type<T>(std::move(less)));
}

}  // namespace vortex::inline v0

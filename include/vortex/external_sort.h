// Sorting files that are larger than memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vortex/detail/merge/record_kernels.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct ExternalSortOptions {
  // In this order: of records with equal keys, those of an earlier input come first. "-" is
  // standard input.
  std::vector<std::string> inputs = {};
  std::string output = {};  // "-" is standard output
  // The format of the records; none for records of a type with a comparator.
  std::optional<RecordFormat> format = {};
  // Address space for each input whose length is not known (a pipe). One that is longer ends the
  // sort with EFBIG. Where the system refuses it, the sort takes what the system gives.
  std::uint64_t most_pipe_bytes = std::uint64_t{16} << 40;
  bool unique = false;        // of records with equal keys, only the first is written
  bool merge_inputs = false;  // every input is sorted already
  // A file that gets a trace of the sort when it ends, in the JSON format of Chrome's traces, which
  // Perfetto opens: each request of a disk, and for each thread its faults and waits and what it
  // partitioned, sorted and merged. What the file held before is lost. Takes up to 32 MiB beside
  // the memory of the sort, for the first 2^20 of these. A sort that fails leaves one, too. Empty:
  // no trace.
  std::string trace = {};
  SortResources resources = {};
};

// The plan that external_sort() would follow with the same order. Opens the inputs and reads
// nothing of them; writes nothing, but where it measures a disk
// (SortResources::request_cost_bytes). Throws Error as external_sort() does.
VORTEX_EXPORT SortPlan plan_external_sort(const ExternalSortOptions& options,
                                          std::shared_ptr<const RecordOrder> order = nullptr);

// Sorts the records of the inputs, stable, into the output: by the order, or by options.format,
// which must be empty where there is an order (EINVAL). Runs of about the memory's size are
// sorted and kept in the folders, in files without a name; a merge of order k reads them again, as
// many times as it takes. Records that fit in memory are read and written once.
//
// Inputs are not changed. The output appears under its name when it is complete and synced, and a
// sort that ends before leaves nothing behind. The output may be one of the inputs. If the output
// is a symbolic link, the link is kept, and the file that it points to is replaced. The mode of a
// file that is replaced is kept. Devices and pipes are written to in order.
//
// Blocks; allocates; uses the SIGSEGV handler. One sort uses SortResources::threads
// threads beside those of its disks. Throws Error: EINVAL (length of an input that is no multiple
// of the record's, wrong options), ENOMEM (too little memory, with the least that would do), ENOSPC
// (too little room, found out before the start where the lengths are known), ECANCELED, EBUSY (an
// input changed meanwhile), and whatever the disks report.
VORTEX_EXPORT SortReport external_sort(const ExternalSortOptions& options,
                                       std::shared_ptr<const RecordOrder> order = nullptr);

// The same for files whose records are objects of type T, trivially copyable, one behind the other
// as they lie in memory, ordered by `less(const T&, const T&)`: a strict weak order that must not
// throw, and that several threads may call at a time unless the resources allow one thread only.
// options.format must be empty (EINVAL).
//
//   vortex::external_sort<Point>(
//       {.inputs = {"points"}, .output = "sorted", .resources = {.memory_bytes = 1 << 30}},
//       [](const Point& a, const Point& b) { return a.x < b.x; });
//
// Numbers (integers of up to 64 bits, float, double) need no comparator: they are sorted by their
// bits, which is faster and a total order, NaNs included (see RadixKey). For the same reason
// ByKey(&Point::x) is faster than a comparator, and a format is where keys are several numbers or
// strings of bytes at fixed places.
template <typename T, typename Less = std::less<T>>
SortReport external_sort(const ExternalSortOptions& options, Less less = {}) {
  return external_sort(options, detail::order_of_type<T>(std::move(less)));
}
template <typename T, typename Less = std::less<T>>
SortPlan plan_external_sort(const ExternalSortOptions& options, Less less = {}) {
  return plan_external_sort(options, detail::order_of_type<T>(std::move(less)));
}

}}  // namespace vortex::v0

#include "vortex/external_sort.h"

#include <cerrno>

#include "sort/job/file_sort.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

std::shared_ptr<const RecordOrder> order_of(const ExternalSortOptions& options) {
  if (!options.format) throw Error(EINVAL, "a sort needs a record format or a comparator");
  return order_of_format(*options.format);
}

const ExternalSortOptions& without_format(const ExternalSortOptions& options) {
  if (!options.format) return options;
  throw Error(EINVAL, "a sort by a comparator has a record format, too: which of them counts?");
}

}  // namespace

SortPlan plan_external_sort(const ExternalSortOptions& options) {
  return FileSort(options, order_of(options)).plan();
}

ExternalSortReport external_sort(const ExternalSortOptions& options) {
  return FileSort(options, order_of(options)).run();
}

SortPlan plan_external_sort(const ExternalSortOptions& options,
                            std::shared_ptr<const RecordOrder> order) {
  return FileSort(without_format(options), std::move(order)).plan();
}

ExternalSortReport external_sort(const ExternalSortOptions& options,
                                 std::shared_ptr<const RecordOrder> order) {
  return FileSort(without_format(options), std::move(order)).run();
}

}  // namespace vortex::inline v0

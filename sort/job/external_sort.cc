#include "vortex/external_sort.h"

#include <cerrno>

#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

FormatOrder order_of(const ExternalSortOptions& options) {
  if (!options.format) throw Error(EINVAL, "a sort needs a record format or a comparator");
  return FormatOrder(*options.format);
}

}  // namespace

const ExternalSortOptions& detail::without_format(const ExternalSortOptions& options) {
  if (!options.format) return options;
  throw Error(EINVAL, "a sort by a comparator has a record format, too: which of them counts?");
}

SortPlan plan_external_sort(const ExternalSortOptions& options) {
  return FileSort(options, order_of(options)).plan();
}

ExternalSortReport external_sort(const ExternalSortOptions& options) {
  return FileSort(options, order_of(options)).run();
}

}  // namespace vortex::inline v0

#include "sort/record/format_order.h"

namespace vortex::inline v0 {

template class OrderBy<FormatRules>;

std::shared_ptr<const RecordOrder> order_of_format(RecordFormat format) {
  return std::make_shared<FormatOrder>(std::move(format));
}

}  // namespace vortex::inline v0

#include "io/stream/reread_advice.h"

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

std::string reread_advice(const FileSourceStatistics& reads, const AnyOrderStatistics& order,
                          std::size_t pool_bytes) {
  const bool much = order.reread_bytes > reads.bytes / 4 && order.reread_bytes > pool_bytes;
  if (!much) return {};
  return format_bytes(order.reread_bytes) + " of " + format_bytes(reads.bytes) +
         " had been read before: raise memory_bytes, make block_bytes smaller for touches in "
         "random "
         "places, or go through the data fewer times";
}

}}  // namespace vortex::v0

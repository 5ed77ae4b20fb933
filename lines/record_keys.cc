#include "lines/record_keys.h"

#include <cerrno>
#include <string>

#include "vortex/error.h"

namespace vortex::inline v0 {

void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch) {
  batch.clear();
  keys.append(records, batch);
  if (batch.keys() == records.size()) return;
  throw Error(EINVAL, "of " + std::to_string(records.size()) + " records " +
                          std::to_string(batch.keys()) + " keys were made");
}

}  // namespace vortex::inline v0

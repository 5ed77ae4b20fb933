#include "lines/record/record_keys.h"

#include <cerrno>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch) {
  batch.clear();
  keys.append(records, batch);
  if (batch.keys() == records.size()) return;
  throw Error(EINVAL, "of " + std::to_string(records.size()) + " records " +
                          std::to_string(batch.keys()) + " keys were made");
}

std::size_t records_together(std::span<const std::string_view> records) noexcept {
  std::size_t together = 0;
  for (std::size_t bytes = 0; together < records.size() && bytes < kLongRecord; ++together) {
    if (records[together].size() > kLongRecord) break;
    bytes += records[together].size();
  }
  return together;
}

}}  // namespace vortex::v0

#include <algorithm>
#include <vector>

#include "lines/memory/string_sort.h"
#include "lines/record/record_keys.h"
#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

std::size_t sort_lines_in_memory(std::span<std::string_view> records, const LineOrder& order,
                                 unsigned threads) {
  const StoredOrder stored_order(order);
  KeyBatch batch;
  std::vector<std::string_view> keys;
  if (order.keys) {
    make_keys(*order.keys, records, batch);
    keys.reserve(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) keys.push_back(batch.key(i));
  }
  std::vector<IndexEntry> index(records.size());
  for (std::size_t i = 0; i < index.size(); ++i) index[i].value = i;
  detail::ThreadTeam team(threads);
  sort_views(index, keys, records, stored_order, team);

  std::vector<std::string_view> sorted;
  sorted.reserve(records.size());
  for (const IndexEntry& entry : index) {
    if (!order.unique || entry.key != kSameKey) sorted.push_back(records[entry.value]);
  }
  std::copy(sorted.begin(), sorted.end(), records.begin());
  return sorted.size();
}

}}  // namespace vortex::v0

#include "lines/memory/first_lines.h"

#include <algorithm>
#include <cstddef>

#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

// Sorting fewer at a time takes longer for each.
constexpr std::uint64_t kLeastSorted = std::uint64_t{1} << 14;
// What is kept beside the memory of a sort is little.
constexpr std::ptrdiff_t kMostBoundBytes = std::ptrdiff_t{64} << 10;

}  // namespace

FirstLines::FirstLines(const StoredOrder& order, std::uint64_t most) noexcept
    : order_(order),
      most_(most),
      cut_at_(std::max(detail::saturating_product(most, 2), kLeastSorted)) {}

bool FirstLines::is_behind_bound(const StoredRecord& record) const {
  const StoredRecord bound = stored_record_at(bound_.data(), order_.has_keys);
  return difference(record, bound, order_, 0).order >= 0;
}

void FirstLines::note(const LineArena& sorted, detail::ThreadTeam& team) {
  if (most_ == 0) return;
  const IndexEntry* const last = sorted.last_of_first(most_, team);
  if (last == nullptr) return;
  const char* end = stored_at(*last);
  const StoredRecord record = stored_record(end, order_.has_keys);
  if (end - stored_at(*last) > kMostBoundBytes) return;
  if (is_behind(record.key, record.record)) return;
  bound_chunk_ = chunk_at(record.key, 0) ^ order_.flip;
  bound_.assign(stored_at(*last), end);
}

bool FirstLines::cut(LineArena& sorted, detail::ThreadTeam& team) {
  if (most_ == 0) return false;
  if (sorted.keep_first(most_, team)) return true;
  cut_at_ = 2 * sorted.records();
  return false;
}

}}  // namespace vortex::v0

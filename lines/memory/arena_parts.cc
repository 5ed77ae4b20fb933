#include "lines/memory/arena_parts.h"

#include <algorithm>
#include <cstddef>

namespace vortex { inline namespace v0 {

void ArenaPart::measure() noexcept {
  ArenaCursor cursor(index_, order_);
  while (cursor.next()) {
    counted_ += cursor.count();
    text_bytes_ += cursor.count() * cursor.stored().record.size();
  }
}

std::vector<std::unique_ptr<ArenaPart>> divide_arena(const LineArena& arena, unsigned parts,
                                                     std::uint64_t least_bytes,
                                                     detail::ThreadTeam& team) {
  const std::span<const IndexEntry> index = arena.index();
  std::vector<std::unique_ptr<ArenaPart>> all;
  // An arena with less text than that has no part that is long enough.
  if (arena.stored_bytes() / least_bytes < parts) parts = 1;
  std::size_t begin = 0;
  for (unsigned part = 0; part < parts; ++part) {
    std::size_t end = index.size() / parts * (part + 1);
    if (part + 1 == parts) end = index.size();
    end = std::max(end, begin);
    // Equal ones, of which only the first counts, stay together.
    while (end < index.size() && index[end].key == kSameKey) ++end;
    all.push_back(std::make_unique<ArenaPart>(index.subspan(begin, end - begin), arena.order()));
    begin = end;
  }
  if (parts == 1) return all;
  team.run(parts, [&](std::size_t part) { all[part]->measure(); });
  const bool long_enough = std::all_of(
      all.begin(), all.end(), [&](const auto& part) { return part->text_bytes() >= least_bytes; });
  if (long_enough) return all;
  all.clear();
  all.push_back(std::make_unique<ArenaPart>(index, arena.order()));
  return all;
}

}}  // namespace vortex::v0

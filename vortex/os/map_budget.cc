#include "vortex/os/map_budget.h"

#include <atomic>
#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

std::atomic<std::size_t> claimed_maps{0};

std::size_t limit() noexcept { return os::max_map_count() / 8 * 7; }

}  // namespace

MapBudget::MapBudget(std::size_t maps, const std::string& what) : maps_(maps) { claim(maps, what); }

void MapBudget::raise(std::size_t maps, const std::string& what) {
  if (maps <= maps_) return;
  claim(maps - maps_, what);
  maps_ = maps;
}

void MapBudget::claim(std::size_t maps, const std::string& what) {
  // A claim that is more than the limit by itself must not show in the sum of all, not for a
  // moment.
  const bool possible = maps <= limit();
  const std::size_t before = possible ? claimed_maps.fetch_add(maps) : claimed();
  if (possible) {
    if (before + maps <= limit()) return;
    claimed_maps.fetch_sub(maps);
  }
  const std::size_t needed =
      detail::saturating_product(detail::saturating_sum(before, maps), 8) / 7 + 8;
  throw Error(
      ENOMEM,
      what + " can need " + std::to_string(maps) + " memory maps, and " + std::to_string(before) +
          " are spoken for: vm.max_map_count is " + std::to_string(os::max_map_count()) +
          "; use larger blocks or run 'sysctl -w vm.max_map_count=" + std::to_string(needed) + "'");
}

MapBudget::~MapBudget() { claimed_maps.fetch_sub(maps_); }

std::size_t MapBudget::claimed() noexcept { return claimed_maps.load(); }

std::size_t MapBudget::available() noexcept {
  const std::size_t taken = claimed();
  return taken < limit() ? limit() - taken : 0;
}

}}  // namespace vortex::v0

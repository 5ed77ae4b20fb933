#include "vortex/fault/region_table.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <mutex>

#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// How many forks lie between this process and the first one that used the library.
std::atomic<std::uint32_t> fork_generation{0};

// The first of the entries that begins behind the address.
template <typename Entries>
auto first_behind(Entries& entries, const std::byte* address) noexcept {
  return std::upper_bound(
      entries.begin(), entries.end(), address,
      [](const std::byte* wanted, const auto& entry) { return wanted < entry.begin; });
}

}  // namespace

RegionTable::RegionTable() : current_(new Snapshot), spare_(new Snapshot) {}

RegionTable::~RegionTable() { delete current_.load(); }

void RegionTable::add(Region& region) {
  std::lock_guard lock(change_mutex_);
  const Snapshot& now = *current_.load(std::memory_order_relaxed);
  const auto overlaps = [&region](const Entry& entry) {
    return entry.begin < region.end() && entry.end > region.begin();
  };
  // A forked child does not have the blocks of its parent: its own maps may lie in their places.
  const auto in_the_way = [&overlaps](const Entry& entry) {
    return overlaps(entry) && !entry.region->inherited();
  };
  if (region.begin() >= region.end() || std::any_of(now.begin(), now.end(), in_the_way)) {
    throw Error(EEXIST,
                "a region of " +
                    format_bytes(static_cast<std::uint64_t>(region.end() - region.begin())) +
                    " overlaps one whose faults are already served");
  }
  spare_->clear();
  spare_->reserve(now.size() + 1);
  region.generation_ = fork_generation.load(std::memory_order_relaxed);
  std::copy_if(now.begin(), now.end(), std::back_inserter(*spare_), std::not_fn(overlaps));
  spare_->insert(first_behind(*spare_, region.begin()), {region.begin(), region.end(), &region});
  publish_spare();
}

void RegionTable::remove(Region& region) noexcept {
  std::lock_guard lock(change_mutex_);
  const Snapshot& now = *current_.load(std::memory_order_relaxed);
  const auto is_this = [&region](const Entry& entry) { return entry.region == &region; };
  // It has given way: there may be no room for all the others.
  if (std::none_of(now.begin(), now.end(), is_this)) return;
  spare_->clear();
  std::copy_if(now.begin(), now.end(), std::back_inserter(*spare_), std::not_fn(is_this));
  publish_spare();
}

void RegionTable::publish_spare() noexcept {
  Snapshot* const old = current_.exchange(spare_.release(), std::memory_order_seq_cst);
  // A lookup that still holds `old` entered before the exchange, in either half: one that read
  // turn_ long ago may enter the half that is not current. So both halves are drained, one after
  // the other.
  for (int half = 0; half < 2; ++half) {
    const unsigned draining = turn_.load(std::memory_order_relaxed);
    turn_.store(draining ^ 1, std::memory_order_seq_cst);
    while (lookups_[draining].load(std::memory_order_seq_cst) != 0) sched_yield();
  }
  spare_.reset(old);
}

Region* RegionTable::pin(const std::byte* address) noexcept {
  const unsigned turn = turn_.load(std::memory_order_seq_cst);
  lookups_[turn].fetch_add(1, std::memory_order_seq_cst);
  const Snapshot& regions = *current_.load(std::memory_order_seq_cst);
  Region* found = nullptr;
  const auto after = first_behind(regions, address);
  if (after != regions.begin() && address < (after - 1)->end) {
    found = (after - 1)->region;
    found->pins_.fetch_add(1, std::memory_order_relaxed);
  }
  lookups_[turn].fetch_sub(1, std::memory_order_seq_cst);
  return found;
}

void RegionTable::keep_from_child() noexcept {
  for (const Entry& entry : *current_.load(std::memory_order_relaxed)) {
    if (entry.region->inherited()) continue;
    os::reserve_holes(entry.begin, static_cast<std::size_t>(entry.end - entry.begin));
  }
}

void RegionTable::become_inherited() noexcept {
  fork_generation.fetch_add(1, std::memory_order_relaxed);
  for (auto& lookups : lookups_) lookups.store(0, std::memory_order_relaxed);
}

void RegionTable::forget_inherited() noexcept {
  become_inherited();
  current_.load(std::memory_order_relaxed)->clear();
}

void Region::wait_until_unpinned() const noexcept {
  while (!inherited() && pins_.load(std::memory_order_acquire) != 0) sched_yield();
}

void Region::note_failure(const Failure& failure) noexcept {
  std::lock_guard lock(failure_mutex_);
  failure_ = failure;
}

Failure Region::failure() const noexcept {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

bool Region::inherited() const noexcept {
  return generation_ != fork_generation.load(std::memory_order_relaxed);
}

std::size_t RegionTable::size() const noexcept {
  std::lock_guard lock(change_mutex_);
  return current_.load(std::memory_order_relaxed)->size();
}

}}  // namespace vortex::v0

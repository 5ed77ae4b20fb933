// Which stream owns an address: looked up inside the signal handler, changed by any thread
// meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vortex/engine/fault_server.h"
#include "vortex/thread/futex.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A range of addresses and who serves it (section 4.4 of the Vortex paper keeps them in an interval
// tree). While a fault is served its region is pinned, and remove() waits for the pins to go.
class Region {
 public:
  Region(std::byte* begin, std::size_t bytes, FaultServer& server) noexcept
      : begin_(begin), end_(begin + bytes), server_(server) {}

  std::byte* begin() const noexcept { return begin_; }
  std::byte* end() const noexcept { return end_; }
  FaultServer& server() const noexcept { return server_; }

  // Keeps wait_until_unpinned() waiting. While it is not certain that the region stays registered,
  // RegionTable::pin() is the way.
  void pin() noexcept { pins_.fetch_add(1, std::memory_order_relaxed); }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_release); }

  // Waits for the faults being served. Not inside a fault. Returns at once in a forked child, where
  // the threads that served them do not exist.
  void wait_until_unpinned() const noexcept;

  // Why the last fault that was not served was not. Converts to false where there was none.
  void note_failure(const Failure& failure) noexcept;
  Failure failure() const noexcept;

  // True in a forked child for the regions of its parent.
  bool inherited() const noexcept;

 private:
  friend class RegionTable;
  std::byte* begin_;
  std::byte* end_;
  FaultServer& server_;
  std::atomic<std::uint32_t> pins_{0};
  mutable FutexMutex failure_mutex_;
  Failure failure_;
  std::uint32_t generation_ = 0;
};

// Whether the address belongs to a stream, whose faults may be for one thread. Any thread.
VORTEX_EXPORT bool lies_in_stream(const std::byte* address) noexcept;

// A sorted array of regions that is replaced as a whole. Lookups are wait-free and allocate
// nothing; changes are serialised, cost a copy of the array, and wait for the lookups of the moment
// to end. Removing allocates nothing either: streams end while memory is short, too.
class RegionTable {
 public:
  RegionTable();
  ~RegionTable();

  // Throws Error(EEXIST) when the region overlaps one that is there; one that is inherited() gives
  // way. Not inside a fault.
  void add(Region& region);

  // From its return on, no lookup finds the region. Faults that found it before may still be
  // served: Region::wait_until_unpinned() waits for those. Not inside a fault.
  void remove(Region& region) noexcept;

  // The region that holds the address, pinned; null when none does. Wait-free.
  Region* pin(const std::byte* address) noexcept;

  std::size_t size() const noexcept;

  // Around fork(): no change may be half done when the child is made, and in the child every region
  // there is becomes inherited().
  void lock_changes() noexcept { change_mutex_.lock(); }
  void unlock_changes() noexcept { change_mutex_.unlock(); }
  // Before that: where the blocks of the parent were, maps of the child's own may lie later, which
  // a touch of the stream would find. What is free there is reserved, so they go elsewhere; what
  // others have mapped in the child by then, in handlers of forks of their own, is left to them.
  void keep_from_child() noexcept;
  void become_inherited() noexcept;
  // The same where the child does not have the addresses either: its own maps may take them.
  void forget_inherited() noexcept;

 private:
  // Bounds stand beside the pointers so that the search stays within one array.
  struct Entry {
    std::byte* begin;
    std::byte* end;
    Region* region;
  };
  using Snapshot = std::vector<Entry>;

  void publish_spare() noexcept;

  mutable FutexMutex change_mutex_;
  std::atomic<Snapshot*> current_;
  // Where the next change is prepared: the array before the current one. It has room for all
  // entries but one, which is enough to remove any.
  std::unique_ptr<Snapshot> spare_;
  // Lookups under way, counted in two halves that take turns: new ones enter the half that is not
  // being waited for, so a change waits only for lookups older than itself.
  std::atomic<unsigned> turn_{0};
  std::array<std::atomic<std::uint32_t>, 2> lookups_{};
};

}}  // namespace vortex::v0

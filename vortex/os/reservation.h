// Address space with no memory behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "vortex/os/userfaultfd.h"

namespace vortex { inline namespace v0 {

// Where a reservation begins, at least: block moves of whole 2 MiB spans are then one page-table
// entry.
inline constexpr std::size_t kReservationAlignment = std::size_t{2} << 20;

// What one page table of pages addresses.
inline constexpr std::size_t kPageTableSpan = std::size_t{2} << 20;

// Address space behind every reservation where nothing is ever placed: who runs
// over the end faults there, instead of meeting what somebody else has mapped.
inline constexpr std::size_t kReservationGuardBytes = std::size_t{2} << 20;

// A range of addresses that faults on every access until blocks are placed in it. It costs one
// kernel map and no memory. Not thread-safe, but vacate() of disjoint ranges may run at once.
class Reservation {
 public:
  struct Options {
    std::size_t bytes = 0;  // rounded up to whole pages
    std::size_t least_bytes =
        0;  // when the system refuses, halve down to this; 0: take `bytes` or throw
    std::size_t alignment = kReservationAlignment;  // a power of two, at least a page
  };

  // Throws Error: EINVAL for zero bytes, sizes beyond the address space or a bad alignment; ENOMEM
  // when the system refuses, naming the limit that did (RLIMIT_AS, vm.overcommit_memory).
  explicit Reservation(const Options& options);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Address space of the process that no reservation has.
  static std::uint64_t unreserved_bytes() noexcept;

  std::byte* begin() const noexcept { return begin_; }
  std::byte* end() const noexcept { return begin_ + bytes_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // With the guard behind it.
  std::size_t guarded_bytes() const noexcept { return bytes_ + kReservationGuardBytes; }

  // From now on the addresses are a map whose faults this one has: vacate() takes pages away and
  // leaves the map.
  void be_served_by(std::shared_ptr<os::Userfaultfd> userfaultfd) noexcept {
    userfaultfd_ = std::move(userfaultfd);
  }

  // Takes whatever is mapped in [at, at + bytes) away and leaves bare reservation. Returns 0 or an
  // errno value. Async-signal-safe.
  int vacate(std::byte* at, std::size_t bytes) noexcept;

  // Zeros in whole pages where nothing is; nobody can write to them unless `writable`. Returns 0 or
  // an errno value. Async-signal-safe.
  int place_zeros(std::byte* at, std::size_t bytes, bool writable) noexcept;

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
  int owner_pid_ = 0;
  std::shared_ptr<os::Userfaultfd> userfaultfd_;  // null: faults are signals
};

// Gives the page tables of finished address space back. Moving a block away leaves the tables that
// addressed it; they are invisible to the resident size and add up (2 MiB for each GiB streamed
// through 4 KiB pages). The kernel frees a table when one unmapping covers its whole span, so
// whatever lies behind a window is vacated once more in whole spans of 2 MiB (for smaller blocks)
// and 1 GiB.
class PageTableReclaimer {
 public:
  PageTableReclaimer(Reservation& reservation, std::size_t block_bytes) noexcept;

  // Nothing in [the begin of the reservation, `floor`) is placed any more. Async-signal-safe.
  void finished_below(std::byte* floor) noexcept;

 private:
  void advance(std::byte*& done, std::byte* floor, std::size_t span) noexcept;

  Reservation& reservation_;
  const bool small_blocks_;
  std::byte* small_done_;
  std::byte* large_done_;
};

}}  // namespace vortex::v0

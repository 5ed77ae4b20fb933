#include "vortex/os/reservation.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <fstream>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kAddressSpaceBytes = std::size_t{1} << 47;
constexpr std::size_t kLargeSpan = std::size_t{1} << 30;

std::string why_refused(std::size_t bytes, std::size_t least_bytes) {
  std::string text = "cannot reserve " + format_bytes(bytes) + " of address space";
  if (least_bytes < bytes) text += " (nor " + format_bytes(least_bytes) + ")";
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return text + ": RLIMIT_AS is " + format_bytes(limit.rlim_cur) +
           "; raise it (ulimit -v) or ask for a smaller reservation";
  }
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (overcommit == 2) {
    return text +
           ": vm.overcommit_memory is 2, which counts address space as memory; set it to 0 or 1, "
           "or "
           "ask for a smaller reservation";
  }
  return text + ": ask for a smaller reservation";
}

std::atomic<std::uint64_t> all_reserved{0};

}  // namespace

Reservation::Reservation(const Options& options) {
  const std::size_t page = os::page_bytes();
  if (options.bytes == 0) throw Error(EINVAL, "a reservation of 0 bytes");
  if (options.alignment < page || !std::has_single_bit(options.alignment)) {
    throw Error(EINVAL, "a reservation aligned to " + format_bytes(options.alignment) +
                            ": the alignment must be a power of two and at least a page");
  }
  const std::size_t least =
      options.least_bytes == 0 ? options.bytes : std::min(options.least_bytes, options.bytes);
  const std::size_t limit = kAddressSpaceBytes - options.alignment - kReservationGuardBytes;
  if (least >= limit) {
    throw Error(EINVAL, "a reservation of " + format_bytes(least) +
                            " is beyond the 128 TiB of address space a process has");
  }
  std::size_t bytes = options.bytes;
  while (bytes >= limit) bytes = std::max(bytes / 2, least);
  bytes = detail::round_up(bytes, page);
  for (;;) {
    int error = 0;
    const std::size_t padded = bytes + kReservationGuardBytes + options.alignment - page;
    if (std::byte* raw = os::reserve(padded, &error)) {
      begin_ = detail::align_up(raw, options.alignment);
      bytes_ = bytes;
      owner_pid_ = getpid();
      all_reserved.fetch_add(guarded_bytes(), std::memory_order_relaxed);
      if (begin_ > raw) os::unmap(raw, static_cast<std::size_t>(begin_ - raw));
      std::byte* const padded_end = raw + padded;
      std::byte* const guard_end = begin_ + guarded_bytes();
      if (padded_end > guard_end) {
        os::unmap(guard_end, static_cast<std::size_t>(padded_end - guard_end));
      }
      return;
    }
    const std::size_t fewer = detail::round_up(std::max(bytes / 2, least), page);
    if (fewer == bytes) throw Error(error, why_refused(options.bytes, least));
    bytes = fewer;
  }
}

Reservation::~Reservation() {
  all_reserved.fetch_sub(guarded_bytes(), std::memory_order_relaxed);
  // Blocks are not inherited by a forked child, so the child's copy of the range has holes that its
  // own maps may have taken since: only the process that made the reservation may unmap it.
  if (getpid() == owner_pid_) os::unmap(begin_, guarded_bytes());
}

std::uint64_t Reservation::unreserved_bytes() noexcept {
  const std::uint64_t reserved = all_reserved.load(std::memory_order_relaxed);
  return kAddressSpaceBytes - std::min<std::uint64_t>(reserved, kAddressSpaceBytes);
}

int Reservation::vacate(std::byte* at, std::size_t bytes) noexcept {
  return userfaultfd_ != nullptr ? os::discard(at, bytes) : os::vacate(at, bytes);
}

int Reservation::place_zeros(std::byte* at, std::size_t bytes, bool writable) noexcept {
  // Another map in the midst of one that is served would end its faults there for good.
  if (userfaultfd_ != nullptr) {
    const int error = userfaultfd_->zero(at, bytes);
    if (error != 0 || writable) return error;
    return userfaultfd_->protect_from_writes(at, bytes, true);
  }
  int error = 0;
  if (os::map_memory(at, bytes, &error) == nullptr) return error;
  // As blocks, they are not for a forked child.
  os::advise(at, bytes, MADV_DONTFORK);
  return writable ? 0 : os::protect(at, bytes, PROT_READ);
}

PageTableReclaimer::PageTableReclaimer(Reservation& reservation, std::size_t block_bytes) noexcept
    : reservation_(reservation),
      small_blocks_(block_bytes < kPageTableSpan),
      small_done_(detail::align_up(reservation.begin(), kPageTableSpan)),
      large_done_(detail::align_up(reservation.begin(), kLargeSpan)) {}

void PageTableReclaimer::finished_below(std::byte* floor) noexcept {
  if (small_blocks_) advance(small_done_, floor, kPageTableSpan);
  advance(large_done_, floor, kLargeSpan);
}

void PageTableReclaimer::advance(std::byte*& done, std::byte* floor, std::size_t span) noexcept {
  std::byte* whole = detail::align_down(floor, span);
  if (whole <= done) return;
  // A failure leaves the tables where they are, which is memory lost and nothing worse.
  if (reservation_.vacate(done, static_cast<std::size_t>(whole - done)) == 0) done = whole;
}

}}  // namespace vortex::v0

// The memory that this process takes from the machine, as the kernel counts it.
#pragma once

#include <cstddef>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// The resident sizes count a page as often as it is mapped, so they show more than is held where a
// pool of aliases is in use: see held_bytes().
struct ProcessMemory {
  std::size_t resident_bytes = 0;       // VmRSS
  std::size_t peak_resident_bytes = 0;  // VmHWM, since the start or the last reset_peak_resident()
  std::size_t page_table_bytes = 0;     // VmPTE: memory that resident sizes leave out
};

// Reads /proc/self/status. Not inside a fault.
VORTEX_EXPORT ProcessMemory process_memory();

// The memory that the process holds now, each page counted once: Pss_Anon and Pss_Shmem of
// /proc/self/smaps_rollup, which count a page that other processes hold, too, in part. Pages of
// files are left out, since a process's part of a library grows whenever another user of it ends;
// kernels that do not tell them apart count them. Takes the kernel some
// microseconds a MiB. 0 where it does not tell (before Linux 4.14).
VORTEX_EXPORT std::size_t held_bytes();

// Starts a new peak from the present size. Returns false where the kernel does not let it.
VORTEX_EXPORT bool reset_peak_resident();

}}  // namespace vortex::v0

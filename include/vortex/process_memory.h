// What this process takes from the machine, as the kernel counts it.
#pragma once

#include <cstddef>

namespace vortex::inline v0 {

struct ProcessMemory {
  std::size_t resident_bytes = 0;       // VmRSS
  std::size_t peak_resident_bytes = 0;  // VmHWM, since the start or the last reset_peak_resident()
  std::size_t page_table_bytes = 0;     // VmPTE: memory that resident sizes leave out
};

// Reads /proc/self/status. Not inside a fault.
ProcessMemory process_memory();

// Starts a new peak from the present size. Returns false where the kernel does not let it.
bool reset_peak_resident();

}  // namespace vortex::inline v0

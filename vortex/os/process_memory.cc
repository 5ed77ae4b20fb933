#include "vortex/process_memory.h"

#include <fstream>
#include <string>

namespace vortex::inline v0 {

ProcessMemory process_memory() {
  ProcessMemory result;
  std::ifstream status("/proc/self/status");
  std::string field;
  while (status >> field) {
    std::size_t* wanted = field == "VmRSS:"   ? &result.resident_bytes
                          : field == "VmHWM:" ? &result.peak_resident_bytes
                          : field == "VmPTE:" ? &result.page_table_bytes
                                              : nullptr;
    if (wanted != nullptr) {
      status >> *wanted;
      *wanted *= 1024;
    }
    status.ignore(256, '\n');
  }
  return result;
}

std::size_t held_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string field;
  while (rollup >> field) {
    std::size_t kibibytes = 0;
    if (field == "Pss:" && rollup >> kibibytes) return kibibytes * 1024;
    rollup.ignore(256, '\n');
  }
  return 0;
}

bool reset_peak_resident() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

}  // namespace vortex::inline v0

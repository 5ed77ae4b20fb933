#include "vortex/memory_budget.h"

#include <fstream>
#include <string>

namespace vortex { inline namespace v0 {

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
  std::size_t all = 0, anonymous = 0, shared = 0;
  while (rollup >> field) {
    if (field == "Pss:") rollup >> all;
    if (field == "Pss_Anon:") rollup >> anonymous;
    if (field == "Pss_Shmem:") rollup >> shared;
    rollup.ignore(256, '\n');
  }
  return (anonymous != 0 ? anonymous + shared : all) * 1024;
}

bool reset_peak_resident() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

}}  // namespace vortex::v0

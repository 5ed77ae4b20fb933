#include "vortex/memory_budget.h"

#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

// Reads numbers of KiB by their names from a file of the kernel's.
void read_sizes(const char* path,
                std::initializer_list<std::pair<std::string_view, std::size_t*>> wanted) {
  std::ifstream file(path);
  for (std::string field; file >> field; file.ignore(256, '\n')) {
    for (const auto& [name, bytes] : wanted) {
      if (field == name && file >> *bytes) *bytes *= 1024;
    }
  }
}

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory result;
  read_sizes("/proc/self/status", {{"VmRSS:", &result.resident_bytes},
                                   {"VmHWM:", &result.peak_resident_bytes},
                                   {"VmPTE:", &result.page_table_bytes}});
  return result;
}

std::size_t held_bytes() {
  std::size_t all = 0, anonymous = 0, shared = 0;
  read_sizes("/proc/self/smaps_rollup",
             {{"Pss:", &all}, {"Pss_Anon:", &anonymous}, {"Pss_Shmem:", &shared}});
  return anonymous != 0 ? anonymous + shared : all;
}

bool reset_peak_resident() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

}}  // namespace vortex::v0

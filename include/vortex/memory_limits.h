// How much memory this process may take: the machine's, and the limit of its control group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "vortex/disk.h"

namespace vortex::inline v0 {

struct SortPlanRequest;

struct MemoryLimits {
  std::uint64_t machine_bytes = 0;    // MemTotal
  std::uint64_t available_bytes = 0;  // MemAvailable
  // The lowest limit on the way from the process's control group to the root, if one is set, and
  // the file that sets it.
  std::optional<std::uint64_t> group_bytes;
  std::string group_file;

  // What percentages refer to.
  std::uint64_t usable_bytes() const noexcept {
    return group_bytes ? (*group_bytes < machine_bytes ? *group_bytes : machine_bytes)
                       : machine_bytes;
  }
};

// How much more address space this process may reserve: what RLIMIT_AS leaves, at most half of what
// the processor has.
std::uint64_t address_space_left();

// What to do where it is too little, for messages.
std::string address_space_advice();

// Reads /proc/meminfo and the control groups, version 2 and version 1. What cannot be read counts
// as no limit. `root` stands before every path; it is empty except in tests.
MemoryLimits memory_limits(const std::string& root = {});

// What a sort takes that is told no figure: half of what is free, machine and control group
// considered, and no more than 1 GiB; blocks are populated and pinned ahead, which takes time.
std::uint64_t default_memory_bytes(const MemoryLimits& limits = memory_limits());

// Fills in what this process can have: the default memory where the request names none, kernel
// maps, address space, and the stacks of the threads that so many disks of the backend start.
void limit_to_process(SortPlanRequest& request, DiskBackend backend, unsigned disks);

}  // namespace vortex::inline v0

// What a sort may take of the process and the machine, and the limits of the numbers that it is
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "vortex/disk.h"
#include "vortex/memory_budget.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

struct SortPlanRequest;

// How much more address space this process may reserve: what RLIMIT_AS leaves, at most half of what
// the processor has.
std::uint64_t address_space_left();

// The same of private memory, which RLIMIT_DATA limits: all that can be written to and is not
// shared; none: there is no limit.
std::optional<std::uint64_t> private_memory_left();

// RLIMIT_DATA counts blocks that are in use this many times: at home and where they are placed.
inline constexpr std::uint64_t kTimesPrivate = 2;

// What the stack of a thread takes of both, in bytes; 0: neither is limited.
std::uint64_t stack_bytes_of_thread();

// Advice for messages where the address space is too little.
std::string address_space_advice();

// The same resources, with the default memory where they name none, and with the threads that the
// sort has. Throws Error(EINVAL) for numbers beyond their limits.
SortResources with_memory(SortResources resources);

// The sort's share of its budget, and that much as its memory. Without a budget nothing changes,
// and the share is empty. The resources have a memory. Throws Error as MemoryBudget::take() does.
MemoryShare take_memory_share(SortResources& resources);

// Fills in what this process can have: the default memory where the request names none, less where
// RLIMIT_DATA leaves less, kernel maps, address space, and the stacks of the threads that `disks`
// of the backend start.
void limit_to_process(SortPlanRequest& request, DiskBackend backend, unsigned disks);

// The size of the buffer in which records that are pushed one by one gather: 64 KiB, or a sixteenth
// of the memory where that is less, in whole records, one at least.
std::size_t push_buffer_bytes(std::uint64_t memory_bytes, std::size_t record_bytes) noexcept;

// Each throws Error(EINVAL) that names the number and its limit: what is wrong is told before
// anything is opened, whatever the records are.
void expect_limits(const SortResources& resources);
void expect_limits(const SortPlanRequest& request);

}}  // namespace vortex::v0

#include "sort/plan/memory_limits.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "sort/plan/record_plan.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/memory.h"
#include "vortex/thread/control_groups.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// In pages: all of the address space, and what RLIMIT_DATA counts.
struct Taken {
  std::uint64_t all = 0;
  std::uint64_t data = 0;
};

Taken pages_taken() {
  Taken taken;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  std::uint64_t text = 0;
  std::uint64_t library = 0;
  std::ifstream("/proc/self/statm") >> taken.all >> resident >> shared >> text >> library >>
      taken.data;
  return taken;
}

std::optional<std::uint64_t> limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

std::optional<std::uint64_t> left_of(int resource, std::uint64_t Taken::*pages) {
  const std::optional<std::uint64_t> limit = limit_of(resource);
  if (!limit) return std::nullopt;
  const std::uint64_t taken =
      pages_taken().*pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return *limit - std::min(taken, *limit);
}

std::optional<std::uint64_t> address_space_limit() { return limit_of(RLIMIT_AS); }

// The default size of a thread's stack in bytes, with the guard before it.
std::uint64_t thread_stack_bytes() {
  pthread_attr_t attributes;
  std::size_t stack = 0;
  std::size_t guard = 0;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return stack + guard;
}

// Version 1 says "no limit" with the largest multiple of the page size.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value) || value >= kNoLimit) return std::nullopt;  // "max" is no number
  return value;
}

void read_groups(MemoryLimits& limits, const std::string& root) {
  look_at_control_groups(root, "memory", [&](const std::string& folder, GroupVersion version) {
    const std::string path =
        folder + (version == GroupVersion::k1 ? "memory.limit_in_bytes" : "memory.max");
    const std::optional<std::uint64_t> found = number_in(path);
    if (!found || (limits.group_bytes && *found >= *limits.group_bytes)) return;
    limits.group_bytes = found;
    limits.group_file = path;
  });
}

}  // namespace

MemoryLimits memory_limits(const std::string& root) {
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;  // where nobody tells
  MemoryLimits limits;
  std::ifstream machine(root + "/proc/meminfo");
  for (std::string line; std::getline(machine, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "MemTotal:") limits.machine_bytes = kibibytes << 10;
    if (name == "MemAvailable:") limits.available_bytes = kibibytes << 10;
  }
  if (limits.machine_bytes == 0) {  // there is no /proc
    os::MachineMemory memory = os::machine_memory();
    if (memory.bytes == 0) memory = {kLittle, kLittle};
    limits.machine_bytes = memory.bytes;
    limits.available_bytes = memory.free_bytes;
  }
  read_groups(limits, root);
  limits.address_space_bytes = left_of(RLIMIT_AS, &Taken::all);
  limits.data_bytes = private_memory_left();
  return limits;
}

std::uint64_t address_space_left() {
  // Half of what a process on x86-64 has.
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 46;
  return std::min(left_of(RLIMIT_AS, &Taken::all).value_or(kPlenty), kPlenty);
}

std::optional<std::uint64_t> private_memory_left() { return left_of(RLIMIT_DATA, &Taken::data); }

std::string address_space_advice() {
  const std::optional<std::uint64_t> limit = address_space_limit();
  return limit ? "RLIMIT_AS is " + format_bytes(*limit) +
                     ": raise it (ulimit -v), or sort with less memory"
               : "sort with less memory";
}

std::uint64_t default_memory_bytes(const MemoryLimits& limits) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 30;
  // Streams and stacks take address space besides; and blocks that are in use are counted twice, at
  // home and where they are placed.
  constexpr std::uint64_t kShare = 4;
  std::uint64_t bytes = std::min(std::min(limits.usable_bytes(), limits.available_bytes) / 2, kMax);
  for (const auto& left : {limits.address_space_bytes, limits.data_bytes}) {
    if (left) bytes = std::min(bytes, *left / kShare);
  }
  return bytes;
}

std::uint64_t stack_bytes_of_thread() {
  if (!address_space_limit() && !limit_of(RLIMIT_DATA)) return 0;
  return thread_stack_bytes();
}

SortResources with_memory(SortResources resources) {
  expect_limits(resources);
  if (resources.memory_bytes == 0) resources.memory_bytes = default_memory_bytes();
  resources.threads = detail::ThreadTeam::resolve(resources.threads);
  return resources;
}

namespace {

// RLIMIT_DATA counts stacks of threads, too. Where it leaves little, less memory is taken than was
// said.
std::uint64_t within_private_memory(std::uint64_t memory_bytes, unsigned threads) {
  constexpr std::uint64_t kBeside = std::uint64_t{12} << 20;
  constexpr std::uint64_t kLeastShare = 8;
  constexpr unsigned kOtherThreads = 2;
  const std::optional<std::uint64_t> left = private_memory_left();
  if (!left) return memory_bytes;
  const std::uint64_t beside = kBeside + (threads + kOtherThreads) * thread_stack_bytes();
  return std::min(memory_bytes,
                  std::max((*left - std::min(*left, beside)) / kTimesPrivate, *left / kLeastShare));
}

}  // namespace

void limit_to_process(SortPlanRequest& request, DiskBackend backend, unsigned disks) {
  if (request.memory_bytes == 0) request.memory_bytes = default_memory_bytes();
  request.memory_bytes = within_private_memory(request.memory_bytes, request.threads);
  request.most_maps = MapBudget::available();
  request.address_space_bytes = address_space_left();
  if (!address_space_limit()) return;
  // One warms the pool, one merges or reads a pipe, one writes to a pipe.
  constexpr unsigned kOthers = 3;
  request.stack_bytes = (threads_of_disk(backend) * disks + kOthers) * thread_stack_bytes() +
                        Disk::copiers_for(request.threads) * disks * MaskedThread::kStackBytes;
  // A heap of its own, too.
  constexpr std::uint64_t kHeapOfThread = std::uint64_t{2} << 20;
  request.thread_bytes = thread_stack_bytes() + kHeapOfThread;
}

std::size_t push_buffer_bytes(std::uint64_t memory_bytes, std::size_t record_bytes) noexcept {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 10;
  if (record_bytes == 0) return 0;
  const auto wanted = static_cast<std::size_t>(std::min(memory_bytes / 16, kMaxBytes));
  return std::max<std::size_t>(wanted / record_bytes, 1) * record_bytes;
}

namespace {

constexpr unsigned kMaxDisks = 1 << 16;

void expect_bytes(const char* what, std::uint64_t value, std::uint64_t most) {
  if (value <= most) return;
  throw Error(EINVAL, std::string("a sort with ") + what + " of " + format_bytes(value) +
                          ": the most is " + format_bytes(most));
}

void expect_count(const char* what, std::uint64_t value, std::uint64_t most) {
  if (value <= most) return;
  throw Error(EINVAL, "a sort with " + std::to_string(value) + " " + what + ": the most is " +
                          std::to_string(most));
}

void expect_block_bytes(std::size_t block_bytes) {
  if (block_bytes == 0) return;
  if (std::has_single_bit(block_bytes) && block_bytes >= kMinBlockBytes &&
      block_bytes <= kMaxBlockBytes) {
    return;
  }
  throw Error(EINVAL, "blocks of " + format_bytes(block_bytes) +
                          ": the size is a power of two from " + format_bytes(kMinBlockBytes) +
                          " to " + format_bytes(kMaxBlockBytes));
}

// Without folders runs are kept in one.
void expect_speeds(const std::vector<double>& speeds, const std::vector<std::string>& folders) {
  if (speeds.empty()) return;
  const std::size_t disks = std::max<std::size_t>(folders.size(), 1);
  if (speeds.size() != disks) {
    throw Error(EINVAL, "a sort with " + std::to_string(disks) + " folders for runs has " +
                            std::to_string(speeds.size()) + " speeds: each needs one");
  }
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    if (speeds[i] > 0 && std::isfinite(speeds[i])) continue;
    throw Error(EINVAL, "the speed of " +
                            (folders.empty() ? "the folder for runs" : "'" + folders[i] + "'") +
                            " is " + std::to_string(speeds[i]) + "; it must be positive");
  }
}

}  // namespace

void expect_limits(const SortResources& resources) {
  expect_bytes("a memory", resources.memory_bytes, kMaxSortMemoryBytes);
  expect_bytes("a least memory", resources.least_memory_bytes, kMaxSortMemoryBytes);
  expect_count("threads", resources.threads, kMaxSortThreads);
  expect_count("folders for runs", resources.folders.size(), kMaxDisks);
  expect_block_bytes(resources.block_bytes);
  expect_speeds(resources.folder_speeds, resources.folders);
}

void expect_limits(const SortPlanRequest& request) {
  if (request.record_bytes == 0 || request.disks == 0) {
    throw Error(EINVAL, "a sort needs records of at least one byte and at least one disk");
  }
  expect_bytes("an input", request.bytes.value_or(0), kMaxSortInputBytes);
  expect_bytes("records", request.record_bytes, kMaxBlockBytes);
  expect_bytes("forecasts", request.forecast_bytes, kMaxBlockBytes);
  expect_bytes("a memory", request.memory_bytes, kMaxSortMemoryBytes);
  expect_bytes("stacks", request.stack_bytes, kMaxSortInputBytes);
  // The product with the threads stays below what a number holds.
  expect_bytes("a stack", request.thread_bytes, kMaxSortMemoryBytes);
  expect_bytes("a scratch for each record", request.scratch_per_record, kMaxBlockBytes);
  expect_count("disks for runs", request.disks, kMaxDisks);
  expect_count("buckets", request.most_buckets, RunFormationOptions::kMaxBuckets);
  expect_count("threads", request.threads, kMaxSortThreads);
  expect_block_bytes(request.block_bytes);
  if (request.block_bytes != 0 && request.block_bytes < request.record_bytes) {
    throw Error(EINVAL, "blocks of " + format_bytes(request.block_bytes) +
                            " hold no whole record of " + format_bytes(request.record_bytes));
  }
}

}}  // namespace vortex::v0

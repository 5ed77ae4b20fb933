#include "sort/plan/memory_limits.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sort/plan/record_plan.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

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
  // That times the threads stays below what a number holds.
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

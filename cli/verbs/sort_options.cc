#include "cli/verbs/sort_options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "cli/common/byte_size.h"
#include "cli/common/folder_speeds.h"
#include "vortex/error.h"

namespace vortex::cli {

namespace {

DiskBackend parse_backend(const std::string& text) {
  if (text == "best") return DiskBackend::kBest;
  if (text == "uring") return DiskBackend::kUring;
  if (text == "threads") return DiskBackend::kThreads;
  throw Error(EINVAL, "--io '" + text + "': it is best, uring or threads");
}

RunCompression parse_compression(const std::string& text) {
  if (text == "auto") return RunCompression::kAuto;
  if (text == "always") return RunCompression::kAlways;
  if (text == "never") return RunCompression::kNever;
  throw Error(EINVAL, "--compress '" + text + "': it is auto, always or never");
}

// A size, or a percentage of what this process may take at most; no more than that is taken.
std::uint64_t parse_memory(const std::string& text) {
  const MemoryLimits limits = memory_limits();
  if (text.empty()) return default_memory_bytes(limits);
  const std::uint64_t usable = most_memory_bytes(limits);
  if (!text.ends_with('%')) {
    const std::uint64_t bytes = parse_size(text, "--memory");
    if (bytes == 0) throw Error(EINVAL, "--memory 0: no sort can do without");
    return std::min(bytes, usable);
  }
  unsigned percent = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stopped, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc{} || stopped != end || percent == 0 || percent > 100) {
    throw Error(EINVAL, "--memory '" + text + "': a percentage is a whole number from 1 to 100");
  }
  return usable / 100 * percent;
}

}  // namespace

void expect_places(const SortOptions& options) {
  if (options.output.empty()) {
    throw Error(EINVAL, "sort needs -o OUT, a file or - for standard output");
  }
  if (options.output == "-" && !options.plan && !options.lines.wanted() &&
      isatty(STDOUT_FILENO) != 0) {
    throw Error(EINVAL, "standard output is a terminal, which is no place for records");
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1) {
    throw Error(EINVAL, "standard input can be read once only");
  }
}

SortResources sort_resources(const SortOptions& options) {
  SortResources resources;
  resources.first_records = options.first;
  resources.memory_bytes = parse_memory(options.memory);
  // A plan is the same for all speeds.
  parse_run_folders(options.folders,
                    options.plan ? [](const std::string&) { return 1.0; } : measured_speed,
                    resources);
  if (!options.block.empty()) resources.block_bytes = parse_size(options.block, "--block");
  if (!options.request_cost.empty()) {
    resources.request_cost_bytes = parse_size(options.request_cost, "--request-cost");
  }
  resources.prefetch = parse_prefetch_kind(options.prefetch);
  resources.compression = parse_compression(options.compress);
  resources.backend = parse_backend(options.io);
  resources.seed = options.seed;
  resources.threads = options.threads;
  if (options.in_place) resources.output_in_place = InPlace::kAlways;
  resources.sync = !options.no_sync;
  return resources;
}

}  // namespace vortex::cli

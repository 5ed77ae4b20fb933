// The plan of a sort in lines for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "vortex/error.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// A line for each thing, its name in a column of its own.
class PlanText {
 public:
  void add(std::string_view name, const std::string& value) {
    constexpr std::size_t kColumn = 16;
    std::string line(name);
    line.resize(kColumn, ' ');
    text_ += line + value + "\n";
  }
  // None: not known.
  void add_size(std::string_view name, std::optional<std::uint64_t> bytes) {
    add(name, bytes ? format_bytes(*bytes) : "length not known");
  }
  void add_blocks(std::size_t blocks, std::size_t block_bytes) {
    add("blocks", std::to_string(blocks) + " of " + format_bytes(block_bytes));
  }
  // 0 counts for nothing.
  void add_request_cost(std::uint64_t bytes) {
    if (bytes == 0) return;
    add("disk requests", "cost as much as " + format_bytes(bytes) + " beside their bytes");
  }
  void add_prefetch(PrefetchKind kind, unsigned disks) {
    add("prefetch", std::string(prefetch_kind_name(kind)) + " on " + std::to_string(disks) +
                        (disks == 1 ? " disk" : " disks"));
  }
  void add_compression(RunCompression compression) {
    add("compression", compression == RunCompression::kNever    ? "none"
                       : compression == RunCompression::kAlways ? "of all runs"
                                                                : "of runs, where it pays");
  }

  const std::string& str() const noexcept { return text_; }

 private:
  std::string text_;
};

}}  // namespace vortex::v0

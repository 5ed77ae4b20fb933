// A report of what the machine offers to streams, disks and sorts, and of why it is not more.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vortex::cli {

struct Fact {
  enum class Unit : std::uint8_t { kNone, kBytes };
  using Value = std::variant<bool, std::uint64_t, std::string>;

  std::string group;  // "memory"
  std::string name;   // "control group limit"
  Value value;
  std::string note = {};  // what follows from it, or why it is not more
  Unit unit = Unit::kNone;
};

// Facts in the order in which they are best read, those of a group together. Tries out what can
// only be known by trying (moving memory, io_uring, direct I/O in a temporary file in each folder).
// Throws Error when a folder cannot be written.
std::vector<Fact> machine_report(const std::vector<std::string>& folders);

}  // namespace vortex::cli

// What is told of sorts that have ended, whatever their records are.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "cli/verbs/disk_bound.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

// Adds what all sorts tell; with a bound, also how many times the disks' least time the sort took.
void add_report(nlohmann::ordered_json& json, const SortReport& report,
                const std::optional<DiskBound>& bound);

// Null where it is not known.
nlohmann::ordered_json known(std::optional<std::uint64_t> number);

// The same for people.
void print_report(std::FILE* out, const SortReport& report, const std::optional<DiskBound>& bound);

}  // namespace vortex::cli

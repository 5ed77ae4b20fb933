// How keys are distributed, by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace vortex::cli {

enum class Distribution : std::uint8_t {
  kUniform,
  kSkewed,        // of the sort benchmark's records: see benchmark_record.h
  kZipf,          // ranks 0, 1, ...; the share of rank k falls as 1/(k+1)
  kSorted,        // uniform, in ascending order
  kReversed,      // uniform, in descending order
  kNearlySorted,  // sorted, but every 128th value on average is uniform
  kOrganPipe,     // ascending to the middle, then descending
  kFew,           // uniform among few values
  kEqual,         // one value
};

// Throws Error(EINVAL) with the names there are.
Distribution parse_distribution(std::string_view text);
std::string_view to_string(Distribution distribution) noexcept;

}  // namespace vortex::cli

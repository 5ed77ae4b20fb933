// The options of `vortex sort` that say what lines are and how they are ordered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/records/record_options.h"
#include "vortex/line_sort.h"

namespace vortex::cli {

struct LineOptions {
  bool lines = false;
  bool csv = false;
  std::string letters;    // of orders, as in GNU sort
  std::string separator;  // empty: none given
  bool zero_terminated = false;
  std::uint64_t header = 0;  // records that stay on top
  bool strict = false;       // CSV with invalid quotes is refused

  bool wanted() const noexcept { return lines || csv; }
  // Some are given without --lines or --csv.
  bool stray() const noexcept {
    return !wanted() &&
           (!letters.empty() || !separator.empty() || zero_terminated || header != 0 || strict);
  }
};

// Throws Error(EINVAL) where some are given without --lines or --csv.
void expect_no_line_options(const LineOptions& options);

// Inputs, framing, order and header, as a verb was called with them. With a header, the keys of CSV
// may name columns by the head of the first input, which is read. Throws Error(EINVAL) that names
// the option or the column, and where standard input is to be read twice.
LineSortOptions parse_lines(const LineOptions& options, const RecordOptions& records,
                            const std::vector<std::string>& inputs, bool stable, bool unique);

// Says on standard error that records of CSV never close a quote, and so have all that lies behind.
void warn_of_unclosed(const SortReport& report);

}  // namespace vortex::cli

// vortex check --lines and --csv.
#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/common/interrupt.h"
#include "cli/common/progress_line.h"
#include "cli/records/line_options.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::cli {

namespace {

// Bytes of the record that a message shows.
constexpr std::size_t kMostShown = 120;

std::string name_of(const std::string& input) { return input == "-" ? "standard input" : input; }

void print_json(const SortReport& report, const std::optional<LineDisorder>& disorder) {
  nlohmann::ordered_json json = {
      {"kind", "vortex check of lines"}, {"records", report.records_in},
      {"bytes", report.input_bytes},     {"invalid_records", report.invalid_records},
      {"sorted", !disorder.has_value()},
  };
  if (disorder) {
    json["disorder"] = {{"input", printable(name_of(disorder->input))},
                        {"record", disorder->record},
                        {"offset", disorder->offset}};
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print(const SortReport& report, const std::optional<LineDisorder>& disorder) {
  fmt::print("records    {}{}\nbytes      {} ({})\n", report.records_in,
             disorder ? ", up to the first that is out of order" : "", report.input_bytes,
             format_bytes(report.input_bytes));
  if (report.invalid_records != 0) {
    fmt::print("invalid    {} records, whose quotes are not as RFC 4180 has them\n",
               report.invalid_records);
  }
  fmt::print("sorted     {}\n", disorder ? "no" : "yes");
}

std::string shown(const std::string& text) {
  return printable(text.substr(0, kMostShown)) + (text.size() > kMostShown ? "..." : "");
}

}  // namespace

int check_lines(const CheckOptions& options) {
  LineSortOptions what =
      parse_lines(options.lines, options.records, options.inputs, options.stable, options.unique);
  if (options.combine) {
    throw Error(EINVAL, "--combine is for records of one length, not for lines");
  }
  Interrupt interrupt;
  what.resources.stop = interrupt.start();
  SortReport report;
  ProgressLine line("vortex check", options.progress);
  if (line.wanted()) {
    what.resources.progress = [&line](const SortProgress& now) {
      line.show("checking", now.bytes, now.phase_bytes);
    };
  }
  const std::optional<LineDisorder> disorder =
      interrupt.end_process_or([&] { return vortex::check_lines(what, &report); });
  line.finish();
  if (options.json) {
    print_json(report, disorder);
  } else {
    print(report, disorder);
  }
  warn_of_unclosed(report);
  if (!disorder) return kExitGood;
  fmt::print(stderr, "vortex check: not sorted: record {} of '{}' (byte {}) {}: {}\n",
             disorder->record, printable(name_of(disorder->input)), disorder->offset,
             options.unique ? "must come before the record before it, or is equal to it"
                            : "belongs before the record before it",
             shown(disorder->text));
  return kExitNotSorted;
}

}  // namespace vortex::cli

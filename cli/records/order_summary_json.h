// Summaries of `vortex check` as JSON, to be joined later.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/records/order_check.h"
#include "vortex/record_order.h"

namespace vortex::cli {

// A summary, of which records, and in which files they lie one after the other.
struct OrderReport {
  struct File {
    std::string path;
    std::uint64_t records = 0;
  };

  RecordFormat format;
  std::vector<File> files;
  OrderSummary summary;
  double seconds = 0;  // 0: not measured
};

// One JSON object, with a newline.
std::string to_json(const OrderReport& report);

// Throws Error(EINVAL) that begins with `name` and says what is missing or wrong.
OrderReport order_report_from_json(const std::string& text, const std::string& name);

}  // namespace vortex::cli

// The options that say what a record is, as several verbs have them.
#pragma once

#include <string>
#include <vector>

#include "vortex/record_order.h"

namespace vortex::cli {

struct RecordOptions {
  std::string form;    // what `gen` calls it; or
  std::string record;  // the length, and
  std::vector<std::string> keys;
  bool reverse = false;

  bool empty() const noexcept { return form.empty() && record.empty() && keys.empty(); }
};

// Throws Error(EINVAL). Without any of them, `default_form`.
RecordFormat parse_record_options(const RecordOptions& options, const std::string& default_form);

}  // namespace vortex::cli

#include "cli/records/record_options.h"

#include <cerrno>
#include <utility>

#include "cli/common/byte_size.h"
#include "cli/records/record_form.h"
#include "vortex/error.h"

namespace vortex::cli {

RecordFormat parse_record_options(const RecordOptions& options, const std::string& default_form) {
  if (!options.form.empty() && !(options.record.empty() && options.keys.empty())) {
    throw Error(EINVAL, "--form says what --record and --key say; give one or the other");
  }
  if (options.record.empty() && !options.keys.empty()) {
    throw Error(EINVAL, "--key needs --record: how long is a record?");
  }
  const auto directed = [&](RecordFormat format) {
    return options.reverse ? format.reversed() : format;
  };
  if (options.record.empty()) {
    return directed(
        record_format(parse_record_form(options.form.empty() ? default_form : options.form)));
  }
  std::vector<RecordKey> keys;
  for (const std::string& key : options.keys) keys.push_back(parse_record_key(key));
  return directed(RecordFormat(parse_size(options.record, "--record"), std::move(keys)));
}

}  // namespace vortex::cli

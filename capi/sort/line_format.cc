#include "capi/sort/line_format.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "capi/sort/sort_fields.h"
#include "vortex/error.h"
#include "vortex/guarded.h"
#include "vortex/line_key.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

std::optional<char> separator_of(const vtx_line_format& format) {
  if (format.separator == nullptr) return std::nullopt;
  if (std::strlen(format.separator) == 1) return format.separator[0];
  throw Error(EINVAL,
              "the separator '" + std::string(format.separator) + "' of fields is not one byte");
}

}  // namespace

LineOrder line_order_of(const vtx_line_format* format, bool unique) {
  auto keys = options_of<LineKeyOptions>(format);
  keys.unique = keys.unique || unique;
  if (format == nullptr) return line_order(keys);
  keys.separator = separator_of(*format);
  if (format->random_seed != nullptr) {
    std::copy_n(format->random_seed, keys.random_seed.size(), keys.random_seed.begin());
  }
  return line_order(keys);
}

RecordFraming line_framing_of(const vtx_line_format* format) {
  if (format == nullptr) return RecordFraming::delimited();
  if ((format->csv != 0) + (format->length_prefixed != 0) + (format->length != nullptr) +
          (format->zero_terminated != 0 && format->csv == 0) >
      1) {
    throw Error(EINVAL,
                "lines end in one way: `csv`, `length_prefixed`, `length` or "
                "`zero_terminated`");
  }
  if (format->length_prefixed != 0) return RecordFraming::length_prefixed();
  if (format->length != nullptr) {
    return RecordFraming::by_function([given = *format](std::string_view text, bool ends) {
      return given.length(given.length_context, text.data(), text.size(), ends ? 1 : 0);
    });
  }
  const char delimiter = format->zero_terminated != 0 ? '\0' : '\n';
  if (format->csv == 0) return RecordFraming::delimited(delimiter);
  return RecordFraming::quoted(
      delimiter, separator_of(*format).value_or(','),
      format->refuse_quotes != 0 ? InvalidQuotes::kRefused : InvalidQuotes::kKept);
}

}}}  // namespace vortex::v0::capi

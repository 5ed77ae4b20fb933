#include "lines/keys/month_key.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

void MonthKey::append(std::string_view field, KeyBytes& bytes) const {
  field = locale_.without_leading_blanks(field);
  const auto begins_with = [&](const std::string& name) {
    return field.size() >= name.size() &&
           std::equal(name.begin(), name.end(), field.begin(),
                      [&](char of_name, char c) { return locale_.to_upper(c) == of_name; });
  };
  char number = 0;
  for (const KeyLocale::Month& month : locale_.months()) {
    if (begins_with(month.name)) number = static_cast<char>(month.number);
  }
  bytes += number;
}

}}  // namespace vortex::v0

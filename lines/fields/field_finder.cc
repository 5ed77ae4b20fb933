#include "lines/fields/field_finder.h"

#include <algorithm>
#include <cstring>

#include "lines/fields/csv_quotes.h"

namespace vortex { inline namespace v0 {

namespace {

// Returns the place of `c` at or behind `at`, or the end.
std::size_t find_byte(std::string_view text, char c, std::size_t at) noexcept {
  return std::min(text.find(c, at), text.size());
}

std::string_view without_carriage_return(std::string_view record) noexcept {
  if (record.ends_with('\r')) record.remove_suffix(1);
  return record;
}

}  // namespace

std::size_t FieldFinder::behind_blanks(std::string_view line, std::size_t at) const noexcept {
  while (at < line.size() && locale_.is_blank(line[at])) ++at;
  return at;
}

// Returns where the field that begins at `at` ends; it does not pass a separator there.
std::size_t FieldFinder::behind_field(std::string_view line, std::size_t at) const noexcept {
  if (separator_) return find_byte(line, *separator_, at);
  at = behind_blanks(line, at);
  while (at < line.size() && !locale_.is_blank(line[at])) ++at;
  return at;
}

std::size_t FieldFinder::begin_of(std::string_view line,
                                  const KeySpecification& key) const noexcept {
  std::size_t at = 0;
  for (std::size_t fields = key.begin_field; fields > 0 && at < line.size(); --fields) {
    at = behind_field(line, at);
    if (separator_ && at < line.size()) ++at;
  }
  if (key.flags.skip_start_blanks) at = behind_blanks(line, at);
  return at + std::min(key.begin_byte, line.size() - at);
}

std::size_t FieldFinder::end_of(std::string_view line, const KeySpecification& key) const noexcept {
  if (key.end_field == KeySpecification::kLineEnd) return line.size();
  const bool whole_field = key.end_byte == 0;
  std::size_t at = 0;
  for (std::size_t fields = key.end_field + (whole_field ? 1 : 0); fields > 0 && at < line.size();
       --fields) {
    at = behind_field(line, at);
    const bool last = fields == 1 && whole_field;
    if (separator_ && at < line.size() && !last) ++at;
  }
  if (whole_field) return at;
  if (key.flags.skip_end_blanks) at = behind_blanks(line, at);
  return at + std::min(key.end_byte, line.size() - at);
}

std::string_view FieldFinder::find_fields(std::string_view line,
                                          const KeySpecification& key) const noexcept {
  const std::size_t begin = begin_of(line, key);
  // A key that ends before it begins is empty.
  const std::size_t end = std::max(begin, end_of(line, key));
  return line.substr(begin, end - begin);
}

std::string_view FieldFinder::find_column(std::string_view record, const KeySpecification& key,
                                          KeyBytes& scratch) const {
  const bool whole = key.end_field == KeySpecification::kLineEnd;
  const std::string_view value = whole ? record : value_of(record, key.begin_field, scratch);
  return key.flags.skip_start_blanks ? locale_.without_leading_blanks(value) : value;
}

// Returns the value with the blanks in front of it.
std::string_view FieldFinder::value_of(std::string_view record, std::size_t column,
                                       KeyBytes& scratch) const {
  record = without_carriage_return(record);
  std::size_t at = 0;
  for (std::size_t field = 0;; ++field) {
    const std::string_view value = take_value(record, at, field == column, scratch);
    if (field == column) return value;
    if (at >= record.size()) return {};
    ++at;
  }
}

std::size_t FieldFinder::columns(std::string_view record) const {
  record = without_carriage_return(record);
  std::string room;
  KeyBytes scratch(room);
  std::size_t at = 0;
  for (std::size_t fields = 1;; ++fields) {
    take_value(record, at, false, scratch);
    if (at >= record.size()) return fields;
    ++at;
  }
}

// Returns the value at `at`, and nothing unless it is wanted. Moves `at` to the separator behind it
// or to the end.
std::string_view FieldFinder::take_value(std::string_view record, std::size_t& at, bool wanted,
                                         KeyBytes& scratch) const {
  if (at >= record.size() || record[at] != '"') {
    const std::size_t begin = at;
    at = find_byte(record, *separator_, at);
    return record.substr(begin, wanted ? at - begin : 0);
  }
  const std::size_t inside = at + 1;
  bool doubled = false;
  const std::size_t closing = closing_quote(record, inside, doubled);
  const std::size_t behind = std::min(closing + 1, record.size());
  // The bytes behind the closing quote belong to the field as they stand.
  at = find_byte(record, *separator_, behind);
  if (!wanted) return {};
  const std::string_view quoted = record.substr(inside, closing - inside);
  if (!doubled && at == behind) return quoted;  // the field is one piece, as most are
  scratch.clear();
  for (std::size_t from = 0; from < quoted.size();) {
    const std::size_t quote = find_byte(quoted, '"', from);
    scratch += quoted.substr(from, quote + 1 - from);
    from = quote + 2;  // one of two
  }
  scratch += record.substr(behind, at - behind);
  return scratch.view();
}

}}  // namespace vortex::v0

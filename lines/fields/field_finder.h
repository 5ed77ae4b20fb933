// Where the keys of a record lie.
#pragma once

#include <optional>
#include <string_view>

#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Finds the bytes of a record that a specification means. Any number of threads may call it.
//
// Fields of lines have GNU sort's rules: a separator belongs to no field; without one, the blanks
// in front of a field belong to it. Columns of CSV records (RFC 4180) are found without the quotes
// around a value, the doubling of quotes in it, and a CR at the end of the record.
class FieldFinder {
 public:
  // The locale, which must outlive this, says what a blank is. Without a separator columns of CSV
  // have a comma.
  FieldFinder(const KeyLocale& locale, FieldRules rules, std::optional<char> separator)
      : locale_(locale),
        csv_(rules == FieldRules::kCsv),
        separator_(csv_ ? separator.value_or(',') : separator) {}

  // Whether find() may put values together, of no more bytes than the record has.
  bool copies() const noexcept { return csv_; }

  // Returns the key's bytes: a part of the record, or put together in `scratch`, whose content they
  // replace. In CSV only the fields of the specification count: a key that ends with the line means
  // the whole record, another the column where it begins. A column that the record lacks is empty.
  std::string_view find(std::string_view record, const KeySpecification& key,
                        KeyBytes& scratch) const {
    return csv_ ? find_column(record, key, scratch) : find_fields(record, key);
  }

  // How many columns a record of CSV has.
  std::size_t columns(std::string_view record) const;

 private:
  std::string_view find_fields(std::string_view line, const KeySpecification& key) const noexcept;
  std::size_t begin_of(std::string_view line, const KeySpecification& key) const noexcept;
  std::size_t end_of(std::string_view line, const KeySpecification& key) const noexcept;
  std::size_t behind_field(std::string_view line, std::size_t at) const noexcept;
  std::size_t behind_blanks(std::string_view line, std::size_t at) const noexcept;
  std::string_view find_column(std::string_view record, const KeySpecification& key,
                               KeyBytes& scratch) const;
  std::string_view value_of(std::string_view record, std::size_t column, KeyBytes& scratch) const;
  std::string_view take_value(std::string_view record, std::size_t& at, bool wanted,
                              KeyBytes& scratch) const;

  const KeyLocale& locale_;
  const bool csv_;
  const std::optional<char> separator_;
};

}}  // namespace vortex::v0

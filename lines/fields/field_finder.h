// Where the keys of a record lie.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"

namespace vortex { inline namespace v0 {

// Finds the bytes that a specification means. Any number of threads may call it.
class FieldFinder {
 public:
  virtual ~FieldFinder() = default;

  // Whether find() may put fields together, of no more bytes than the record has.
  virtual bool copies() const noexcept { return false; }

  // The key's bytes: a part of the record, or put together in `scratch`, whose content they
  // replace.
  virtual std::string_view find(std::string_view record, const KeySpecification& key,
                                KeyBytes& scratch) const = 0;

 protected:
  FieldFinder() = default;
  FieldFinder(const FieldFinder&) = default;
  FieldFinder& operator=(const FieldFinder&) = default;
};

// Fields of lines, by GNU sort's rules: a separator belongs to no field; without one, the blanks in
// front of a field belong to it.
class LineFields : public FieldFinder {
 public:
  // The locale, which must outlive this, says what a blank is.
  LineFields(const KeyLocale& locale, std::optional<char> separator)
      : locale_(locale), separator_(separator) {}

  std::string_view find(std::string_view record, const KeySpecification& key,
                        KeyBytes& scratch) const override;

 private:
  std::size_t begin_of(std::string_view line, const KeySpecification& key) const noexcept;
  std::size_t end_of(std::string_view line, const KeySpecification& key) const noexcept;
  std::size_t behind_field(std::string_view line, std::size_t at) const noexcept;
  std::size_t behind_blanks(std::string_view line, std::size_t at) const noexcept;

  const KeyLocale& locale_;
  const std::optional<char> separator_;
};

// Columns of CSV records (RFC 4180): quotes around a field and the doubling of quotes in it are no
// part of its value, nor is a CR at the end of the record.
class CsvFields : public FieldFinder {
 public:
  // The locale, which must outlive this, says what a blank is.
  CsvFields(const KeyLocale& locale, char separator) : locale_(locale), separator_(separator) {}

  bool copies() const noexcept override { return true; }

  // Only the fields of the specification count: one that ends with the line means the whole
  // record, another the column where it begins. A column that the record lacks is empty.
  std::string_view find(std::string_view record, const KeySpecification& key,
                        KeyBytes& scratch) const override;

  // How many columns a record has.
  std::size_t count(std::string_view record) const;

 private:
  // With the blanks in front.
  std::string_view value_of(std::string_view record, const KeySpecification& key,
                            KeyBytes& scratch) const;
  std::string_view take_field(std::string_view record, std::size_t& at, bool wanted,
                              KeyBytes& scratch) const;

  const KeyLocale& locale_;
  const char separator_;
};

}}  // namespace vortex::v0

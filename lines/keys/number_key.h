// Numbers written in decimal digits, of any length.
#pragma once

#include "lines/fields/key_locale.h"
#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// -n: blanks, a minus, digits with the locale's separators among them, a decimal point, digits.
// A text that is no number counts as 0; the rest of a text behind a number does not count.
//
// The bytes: 0x80 is 0. A positive number has 0x81 plus the number of its integer digits (or 0xff
// and that number in eight bytes where they are more than kMaxShort), then its digits by twos, each
// pair plus 1, without zeros at either end, then a 0. A negative number has all that inverted.
class NumberKey : public FieldEncoder {
 public:
  explicit NumberKey(const KeyLocale& locale) : locale_(locale) {}  // must outlive this
  void append(std::string_view field, KeyBytes& bytes) const override;

 private:
  const KeyLocale& locale_;
};

// -h: by the unit behind the number (none, k or K, M, G, T, P, E, Z, Y), then by the number.
class HumanNumberKey : public FieldEncoder {
 public:
  explicit HumanNumberKey(const KeyLocale& locale) : locale_(locale), number_(locale) {}
  void append(std::string_view field, KeyBytes& bytes) const override;

 private:
  const KeyLocale& locale_;
  const NumberKey number_;
};

}}  // namespace vortex::v0

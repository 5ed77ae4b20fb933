// Names of months.
#pragma once

#include "lines/fields/key_locale.h"
#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// -M: one byte, 0 for what does not begin, behind blanks, with the short name of a month in the
// locale, in letters of either case.
class MonthKey : public FieldEncoder {
 public:
  explicit MonthKey(const KeyLocale& locale) : locale_(locale) {}  // must outlive this
  void append(std::string_view field, KeyBytes& bytes) const override;

 private:
  const KeyLocale& locale_;
};

}}  // namespace vortex::v0

// Floating-point numbers as strtold() reads them.
#pragma once

#include "lines/fields/key_locale.h"
#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// -g: what is no number comes first, then NaNs in the order of their bytes in memory, then -inf to
// +inf; -0 and 0 are equal. GNU sort 9.1 also compares the bytes behind a NaN, which are undefined.
class FloatKey : public FieldEncoder {
 public:
  explicit FloatKey(const KeyLocale& locale) : locale_(locale) {}  // must outlive this
  void append(std::string_view field, KeyBytes& bytes) const override;

 private:
  const KeyLocale& locale_;
};

}}  // namespace vortex::v0

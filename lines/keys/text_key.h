// Text in the order of its bytes.
#pragma once

#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// The bytes themselves, with a 1 behind each NUL, and two NULs at the end.
class TextKey : public FieldEncoder {
 public:
  void append(std::string_view field, KeyBytes& bytes) const override;
};

}}  // namespace vortex::v0

// A field as bytes that memcmp() orders.
#pragma once

#include <string_view>

#include "lines/fields/key_bytes.h"

namespace vortex { inline namespace v0 {

// Appends for each field bytes that are ordered as the fields are to be. Two fields that count as
// equal give the same bytes, and what one gives never begins what another gives: so the bytes of
// several keys can follow each other, and inverted they give the reverse order.
//
// Immutable; any number of threads may call it, each with bytes of its own.
class FieldEncoder {
 public:
  virtual ~FieldEncoder() = default;
  virtual void append(std::string_view field, KeyBytes& bytes) const = 0;

 protected:
  FieldEncoder() = default;
  FieldEncoder(const FieldEncoder&) = default;
  FieldEncoder& operator=(const FieldEncoder&) = default;
};

}}  // namespace vortex::v0

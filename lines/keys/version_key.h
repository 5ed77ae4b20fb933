// Names with versions in them.
#pragma once

#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// -V, as coreutils 9 orders names of files: digits count as numbers, a tilde comes before
// everything, the end of the name included, letters come before other bytes; endings of files
// (".tar.gz") count only when the rest is equal; ".", ".." and hidden files come first.
class VersionKey : public FieldEncoder {
 public:
  void append(std::string_view field, KeyBytes& bytes) const override;
};

}}  // namespace vortex::v0

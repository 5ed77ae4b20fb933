// Keys in an order of chance.
#pragma once

#include <array>

#include "lines/fields/key_locale.h"
#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// -R: the MD5 of the seed and the text, so that equal keys stay together and the same seed gives
// the order that GNU sort gives: in all locales but "C" that of the text as strxfrm() transforms
// it, with the NUL behind it.
class RandomKey : public FieldEncoder {
 public:
  using Seed = std::array<char, 16>;

  RandomKey(const KeyLocale& locale, const Seed& seed) : locale_(locale), seed_(seed) {}
  void append(std::string_view field, KeyBytes& bytes) const override;

 private:
  const KeyLocale& locale_;
  const Seed seed_;
};

}}  // namespace vortex::v0

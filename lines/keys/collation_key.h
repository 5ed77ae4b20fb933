// Text in the order of a locale, beyond whole keys (append_collated() in field_encoders.h).
#pragma once

#include <string_view>

#include "lines/fields/character_choice.h"
#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"

namespace vortex { inline namespace v0 {

// Appends less than append_collated() does: what the first of the rules of the locale compares,
// which mostly tells texts apart. Where these bytes differ for two texts, they have the order of
// the whole keys.
void append_first_rule(std::string_view field, const KeyLocale& locale, KeyBytes& bytes);

// Compares what append_collated() makes of the characters of two fields that count. Takes no memory
// where all of these are simple (CharacterWeights).
int compare_collated(std::string_view a, std::string_view b, const KeyLocale& locale,
                     const CharacterChoice& choice);

}}  // namespace vortex::v0

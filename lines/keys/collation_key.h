// Text in the order of a locale.
#pragma once

#include "lines/fields/character_choice.h"
#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"
#include "lines/keys/field_encoder.h"

namespace vortex { inline namespace v0 {

// What strcoll() compares of the text, NUL by NUL, as GNU sort does: empty text comes first, text
// that differs from it only in what the locale ignores behind it.
class CollationKey : public FieldEncoder {
 public:
  explicit CollationKey(const KeyLocale& locale) : locale_(locale) {}  // must outlive this
  void append(std::string_view field, KeyBytes& bytes) const override;

  // Less than append() does: the first of the rules that the locale compares texts by, which mostly
  // tells them apart. Of two texts whose bytes here differ, the lesser has the lesser there, too.
  void append_first_rule(std::string_view field, KeyBytes& bytes) const;

  // Compares what append() makes of the characters of two fields that count. Takes no memory where
  // all are simple (CharacterWeights).
  int compare(std::string_view a, std::string_view b, const CharacterChoice& choice) const;

 private:
  const KeyLocale& locale_;
};

// Appends what strcoll() compares of `text` up to its first NUL, without a NUL behind it. Returns
// how many bytes of `text` that was. Throws Error when the locale cannot.
std::size_t append_transformed(const KeyLocale& locale, std::string_view text, KeyBytes& bytes);

}}  // namespace vortex::v0

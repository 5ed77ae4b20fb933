// The kinds of keys: each makes a field into bytes that memcmp() orders.
#pragma once

#include <array>
#include <string_view>

#include "lines/fields/character_choice.h"
#include "lines/fields/key_bytes.h"
#include "lines/fields/key_locale.h"

namespace vortex { inline namespace v0 {

// The bytes depend on these besides the field. Immutable.
struct KeyRules {
  const KeyLocale& locale;
  std::array<char, 16> random_seed;
};

// Appends for each field bytes that are ordered as the fields are to be. Two fields that count as
// equal give the same bytes, and what one gives never begins what another gives: so the bytes of
// several keys can follow each other, and inverted they give the reverse order. Any number of
// threads may call it, each with bytes of its own.
using FieldEncoder = void (*)(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// Text in the order of its bytes: the bytes themselves, with a 1 behind each NUL, and two NULs at
// the end.
void append_text(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// Text in the order of the locale: it appends what strcoll() compares, NUL by NUL, as GNU sort
// does. Empty text comes first, then text that differs from it only in what the locale ignores.
void append_collated(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// Appends less than append_collated() does: what the first of the rules of the locale compares,
// which mostly tells texts apart. Where these bytes differ for two texts, they have the order of
// the whole keys.
void append_first_rule(std::string_view field, const KeyLocale& locale, KeyBytes& bytes);

// Compares what append_collated() makes of the characters of two fields that count. Takes no memory
// where all of these are simple (CharacterWeights).
int compare_collated(std::string_view a, std::string_view b, const KeyLocale& locale,
                     const CharacterChoice& choice);

// -n: blanks, a minus, digits with the locale's separators among them, a decimal point, digits.
// A text that is no number counts as 0; the rest of a text behind a number does not count.
//
// The bytes: 0x80 is 0. A positive number has 0x81 plus the number of its integer digits (or 0xff
// and that number in eight bytes where they are more than kMaxShort), then its digits by twos, each
// pair plus 1, without zeros at either end, then a 0. A negative number has all that inverted.
void append_number(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// -h: the unit behind the number decides first (none, k or K, M, G, T, P, E, Z, Y), then the
// number.
void append_human_number(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// -g: what is no number comes first, then NaNs in the order of their bytes in memory, then -inf to
// +inf; -0 and 0 are equal. GNU sort 9.1 also compares the bytes behind a NaN, which are undefined.
void append_float(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// -M: one byte, the number of the month; 0 for what does not begin, behind blanks, with the name
// of one.
void append_month(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// -V, as coreutils 9 orders names of files: digits count as numbers, a tilde comes before
// everything, the end of the name included, letters come before other bytes; endings of files
// (".tar.gz") count only when the rest is equal; ".", ".." and hidden files come first.
void append_version(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

// -R: the MD5 of the seed and the text, so that equal keys stay together and the same seed gives
// the order that GNU sort gives. In all locales but "C" the text counts as strxfrm() transforms it,
// with the NUL behind it.
void append_random(std::string_view field, const KeyRules& rules, KeyBytes& bytes);

}}  // namespace vortex::v0

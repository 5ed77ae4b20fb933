// The order of strings in a locale, read from the C library's tables.
#pragma once

#include <locale.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lines/fields/key_bytes.h"

namespace vortex { inline namespace v0 {

// Stands between what two rules make of a text, and in no other place but in front of each weight
// of a rule with positions.
inline constexpr char kEndOfRule = '\1';

// A locale compares strings by several rules, each only where those before it find no difference.
// Each character, or unit of several ("ch" in Czech), has a weight of some bytes for each rule; an
// empty one is ignored by it. glibc's strcoll() compares the weights one behind the other, but
//
// - a rule with positions counts how many are ignored in front of each weight: the fewer, the less;
// - a rule that is backward for a script goes through characters of that script that stand side by
//   side from the last to the first. Where one of another script follows them, glibc leaves the
//   last but one of them out, and strxfrm() does not: these are the strings whose order strxfrm()
//   contradicts. Digits and punctuation are a script of their own.
//
// Here is what strcoll() compares: sorted files are to be sorted for all programs of the system.
// Immutable. The locale must outlive this.
class CollationTables {
 public:
  explicit CollationTables(::locale_t locale);

  // None: strcoll() is strcmp().
  std::size_t rules() const noexcept { return rules_; }
  bool has_positions(std::size_t rule) const noexcept { return (kind(0, rule) & kPositions) != 0; }

  // Where the weights of a character or unit are, and its script.
  struct Element {
    std::uint32_t at = 0;
    std::uint8_t script = 0;
  };
  // Whether this character, of ASCII, begins no unit of several such characters.
  bool stands_alone(char c) const noexcept;
  // The one at `at`, which goes behind it. There is one.
  Element next(const char*& at, const char* end) const noexcept;
  std::string_view weight(Element element, std::size_t rule) const noexcept;
  bool is_backward(Element element, std::size_t rule) const noexcept {
    return (kind(element.script, rule) & kBackward) != 0;
  }

  // Appends what a rule compares of a text without NULs.
  void append(std::size_t rule, std::string_view text, KeyBytes& bytes) const;

 private:
  static constexpr unsigned char kBackward = 2;
  static constexpr unsigned char kPositions = 4;

  unsigned char kind(std::size_t script, std::size_t rule) const noexcept {
    return kinds_[script * rules_ + rule];
  }
  struct Entry {
    std::int32_t found;  // below 0: a range
    std::size_t length;  // of a unit, behind its first byte
    const unsigned char* first;
    const unsigned char* behind;
  };
  static Element element(std::int32_t found) noexcept;
  static Entry read_entry(const unsigned char* from) noexcept;
  Element next_of_several(std::int32_t list, const char*& at, const char* end) const noexcept;
  void append_in_order(std::size_t rule, std::string_view text, KeyBytes& bytes) const;
  void append_with_positions(std::size_t rule, std::string_view text, KeyBytes& bytes) const;
  void append_run(std::size_t rule, const char* begin, std::size_t elements, const char* end,
                  KeyBytes& bytes) const;

  std::size_t rules_;
  const unsigned char* kinds_;    // of each script, rule by rule
  const std::int32_t* table_;     // of each byte: an element, or the list of what begins with it
  const unsigned char* lists_;    // of units of several bytes
  const std::int32_t* ranges_;    // elements of consecutive characters
  const unsigned char* weights_;  // for each rule the length, and so many bytes
};

// How many rules the locale has for the order of strings; none: strcoll() is strcmp().
std::size_t collation_rules(::locale_t locale) noexcept;

}}  // namespace vortex::v0

// The characters of a locale whose place in the order no neighbour changes.
#pragma once

#include <locale.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lines/keys/key_bytes.h"

namespace vortex::inline v0 {

// What strxfrm() makes of text in ASCII, without calling it: for each rule of the locale the
// weights of the characters one behind the other. That holds for most characters of most locales,
// not for letters that form a unit ("ch" in Czech) or those that a rule ignores and others are
// counted behind. Which ones is not written down anywhere, so strxfrm() is asked about all pairs,
// and about longer texts taken at random; characters that are something else in company are not
// simple. Immutable.
class CharacterWeights {
 public:
  // Takes some milliseconds.
  explicit CharacterWeights(::locale_t locale);

  // Appends the text as strxfrm() transforms it. False, and nothing is appended: not all of its
  // characters are simple.
  bool append(std::string_view text, KeyBytes& bytes) const {
    return append(text, rules_.size(), bytes);
  }
  // The same, of what the first rule makes of it only.
  bool append_first_rule(std::string_view text, KeyBytes& bytes) const {
    return append(text, 1, bytes);
  }

  bool is_simple(char c) const noexcept { return simple_[static_cast<unsigned char>(c)]; }

  std::size_t rules() const noexcept { return rules_.size(); }
  // Writes what a rule makes of one simple character, and returns the end of it. Writes a word,
  // whose other bytes are any.
  char* write(std::size_t rule, char c, char* to) const noexcept {
    return write(rules_[rule], c, to);
  }

 private:
  static constexpr std::size_t kCharacters = 128;

  // Seven bytes at most, the first in the lowest byte, and how many.
  struct Weight {
    std::uint64_t bytes = 0;
    std::uint64_t length = 0;
  };
  using Rule = std::array<Weight, kCharacters>;

  static char* write(const Rule& rule, char c, char* to) noexcept {
    const Weight& weight = rule[static_cast<unsigned char>(c)];
    std::memcpy(to, &weight.bytes, sizeof weight.bytes);
    return to + weight.length;
  }
  bool append(std::string_view text, std::size_t rules, KeyBytes& bytes) const;
  static void append_weights(const Rule& rule, std::string_view text, KeyBytes& bytes);
  void read_weights(::locale_t locale, std::size_t rules);
  void forget_unlike_pairs(::locale_t locale);
  bool holds_for_longer_texts(::locale_t locale) const;
  std::string simple_characters() const;

  std::array<bool, 256> simple_{};
  std::vector<Rule> rules_;
};

// Stands between what two rules make of a text, and in no other place but behind the last rule but
// one.
inline constexpr char kEndOfRule = '\1';

// How many rules the locale has for the order of strings; none: strcoll() is strcmp().
std::size_t collation_rules(::locale_t locale) noexcept;

// The text as strxfrm() transforms it. Throws Error when the locale cannot. Appends no NUL; the
// text has none.
void append_transformed_by_libc(::locale_t locale, std::string_view text, KeyBytes& bytes);

}  // namespace vortex::inline v0

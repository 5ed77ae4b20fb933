// The order of strings in a locale, as bytes that strcoll() would compare.
#pragma once

#include <langinfo.h>
#include <locale.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/fields/key_bytes.h"

namespace vortex { inline namespace v0 {

// It stands between what two rules make of a text, and in no other place but in front of each
// weight of a rule with positions.
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
// The tables give what strcoll() compares: sorted files are to be sorted for all programs of the
// system. Immutable. The locale must outlive this.
class CollationTables {
 public:
  explicit CollationTables(::locale_t locale);

  // Where there are none, strcoll() is strcmp().
  std::size_t rules() const noexcept { return rules_; }
  bool has_positions(std::size_t rule) const noexcept { return (kind(0, rule) & kPositions) != 0; }

  // The place of the weights of a character or unit, and its script.
  struct Element {
    std::uint32_t at = 0;
    std::uint8_t script = 0;
  };
  // Whether this character, of ASCII, begins no unit of several such characters.
  bool stands_alone(char c) const noexcept;
  // Returns the element at `at`, and moves `at` behind it. There must be one.
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
  const unsigned char* weights_;  // for each rule the length, and as many bytes
};

// nl_langinfo_l(3), which in static programs looks at the locale that the thread uses.
const char* locale_item(::nl_item which, ::locale_t locale) noexcept;

// How many rules the locale has for the order of strings; where it has none, strcoll() is strcmp().
std::size_t collation_rules(::locale_t locale) noexcept;

// Makes what strcoll() compares of a text (CollationTables), rule by rule, with kEndOfRule in
// between. Most characters of ASCII are simple: their weights stand one behind the other whatever
// is beside them, and are found in one step. Letters that form a unit ("ch" in Czech) are not
// simple, and neither are characters that a rule ignores and others are counted behind. Immutable.
class CharacterWeights {
 public:
  // Compares some texts by strcoll() to see that it does what is known of it, which takes about a
  // millisecond.
  explicit CharacterWeights(::locale_t locale);

  // Appends what all rules compare of a text without NULs. Returns false, with nothing appended,
  // where the text is empty or the C library compares in a way that is not known here.
  bool append(std::string_view text, KeyBytes& bytes) const {
    return append(text, rules_.size(), bytes);
  }
  // Appends only what the first rule compares.
  bool append_first_rule(std::string_view text, KeyBytes& bytes) const {
    return append(text, 1, bytes);
  }

  bool is_simple(char c) const noexcept { return simple_[static_cast<unsigned char>(c)]; }

  // Writes the weights that a rule has for one simple character behind another. Characters that it
  // goes through backward have the same weight or none: only their number matters. The weights must
  // outlive this.
  class Writer {
   public:
    // This many weights may come later than their characters.
    static constexpr std::size_t kMostBehind = 2;

    Writer(const CharacterWeights& weights, std::size_t rule) noexcept
        : rule_(&weights.rules_[rule]) {}
    // Writes weights as words, whose other bytes are any, and returns the end of them.
    char* write(char c, char* to) noexcept {
      const Weight& own = rule_->weights[static_cast<unsigned char>(c)];
      return rule_->backward ? write_in_run(own, to) : copy(own, to);
    }
    char* write_all(std::string_view text, char* to) noexcept {
      if (rule_->backward) {
        for (const char c : text) to = write(c, to);
        return to;
      }
      const Weight* const weights = rule_->weights.data();
      for (const char c : text) to = copy(weights[static_cast<unsigned char>(c)], to);
      return to;
    }
    // Writes the weights that are still to come behind the last character.
    char* end(char* to) noexcept {
      for (std::size_t* const late : {&last_but_one_, &last_}) {
        std::memcpy(to, &rule_->run_weight.bytes, sizeof rule_->run_weight.bytes);
        to += std::exchange(*late, 0);
      }
      return to;
    }

   private:
    friend class CharacterWeights;
    struct Weight {
      std::uint64_t bytes = 0;  // seven at most, the first in the lowest byte
      std::uint32_t length = 0;
      bool backward = false;
    };
    struct Rule {
      bool backward = false;  // for some character
      Weight run_weight;      // of those, unless they are ignored
      std::array<Weight, 128> weights{};
    };
    // A weight that may be left out is written late. No branch depends on the text.
    char* write_in_run(const Weight& own, char* to) noexcept {
      std::memcpy(to, &rule_->run_weight.bytes, sizeof own.bytes);
      to += own.backward ? last_but_one_ : last_;
      std::memcpy(to, &own.bytes, sizeof own.bytes);
      to += own.backward ? 0 : own.length;
      last_but_one_ = own.backward ? last_ : 0;
      last_ = own.backward ? own.length : 0;
      return to;
    }
    static char* copy(const Weight& weight, char* to) noexcept {
      std::memcpy(to, &weight.bytes, sizeof weight.bytes);
      return to + weight.length;
    }

    const Rule* rule_;
    // How long the weights of the last backward characters side by side are: all of it or nothing.
    std::size_t last_ = 0;
    std::size_t last_but_one_ = 0;
  };

  std::size_t rules() const noexcept { return rules_.size(); }

 private:
  using Rule = Writer::Rule;
  using Weight = Writer::Weight;

  bool append(std::string_view text, std::size_t rules, KeyBytes& bytes) const;
  void append_simple(std::size_t rule, std::string_view text, KeyBytes& bytes) const;
  void read_weights();
  bool read_weight(char c, std::size_t rule);
  bool agrees_with_strcoll(::locale_t locale) const;

  const CollationTables tables_;
  bool known_ = false;
  std::array<bool, 256> simple_{};
  std::vector<Rule> rules_;
};

// Appends a text without NULs as strxfrm() transforms it, which strcoll() may contradict, and no
// NUL behind it. Throws Error when the locale cannot.
void append_transformed_by_libc(::locale_t locale, std::string_view text, KeyBytes& bytes);

}}  // namespace vortex::v0

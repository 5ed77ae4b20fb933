// The order of strings in a locale: what strcoll() compares, as bytes.
#pragma once

#include <locale.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/fields/collation_tables.h"
#include "lines/fields/key_bytes.h"

namespace vortex { inline namespace v0 {

// What strcoll() compares of a text (CollationTables), rule by rule, with kEndOfRule in between.
// Most characters of ASCII are simple: their weights stand one behind the other whatever is beside
// them, and are found in one step. Not so letters that form a unit ("ch" in Czech) and those that a
// rule ignores and others are counted behind. Immutable.
class CharacterWeights {
 public:
  // Compares some texts by strcoll() to see that it does what is known of it, which takes about a
  // millisecond.
  explicit CharacterWeights(::locale_t locale);

  // Appends what all rules compare of a text without NULs. False, and nothing is appended: the text
  // is empty, or the C library compares in a way of its own that is not known here.
  bool append(std::string_view text, KeyBytes& bytes) const {
    return append(text, rules_.size(), bytes);
  }
  // The same, of what the first rule compares only.
  bool append_first_rule(std::string_view text, KeyBytes& bytes) const {
    return append(text, 1, bytes);
  }

  bool is_simple(char c) const noexcept { return simple_[static_cast<unsigned char>(c)]; }

  // What a rule makes of one simple character behind another. Those that it goes through backward
  // have the same weight or none: only their number matters. The weights must outlive this.
  class Writer {
   public:
    // So many weights may come later than their characters.
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
    // The same behind the last one.
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
    // What may be left out is written late. No branch depends on the text.
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
    // How long the weights are of the last backward ones side by side: all of it or nothing.
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

// The text as strxfrm() transforms it, which strcoll() may contradict. Throws Error when the locale
// cannot. Appends no NUL; the text has none.
void append_transformed_by_libc(::locale_t locale, std::string_view text, KeyBytes& bytes);

}}  // namespace vortex::v0

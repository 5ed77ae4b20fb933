#include "lines/keys/character_weights.h"

#include <langinfo.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

// strxfrm() wants a NUL at the end of the text, and nothing else is copied for its sake.
class Terminated {
 public:
  explicit Terminated(std::string_view text) {
    if (text.size() >= short_.size()) {
      long_ = text;
      return;
    }
    std::copy(text.begin(), text.end(), short_.begin());
    short_[text.size()] = '\0';
  }
  const char* c_str() const noexcept { return long_.empty() ? short_.data() : long_.c_str(); }

 private:
  std::array<char, 512> short_;
  std::string long_;
};

std::string transformed(::locale_t locale, std::string_view text) {
  std::string bytes;
  append_transformed_by_libc(locale, text, bytes);
  return bytes;
}

}  // namespace

std::size_t collation_rules(::locale_t locale) noexcept {
  // The number lies where a pointer does for other items.
  return static_cast<std::uint32_t>(
      reinterpret_cast<std::uintptr_t>(nl_langinfo_l(_NL_COLLATE_NRULES, locale)));
}

void append_transformed_by_libc(::locale_t locale, std::string_view text, std::string& bytes) {
  const Terminated source(text);
  const std::size_t begin = bytes.size();
  for (std::size_t room = 4 * text.size() + 16;;) {
    bytes.resize(begin + room);
    errno = 0;
    const std::size_t needed = strxfrm_l(bytes.data() + begin, source.c_str(), room, locale);
    if (errno != 0) throw Error(errno, "a line cannot be compared by the rules of its locale");
    bytes.resize(begin + std::min(needed, room));
    if (needed < room) return;
    room = needed + 1;
  }
}

CharacterWeights::CharacterWeights(::locale_t locale) {
  const std::size_t rules = collation_rules(locale);
  if (rules == 0) return;
  read_weights(locale, rules);
  forget_unlike_pairs(locale);
  if (!holds_for_longer_texts(locale)) simple_.fill(false);
}

void CharacterWeights::read_weights(::locale_t locale, std::size_t rules) {
  rules_.resize(rules);
  for (std::size_t c = 1; c < kCharacters; ++c) {
    const std::string bytes = transformed(locale, std::string(1, static_cast<char>(c)));
    std::string_view left = bytes;
    bool simple = true;
    for (std::size_t rule = 0; rule < rules && simple; ++rule) {
      const bool last = rule + 1 == rules;  // its weights may have the separator in them
      const std::size_t end = last ? left.size() : left.find(kEndOfRule);
      Weight& weight = rules_[rule][c];
      simple = end != left.npos && end < sizeof weight.bytes;
      if (!simple) break;
      std::memcpy(&weight.bytes, left.data(), end);
      weight.length = end;
      left.remove_prefix(std::min(left.size(), last ? end : end + 1));
    }
    simple_[c] = simple;
    if (simple) longest_ = std::max(longest_, bytes.size());
  }
}

std::string CharacterWeights::simple_characters() const {
  std::string characters;
  for (std::size_t c = 0; c < kCharacters; ++c) {
    if (simple_[c]) characters += static_cast<char>(c);
  }
  return characters;
}

// Of two that are something else side by side one has to go: the one that is so in more company.
void CharacterWeights::forget_unlike_pairs(::locale_t locale) {
  const std::string characters = simple_characters();
  std::array<std::array<bool, kCharacters>, kCharacters> unlike{};
  std::string ours;
  for (const char a : characters) {
    for (const char b : characters) {
      const char pair[] = {a, b};
      const std::string_view text(pair, 2);
      ours.clear();
      append(text, ours);
      unlike[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
          ours != transformed(locale, text);
    }
  }
  for (;;) {
    std::size_t most = 0;
    std::size_t worst = 0;
    for (std::size_t a = 0; a < kCharacters; ++a) {
      std::size_t pairs = 0;
      for (std::size_t b = 0; b < kCharacters; ++b) {
        if (simple_[a] && simple_[b]) pairs += unlike[a][b] + unlike[b][a];
      }
      if (pairs > most) {
        most = pairs;
        worst = a;
      }
    }
    if (most == 0) return;
    simple_[worst] = false;
  }
}

bool CharacterWeights::holds_for_longer_texts(::locale_t locale) const {
  constexpr int kTexts = 2000;
  constexpr std::size_t kLongest = 12;
  const std::string characters = simple_characters();
  if (characters.empty()) return true;
  std::mt19937 random(1);
  std::string ours;
  for (int i = 0; i < kTexts; ++i) {
    std::string text(3 + random() % (kLongest - 2), ' ');
    for (char& c : text) c = characters[random() % characters.size()];
    ours.clear();
    append(text, ours);
    if (ours != transformed(locale, text)) return false;
  }
  return true;
}

bool CharacterWeights::append(std::string_view text, std::size_t rules, std::string& bytes) const {
  bool simple = true;
  for (const char c : text) simple &= is_simple(c);
  if (!simple || text.empty()) return false;
  const std::size_t begin = bytes.size();
  // A weight is written as a word.
  bytes.resize(begin + text.size() * longest_ + rules + sizeof(std::uint64_t));
  char* to = bytes.data() + begin;
  for (std::size_t i = 0; i < rules; ++i) {
    const Rule& rule = rules_[i];
    if (i > 0) *to++ = kEndOfRule;
    for (const char c : text) {
      const Weight& weight = rule[static_cast<unsigned char>(c)];
      std::memcpy(to, &weight.bytes, sizeof weight.bytes);
      to += weight.length;
    }
  }
  bytes.resize(static_cast<std::size_t>(to - bytes.data()));
  return true;
}

}  // namespace vortex::inline v0

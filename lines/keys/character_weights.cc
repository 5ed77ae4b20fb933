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

constexpr std::size_t kPiece = 1024;  // characters

std::string transformed(::locale_t locale, std::string_view text) {
  std::string transformed;
  KeyBytes bytes(transformed);
  append_transformed_by_libc(locale, text, bytes);
  bytes.finish();
  return transformed;
}

}  // namespace

std::size_t collation_rules(::locale_t locale) noexcept {
  // The number lies where a pointer does for other items.
  return static_cast<std::uint32_t>(
      reinterpret_cast<std::uintptr_t>(nl_langinfo_l(_NL_COLLATE_NRULES, locale)));
}

void append_transformed_by_libc(::locale_t locale, std::string_view text, KeyBytes& bytes) {
  // strxfrm() wants a NUL at the end of the text, and gets it in front of what it writes.
  const std::size_t begin = bytes.size();
  bytes += text;
  bytes += '\0';
  const std::size_t behind = bytes.size();
  for (std::size_t wanted = 4 * text.size() + 16;;) {
    const std::size_t room = std::min(wanted, bytes.most_more());
    char* const to = bytes.more(room);
    errno = 0;
    const std::size_t needed = strxfrm_l(to, bytes.data() + begin, room, locale);
    if (errno != 0) throw Error(errno, "a line cannot be compared by the rules of its locale");
    if (needed < room) {
      std::memmove(bytes.data() + begin, to, needed);
      bytes.cut(begin + needed);
      return;
    }
    if (room < wanted) throw KeyRoomFull();
    bytes.cut(behind);
    wanted = needed + 1;
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
  std::string string;
  KeyBytes ours(string);
  for (const char a : characters) {
    for (const char b : characters) {
      const char pair[] = {a, b};
      const std::string_view text(pair, 2);
      ours.clear();
      append(text, ours);
      unlike[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
          ours.view() != transformed(locale, text);
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
  std::string string;
  KeyBytes ours(string);
  for (int i = 0; i < kTexts; ++i) {
    std::string text(3 + random() % (kLongest - 2), ' ');
    for (char& c : text) c = characters[random() % characters.size()];
    ours.clear();
    append(text, ours);
    if (ours.view() != transformed(locale, text)) return false;
  }
  return true;
}

void CharacterWeights::append_weights(const Rule& rule, std::string_view text, KeyBytes& bytes) {
  // A weight is written as a word.
  char* to = bytes.more((text.size() + 1) * sizeof(std::uint64_t));
  for (const char c : text) to = write(rule, c, to);
  bytes.cut(static_cast<std::size_t>(to - bytes.data()));
}

bool CharacterWeights::append(std::string_view text, std::size_t rules, KeyBytes& bytes) const {
  bool simple = true;
  for (const char c : text) simple &= is_simple(c);
  if (!simple || text.empty()) return false;
  for (std::size_t i = 0; i < rules; ++i) {
    if (i > 0) bytes += kEndOfRule;
    // By pieces: the room for a long text would be far larger than what is written.
    for (std::size_t at = 0; at < text.size(); at += kPiece) {
      append_weights(rules_[i], text.substr(at, kPiece), bytes);
    }
  }
  return true;
}

}  // namespace vortex::inline v0

#include "lines/fields/character_weights.h"

#include <string.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kPiece = 1024;  // characters

int sign(int compared) { return (compared > 0) - (compared < 0); }

// Pieces of texts in which rules find different things: letters of two cases, digits, punctuation,
// controls, accents in UTF-8 and in one byte, scripts, ideographs, bytes that are no characters.
constexpr const char* kPieces[] = {"a",
                                   "A",
                                   "b",
                                   "c",
                                   "h",
                                   "ch",
                                   "i",
                                   "I",
                                   "z",
                                   "0",
                                   "1",
                                   "42",
                                   ".",
                                   "-",
                                   "_",
                                   "/",
                                   " ",
                                   "$",
                                   ",",
                                   "\t",
                                   "\x01",
                                   "\xc3\xa9",
                                   "\xc3\x89",
                                   "\xc3\xbc",
                                   "\xc3\x9f",
                                   "\xc4\xb1",
                                   "\xc5\x99",
                                   "\xcc\x81",
                                   "\xe2\x82\xac",
                                   "\xce\xb1",
                                   "\xd0\x96",
                                   "\xe6\x97\xa5",
                                   "\xea\xb0\x80",
                                   "\xd9\xa3",
                                   "\xf0\x9f\x98\x80",
                                   "\xe9",
                                   "\xc4",
                                   "\xff"};

}  // namespace

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

CharacterWeights::CharacterWeights(::locale_t locale) : tables_(locale) {
  if (tables_.rules() == 0) return;
  rules_.resize(tables_.rules());
  read_weights();
  known_ = agrees_with_strcoll(locale);
  if (!known_) simple_.fill(false);
}

void CharacterWeights::read_weights() {
  for (char c = 1; c > 0; ++c) {
    bool simple = tables_.stands_alone(c);
    for (std::size_t rule = 0; rule < rules_.size() && simple; ++rule) {
      simple = read_weight(c, rule);
    }
    simple_[static_cast<unsigned char>(c)] = simple;
  }
}

// False: the character is not simple.
bool CharacterWeights::read_weight(char c, std::size_t rule) {
  const char* at = &c;
  const CollationTables::Element element = tables_.next(at, at + 1);
  const std::string_view bytes = tables_.weight(element, rule);
  Weight weight;
  weight.backward = tables_.is_backward(element, rule);
  if (tables_.has_positions(rule)) {
    if (bytes.empty() || weight.backward) return false;
    weight.bytes = static_cast<unsigned char>(kEndOfRule);
    weight.length = 1;
  }
  if (weight.length + bytes.size() >= sizeof weight.bytes) return false;
  std::memcpy(reinterpret_cast<char*>(&weight.bytes) + weight.length, bytes.data(), bytes.size());
  weight.length += static_cast<std::uint32_t>(bytes.size());
  Rule& all = rules_[rule];
  if (weight.backward && weight.length > 0) {
    if (all.run_weight.length > 0 && all.run_weight.bytes != weight.bytes) return false;
    all.run_weight = weight;
  }
  all.backward |= weight.backward;
  all.weights[static_cast<unsigned char>(c)] = weight;
  return true;
}

bool CharacterWeights::agrees_with_strcoll(::locale_t locale) const {
  constexpr int kTexts = 1500;
  constexpr std::size_t kMostPieces = 6;
  std::mt19937 random(1);
  const auto some = [&](std::size_t below) { return random() % below; };
  std::string texts[2];
  std::string key_strings[2];
  for (int i = 0; i < kTexts; ++i) {
    // Every second text is like the one before, so that later rules decide.
    std::string& text = texts[i % 2];
    if (i % 2 != 0) text = texts[0];
    const std::size_t pieces = i % 2 == 0 ? 1 + some(kMostPieces) : 1 + some(2);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      text.insert(some(text.size() + 1), kPieces[some(std::size(kPieces))]);
    }
    if (i % 2 == 0) continue;
    std::string ours[2];
    for (int side = 0; side < 2; ++side) {
      KeyBytes bytes(ours[side]);
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        if (rule > 0) bytes += kEndOfRule;
        tables_.append(rule, texts[side], bytes);
      }
      bytes.finish();
    }
    const int theirs = strcoll_l(texts[0].c_str(), texts[1].c_str(), locale);
    if (sign(ours[0].compare(ours[1])) != sign(theirs)) return false;
    texts[0].clear();
  }
  return true;
}

void CharacterWeights::append_simple(std::size_t rule, std::string_view text,
                                     KeyBytes& bytes) const {
  Writer writer(*this, rule);
  // By pieces: the room for a long text would be far larger than what is written.
  for (std::size_t at = 0; at < text.size(); at += kPiece) {
    const std::string_view piece = text.substr(at, kPiece);
    char* to = bytes.more((piece.size() + Writer::kMostBehind) * sizeof(std::uint64_t));
    to = writer.write_all(piece, to);
    if (at + piece.size() == text.size()) to = writer.end(to);
    bytes.cut(static_cast<std::size_t>(to - bytes.data()));
  }
}

bool CharacterWeights::append(std::string_view text, std::size_t rules, KeyBytes& bytes) const {
  if (!known_ || text.empty()) return false;
  bool simple = true;
  for (const char c : text) simple &= is_simple(c);
  for (std::size_t rule = 0; rule < rules; ++rule) {
    if (rule > 0) bytes += kEndOfRule;
    if (simple) {
      append_simple(rule, text, bytes);
    } else {
      tables_.append(rule, text, bytes);
    }
  }
  return true;
}

}}  // namespace vortex::v0

#include "lines/fields/collation.h"

#include <string.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

template <typename T>
const T* item(::locale_t locale, ::nl_item which) noexcept {
  return reinterpret_cast<const T*>(locale_item(which, locale));
}

std::int32_t load(const unsigned char* from) noexcept {
  std::int32_t value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Appends a number of at least 2 so that greater ones have greater bytes, and none begins another.
void append_weight_number(std::uint64_t number, KeyBytes& bytes) {
  std::size_t length = 1;
  while (length < sizeof number && number >> 8 * length != 0) ++length;
  bytes += static_cast<char>(length);
  while (length-- > 0) bytes += static_cast<char>(number >> 8 * length);
}

constexpr std::size_t kPiece = 1024;  // characters

int sign(int compared) { return (compared > 0) - (compared < 0); }

// Pieces of texts in which rules find different things, with a bar behind each: letters of two
// cases, digits, punctuation, controls, accents in UTF-8 and in one byte, scripts, ideographs, and
// bytes that are no characters.
constexpr std::string_view kPieces =
    "a|A|b|c|h|ch|i|I|z|0|1|42|.|-|_|/| |$|,|\t|\x01|"
    "\xc3\xa9|\xc3\x89|\xc3\xbc|\xc3\x9f|\xc4\xb1|\xc5\x99|\xcc\x81|\xe2\x82\xac|"
    "\xce\xb1|\xd0\x96|\xe6\x97\xa5|\xea\xb0\x80|\xd9\xa3|\xf0\x9f\x98\x80|\xe9|\xc4|\xff|";

std::vector<std::string_view> all_pieces() {
  std::vector<std::string_view> pieces;
  for (std::string_view left = kPieces; !left.empty();) {
    pieces.push_back(left.substr(0, left.find('|')));
    left.remove_prefix(pieces.back().size() + 1);
  }
  return pieces;
}

}  // namespace

const char* locale_item(::nl_item which, ::locale_t locale) noexcept {
  const ::locale_t before = uselocale(locale);
  const char* const item = nl_langinfo_l(which, locale);
  uselocale(before);
  return item;
}

std::size_t collation_rules(::locale_t locale) noexcept {
  // The number lies where a pointer does for other items.
  return static_cast<std::uint32_t>(
      reinterpret_cast<std::uintptr_t>(locale_item(_NL_COLLATE_NRULES, locale)));
}

CollationTables::CollationTables(::locale_t locale)
    : rules_(collation_rules(locale)),
      kinds_(item<unsigned char>(locale, _NL_COLLATE_RULESETS)),
      table_(item<std::int32_t>(locale, _NL_COLLATE_TABLEMB)),
      lists_(item<unsigned char>(locale, _NL_COLLATE_EXTRAMB)),
      ranges_(item<std::int32_t>(locale, _NL_COLLATE_INDIRECTMB)),
      weights_(item<unsigned char>(locale, _NL_COLLATE_WEIGHTMB)) {}

// What was found is the place of the weights and, in the highest byte, the script.
CollationTables::Element CollationTables::element(std::int32_t found) noexcept {
  return {static_cast<std::uint32_t>(found) & 0xffffff, static_cast<std::uint8_t>(found >> 24)};
}

CollationTables::Element CollationTables::next(const char*& at, const char* end) const noexcept {
  const std::int32_t found = table_[static_cast<unsigned char>(*at++)];
  return found < 0 ? next_of_several(found, at, end) : element(found);
}

// Entries are an element and the bytes behind the first one, or ranges of characters of the same
// length, the first and the last of them; each is padded to words. The last entry has no bytes.
CollationTables::Entry CollationTables::read_entry(const unsigned char* from) noexcept {
  const std::int32_t found = load(from);
  const std::size_t length = from[sizeof found];
  const std::size_t bytes = sizeof found + 1 + (found < 0 ? 2 : 1) * length;
  return {found, length, from + sizeof found + 1, from + (bytes + 3) / 4 * 4};
}

bool CollationTables::stands_alone(char c) const noexcept {
  const std::int32_t list = table_[static_cast<unsigned char>(c)];
  if (list >= 0) return true;
  for (Entry entry = read_entry(lists_ - list); entry.length > 0;
       entry = read_entry(entry.behind)) {
    const auto is_ascii = [](unsigned char byte) { return byte < 128; };
    if (std::all_of(entry.first, entry.first + entry.length, is_ascii)) return false;
  }
  return true;
}

CollationTables::Element CollationTables::next_of_several(std::int32_t list, const char*& at,
                                                          const char* end) const noexcept {
  const auto left = static_cast<std::size_t>(end - at);
  for (Entry entry = read_entry(lists_ - list);; entry = read_entry(entry.behind)) {
    const auto [found, length, first, behind] = entry;
    if (length > left) continue;
    const int compared = std::memcmp(at, first, length);
    const bool range = found < 0;
    if (compared < 0 || (compared > 0 && !range)) continue;
    if (range && std::memcmp(at, first + length, length) > 0) continue;
    std::ptrdiff_t offset = 0;  // in the range
    for (std::size_t i = 0; i < length; ++i) {
      offset = offset * 256 + (static_cast<unsigned char>(at[i]) - first[i]);
    }
    at += length;
    return element(range ? ranges_[offset - found] : found);
  }
}

std::string_view CollationTables::weight(Element element, std::size_t rule) const noexcept {
  const unsigned char* at = weights_ + element.at;
  while (rule-- > 0) at += 1 + *at;
  return {reinterpret_cast<const char*>(at + 1), *at};
}

void CollationTables::append(std::size_t rule, std::string_view text, KeyBytes& bytes) const {
  if (has_positions(rule)) {
    append_with_positions(rule, text, bytes);
  } else {
    append_in_order(rule, text, bytes);
  }
}

void CollationTables::append_with_positions(std::size_t rule, std::string_view text,
                                            KeyBytes& bytes) const {
  constexpr char kSomeIgnored = '\xff';  // no weight begins with it
  const char* at = text.data();
  const char* const end = at + text.size();
  std::uint64_t ignored = 0;
  while (at != end) {
    const std::string_view own = weight(next(at, end), rule);
    if (own.empty()) {
      ++ignored;
      continue;
    }
    bytes += kEndOfRule;
    if (ignored > 0) {
      bytes += kSomeIgnored;
      append_weight_number(ignored, bytes);
      ignored = 0;
    }
    bytes += own;
  }
}

// Where an ignored character and a run stand between two weights, strcoll() takes the elements of
// the run but for its last one from where the first of the two ended.
void CollationTables::append_in_order(std::size_t rule, std::string_view text,
                                      KeyBytes& bytes) const {
  const char* at = text.data();
  const char* const end = at + text.size();
  const char* counted_from = at;
  std::size_t run = 0;
  Element last;  // of the run
  while (at != end) {
    const Element element = next(at, end);
    if (is_backward(element, rule)) {
      last = element;
      ++run;
      continue;
    }
    if (run > 0) {
      bytes += weight(last, rule);
      append_run(rule, counted_from, run < 2 ? 0 : run - 2, end, bytes);
      run = 0;
      counted_from = at;
    }
    const std::string_view own = weight(element, rule);
    bytes += own;
    if (!own.empty()) counted_from = at;
  }
  if (run == 0) return;
  bytes += weight(last, rule);
  append_run(rule, counted_from, run - 1, end, bytes);
}

// Appends the weights of elements, the last one first.
void CollationTables::append_run(std::size_t rule, const char* begin, std::size_t elements,
                                 const char* end, KeyBytes& bytes) const {
  std::size_t length = 0;
  const char* at = begin;
  for (std::size_t i = 0; i < elements; ++i) length += weight(next(at, end), rule).size();
  char* to = bytes.more(length) + length;
  at = begin;
  for (std::size_t i = 0; i < elements; ++i) {
    const std::string_view own = weight(next(at, end), rule);
    to -= own.size();
    std::copy(own.begin(), own.end(), to);
  }
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

// Returns false where the character is not simple.
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
  const std::vector<std::string_view> all = all_pieces();
  std::string texts[2];
  for (int i = 0; i < kTexts; ++i) {
    // Every second text is like the one before, so that later rules decide.
    std::string& text = texts[i % 2];
    if (i % 2 != 0) text = texts[0];
    const std::size_t pieces = i % 2 == 0 ? 1 + some(kMostPieces) : 1 + some(2);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      text.insert(some(text.size() + 1), all[some(all.size())]);
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
  // A long text is written by pieces: room for all of it would be far larger than what is written.
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

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "lines/fields/collation.h"
#include "lines/keys/field_encoders.h"

namespace vortex { inline namespace v0 {

namespace {

// A NUL ends each text of a key: 0 behind it says that there is no text, 1 that it is the last one,
// 2 that another follows.
constexpr std::string_view kNoText("\0\0", 2);
constexpr std::string_view kLastText("\0\1", 2);
constexpr std::string_view kAnotherText("\0\2", 2);

// Appends what strcoll() compares of a text without NULs, and no NUL behind it. Throws Error when
// the locale cannot.
void append_transformed(const KeyLocale& locale, std::string_view text, KeyBytes& bytes) {
  if (!text.empty() && !locale.weights().append(text, bytes)) {
    append_transformed_by_libc(locale.handle(), text, bytes);
  }
}

// The bytes that append_collated() makes of the characters of a field that count, in pieces that
// need no memory: rule after rule over simple characters. A text between NULs that has other
// characters is transformed as a whole.
class CollationPieces {
 public:
  // All of it must outlive this.
  CollationPieces(const KeyLocale& locale, std::string_view field, const CharacterChoice& choice)
      : locale_(locale), weights_(locale.weights()), choice_(choice), left_(field) {
    begin_text();
  }
  CollationPieces(const CollationPieces&) = delete;
  CollationPieces& operator=(const CollationPieces&) = delete;

  // The bytes behind those of before, valid until the next call; none behind the last.
  std::string_view next();

 private:
  static constexpr std::size_t kCharacters = 1024;  // whose weights are made together

  enum class State : std::uint8_t { kText, kTextEnd, kEnd };

  void begin_text() noexcept;
  std::string_view next_weights() noexcept;
  void transform();
  std::string_view end_text() noexcept;

  const KeyLocale& locale_;
  const CharacterWeights& weights_;
  const CharacterChoice& choice_;
  std::string_view left_;  // the field, from the text in hand on
  std::string_view text_;  // the text in hand, which ends in front of a NUL or with the field
  bool empty_ = false;     // none of its characters counts
  bool simple_ = false;    // all of its characters that count are simple
  bool last_ = false;      // no NUL is behind it
  bool first_ = true;      // no NUL is in front of it
  State state_ = State::kText;
  std::size_t rule_ = 0;
  std::size_t at_ = 0;                              // in the text
  std::optional<CharacterWeights::Writer> writer_;  // for the rule
  std::string transformed_;                         // a text that is not simple
  // The end of a rule, and weights, which are written as words. It is not initialised, for most of
  // it is not needed.
  std::array<char,
             1 + (kCharacters + CharacterWeights::Writer::kMostBehind) * sizeof(std::uint64_t)>
      piece_;
};

void CollationPieces::begin_text() noexcept {
  empty_ = simple_ = last_ = true;
  std::size_t at = 0;
  for (; at < left_.size(); ++at) {
    if (!choice_.counts(left_[at])) continue;
    const char c = choice_.as(left_[at]);
    if (c == '\0') {
      last_ = false;
      break;
    }
    empty_ = false;
    simple_ &= weights_.is_simple(c);
  }
  text_ = left_.substr(0, at);
  rule_ = at_ = 0;
  if (simple_ && !empty_) writer_.emplace(weights_, rule_);
  state_ = State::kText;
}

std::string_view CollationPieces::next() {
  if (state_ == State::kText && simple_ && !empty_) {
    if (const std::string_view piece = next_weights(); !piece.empty()) return piece;
  } else if (state_ == State::kText && !(empty_ && first_ && last_)) {
    transform();
    state_ = State::kTextEnd;
    if (!transformed_.empty()) return transformed_;
  }
  return state_ == State::kEnd ? std::string_view() : end_text();
}

// Returns nothing when the last rule has ended.
std::string_view CollationPieces::next_weights() noexcept {
  char* to = piece_.data();
  while (to == piece_.data()) {
    if (at_ == text_.size()) {
      if (rule_ + 1 == weights_.rules()) break;
      writer_.emplace(weights_, ++rule_);
      at_ = 0;
      *to++ = kEndOfRule;
    }
    const std::string_view characters = text_.substr(at_, kCharacters);
    at_ += characters.size();
    for (const char c : characters) {
      if (choice_.counts(c)) to = writer_->write(choice_.as(c), to);
    }
    if (at_ == text_.size()) to = writer_->end(to);
  }
  return {piece_.data(), static_cast<std::size_t>(to - piece_.data())};
}

void CollationPieces::transform() {
  std::string room;
  KeyBytes chosen(room), bytes(transformed_);
  bytes.clear();
  append_transformed(locale_, choice_.chosen_of(text_, chosen), bytes);
  bytes.finish();
}

std::string_view CollationPieces::end_text() noexcept {
  transformed_ = {};
  if (last_) {
    state_ = State::kEnd;
    return empty_ && first_ ? kNoText : kLastText;
  }
  first_ = false;
  left_.remove_prefix(text_.size() + 1);
  begin_text();
  return kAnotherText;
}

}  // namespace

void append_collated(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  if (field.empty()) {
    bytes += kNoText;
    return;
  }
  for (;;) {
    const std::size_t end = std::min(field.find('\0'), field.size());
    append_transformed(rules.locale, field.substr(0, end), bytes);
    bytes += end == field.size() ? kLastText : kAnotherText;
    if (end == field.size()) return;
    field.remove_prefix(end + 1);
  }
}

// No weight begins with a byte that is less than the end of a rule; the end of the text is less.
void append_first_rule(std::string_view field, const KeyLocale& locale, KeyBytes& bytes) {
  field = field.substr(0, field.find('\0'));
  if (!field.empty() && !locale.weights().append_first_rule(field, bytes)) {
    const std::size_t begin = bytes.size();
    append_transformed_by_libc(locale.handle(), field, bytes);
    bytes.cut(std::min(bytes.view().find(kEndOfRule, begin), bytes.size()));
  }
  bytes += '\0';
}

int compare_collated(std::string_view a, std::string_view b, const KeyLocale& locale,
                     const CharacterChoice& choice) {
  if (a == b) return 0;
  CollationPieces pieces_of_a(locale, a, choice);
  CollationPieces pieces_of_b(locale, b, choice);
  std::string_view left;
  std::string_view right;
  for (;;) {
    if (left.empty()) left = pieces_of_a.next();
    if (right.empty()) right = pieces_of_b.next();
    const std::size_t both = std::min(left.size(), right.size());
    if (both == 0) return left.compare(right);
    const int compared = std::memcmp(left.data(), right.data(), both);
    if (compared != 0) return compared;
    left.remove_prefix(both);
    right.remove_prefix(both);
  }
}

}}  // namespace vortex::v0

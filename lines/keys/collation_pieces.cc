#include "lines/keys/collation_pieces.h"

#include <algorithm>

#include "lines/fields/key_bytes.h"
#include "lines/keys/collation_key.h"

namespace vortex { inline namespace v0 {

CollationPieces::CollationPieces(const KeyLocale& locale, std::string_view field,
                                 const CharacterChoice& choice)
    : locale_(locale), weights_(locale.weights()), choice_(choice), left_(field) {
  begin_text();
}

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

// None: the last rule has nothing more to say.
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
  std::string chosen;
  if (!choice_.all()) {
    for (const char c : text_) {
      if (choice_.counts(c)) chosen += choice_.as(c);
    }
  }
  KeyBytes bytes(transformed_);
  bytes.clear();
  append_transformed(locale_, choice_.all() ? text_ : chosen, bytes);
  bytes.finish();
}

// As the key has it behind each text: of a field without characters it is all.
std::string_view CollationPieces::end_text() noexcept {
  transformed_ = {};
  if (last_) {
    state_ = State::kEnd;
    return empty_ && first_ ? std::string_view("\0\0", 2) : std::string_view("\0\1", 2);
  }
  first_ = false;
  left_.remove_prefix(text_.size() + 1);
  begin_text();
  return {"\0\2", 2};
}

}}  // namespace vortex::v0

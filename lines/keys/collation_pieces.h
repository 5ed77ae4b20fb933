// The key of a text in a locale, a piece at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lines/fields/character_choice.h"
#include "lines/fields/character_weights.h"
#include "lines/fields/key_locale.h"

namespace vortex { inline namespace v0 {

// What CollationKey::append() makes of the characters of a field that count, in pieces that need no
// memory: rule after rule over simple characters. A part between NULs that has others is made as a
// whole.
class CollationPieces {
 public:
  // All of it must outlive this.
  CollationPieces(const KeyLocale& locale, std::string_view field, const CharacterChoice& choice);
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
  std::string_view left_;  // of the field, from the text in hand on
  std::string_view text_;  // up to a NUL or the end
  bool empty_ = false;     // none of its characters counts
  bool simple_ = false;    // all of those that count are
  bool last_ = false;      // no NUL is behind it
  bool first_ = true;      // none was in front of it
  State state_ = State::kText;
  std::size_t rule_ = 0;
  std::size_t at_ = 0;                              // in the text
  std::optional<CharacterWeights::Writer> writer_;  // of the rule
  std::string transformed_;                         // of a text that is not simple
  // Not set: most of it is not needed. The end of a rule, and weights, which are written as words.
  std::array<char,
             1 + (kCharacters + CharacterWeights::Writer::kMostBehind) * sizeof(std::uint64_t)>
      piece_;
};

}}  // namespace vortex::v0

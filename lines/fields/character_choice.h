// What of a field counts.
#pragma once

#include <array>
#include <cstddef>

#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"

namespace vortex { inline namespace v0 {

// The characters that d and i leave out, and those that f folds. Immutable.
class CharacterChoice {
 public:
  CharacterChoice(const KeyLocale& locale, const KeyFlags& flags) noexcept
      : all_(!(flags.dictionary || flags.printable || flags.fold)),
        all_count_(!(flags.dictionary || flags.printable)) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const char c = static_cast<char>(i);
      counts_[i] =
          flags.dictionary ? locale.in_dictionary(c) : !flags.printable || locale.is_printable(c);
      as_[i] = flags.fold ? locale.to_upper(c) : c;
    }
  }

  // Each character counts, as it stands.
  bool all() const noexcept { return all_; }
  // Each character counts, folded or not.
  bool all_count() const noexcept { return all_count_; }
  bool counts(char c) const noexcept { return counts_[static_cast<unsigned char>(c)]; }
  const std::array<char, 256>& map() const noexcept { return as_; }
  char as(char c) const noexcept { return as_[static_cast<unsigned char>(c)]; }

 private:
  const bool all_;
  const bool all_count_;
  std::array<bool, 256> counts_{};
  std::array<char, 256> as_{};
};

}}  // namespace vortex::v0

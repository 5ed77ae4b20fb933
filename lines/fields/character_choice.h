// The characters of a field that count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lines/fields/key_bytes.h"
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

  void append_chosen(std::string_view field, KeyBytes& bytes) const {
    if (all_) {
      bytes += field;
    } else if (all_count_) {
      std::transform(field.begin(), field.end(), bytes.more(field.size()),
                     [this](char c) { return as(c); });
    } else {
      for (const char c : field) {
        if (counts(c)) bytes += as(c);
      }
    }
  }
  // Returns the characters that count: the field itself where it counts as it stands, else a text
  // in `room`.
  std::string_view chosen_of(std::string_view field, KeyBytes& room) const {
    if (all_) return field;
    room.clear();
    append_chosen(field, room);
    return room.view();
  }

 private:
  const bool all_;
  const bool all_count_;
  std::array<bool, 256> counts_{};
  std::array<char, 256> as_{};
};

}}  // namespace vortex::v0

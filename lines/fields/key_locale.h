// The rules of a locale for the keys of lines.
#pragma once

#include <locale.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lines/fields/collation.h"

namespace vortex { inline namespace v0 {

inline bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// One locale, read once: nothing here depends on what the program has set. Immutable; any number of
// threads may use it. Characters are bytes, as in GNU sort.
class KeyLocale {
 public:
  static constexpr int kNone = -1;

  struct Month {
    std::string name;  // without blanks, in upper case
    unsigned char number = 0;
  };

  // Takes a name as newlocale() does, "" for what the environment says. Throws Error(ENOENT).
  explicit KeyLocale(const std::string& name);
  ~KeyLocale();

  // Blanks separate fields where no separator is given, and so does the newline in lines that end
  // with NUL.
  bool is_blank(char c) const noexcept { return blank_[index(c)]; }
  bool in_dictionary(char c) const noexcept { return dictionary_[index(c)]; }
  bool is_printable(char c) const noexcept { return printable_[index(c)]; }
  char to_upper(char c) const noexcept { return upper_[index(c)]; }

  std::string_view without_leading_blanks(std::string_view text) const noexcept;

  char decimal_point() const noexcept { return decimal_point_; }
  // The byte that may stand among the digits of a number; below 0 there is none. GNU sort compares
  // bytes with a char: where chars are signed, a separator above 0x7f is equal to no byte.
  int thousands_separator() const noexcept {
    return thousands_separator_ == kNone ? kNone : static_cast<char>(thousands_separator_);
  }

  // A number without a sign at the beginning of a text, as GNU sort finds its end.
  struct NumberAt {
    std::size_t bytes = 0;  // it takes, a point behind it included; 0: the text begins with none
    char largest = '\0';    // of its digits
  };
  NumberAt number_at(std::string_view text) const noexcept;
  // The month whose short name the text begins with, in letters of either case; null: none. Where
  // one name begins with another, the one that GNU sort finds.
  const Month* month_at(std::string_view text) const noexcept;

  // Whether the order of strings is that of "C" or "POSIX" by name.
  bool is_c() const noexcept { return is_c_; }
  // Whether strings are ordered by their bytes, as in C.UTF-8, too.
  bool collates_bytes() const noexcept { return collates_bytes_; }
  ::locale_t handle() const noexcept { return locale_; }
  // Made by the first call.
  const CharacterWeights& weights() const {
    std::call_once(weights_once_, [this] { weights_.emplace(locale_); });
    return *weights_;
  }

 private:
  static std::size_t index(char c) noexcept { return static_cast<unsigned char>(c); }
  void read_characters() noexcept;
  void read_numbers() noexcept;
  void read_months();

  ::locale_t locale_;
  std::array<bool, 256> blank_{};
  std::array<bool, 256> dictionary_{};
  std::array<bool, 256> printable_{};
  std::array<char, 256> upper_{};
  char decimal_point_ = '.';
  int thousands_separator_ = kNone;
  bool is_c_ = true;
  bool collates_bytes_ = true;
  std::vector<Month> months_;  // by name
  mutable std::once_flag weights_once_;
  mutable std::optional<CharacterWeights> weights_;
};

}}  // namespace vortex::v0

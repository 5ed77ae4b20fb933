#include "lines/fields/key_locale.h"

#include <ctype.h>

#include <algorithm>
#include <cerrno>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

KeyLocale::KeyLocale(const std::string& name)
    : locale_(newlocale(LC_ALL_MASK, name.c_str(), nullptr)) {
  if (locale_ == nullptr) {
    throw Error(errno, "the locale '" + name + "' is not installed here");
  }
  read_characters();
  read_numbers();
  collates_bytes_ = collation_rules(locale_) == 0;
  const std::string_view order = locale_item(_NL_LOCALE_NAME(LC_COLLATE), locale_);
  is_c_ = order == "C" || order == "POSIX";
  read_months();
}

KeyLocale::~KeyLocale() { freelocale(locale_); }

void KeyLocale::read_characters() noexcept {
  for (int c = 0; c < 256; ++c) {
    const auto at = static_cast<std::size_t>(c);
    blank_[at] = isblank_l(c, locale_) != 0 || c == '\n';
    dictionary_[at] = blank_[at] || isalnum_l(c, locale_) != 0;
    printable_[at] = isprint_l(c, locale_) != 0;
    upper_[at] = static_cast<char>(toupper_l(c, locale_));
  }
}

// A separator of several bytes counts as none, as in GNU sort.
void KeyLocale::read_numbers() noexcept {
  const std::string_view point = locale_item(RADIXCHAR, locale_);
  if (point.size() == 1) decimal_point_ = point.front();
  const std::string_view thousands = locale_item(THOUSEP, locale_);
  if (thousands.size() == 1) thousands_separator_ = static_cast<unsigned char>(thousands.front());
}

void KeyLocale::read_months() {
  for (int i = 0; i < 12; ++i) {
    Month month{.name = {}, .number = static_cast<unsigned char>(i + 1)};
    for (const char* c = locale_item(ABMON_1 + i, locale_); *c != '\0'; ++c) {
      if (isblank_l(static_cast<unsigned char>(*c), locale_) == 0) month.name += to_upper(*c);
    }
    months_.push_back(std::move(month));
  }
  std::ranges::stable_sort(months_, {}, &Month::name);
}

// One separator may stand behind each digit; one that no digit follows is no part of the number.
KeyLocale::NumberAt KeyLocale::number_at(std::string_view text) const noexcept {
  NumberAt number;
  std::size_t at = 0;
  const auto take_digits = [&](int separator) {
    for (; at < text.size() && is_digit(text[at]); ++at) {
      number.largest = std::max(number.largest, text[at]);
      number.bytes = at + 1;
      if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) == separator) ++at;
    }
    return at;
  };
  take_digits(thousands_separator_);
  if (at == number.bytes && at < text.size() && text[at] == decimal_point_) {
    ++at;
    number.bytes = take_digits(kNone);
  }
  if (number.largest == '\0') number.bytes = 0;
  return number;
}

const KeyLocale::Month* KeyLocale::month_at(std::string_view text) const noexcept {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  std::size_t low = 0;
  std::size_t high = months_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const std::string& name = months_[middle].name;
    std::size_t at = 0;
    while (at < name.size() && at < text.size() && to_upper(text[at]) == name[at]) ++at;
    if (at == name.size()) return &months_[middle];
    const bool before = at == text.size() || byte(to_upper(text[at])) < byte(name[at]);
    (before ? high : low) = before ? middle : middle + 1;
  }
  return nullptr;
}

std::string_view KeyLocale::without_leading_blanks(std::string_view text) const noexcept {
  std::size_t blanks = 0;
  while (blanks < text.size() && is_blank(text[blanks])) ++blanks;
  return text.substr(blanks);
}

}}  // namespace vortex::v0

#include "cli/gnu/key_warnings.h"

#include <fmt/format.h>
#include <langinfo.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "lines/fields/key_specification.h"

namespace vortex::cli {

namespace {

// The locale of the environment for the order of text, by its name.
std::string collation_name() {
  for (const char* const variable : {"LC_ALL", "LC_COLLATE", "LANG"}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return "C";
}

std::string quoted(std::string_view text, const KeyLocale& locale) {
  const bool unicode = std::strcmp(nl_langinfo_l(CODESET, locale.handle()), "UTF-8") == 0;
  return fmt::format("{}{}{}", unicode ? "\u2018" : "'", text, unicode ? "\u2019" : "'");
}

bool is_number(const KeyFlags& flags) {
  return flags.numeric || flags.general_numeric || flags.human_numeric;
}

// Flags that belong to the whole sort and that no key has taken over yet.
class UnusedFlags {
 public:
  explicit UnusedFlags(const KeyFlags& for_all) : left_(for_all) {}

  void use(const KeyFlags& key) {
    // d leaves out all that i leaves out, so a key that uses d counts as using i as well.
    const bool uses_printable =
        left_.dictionary ? key.dictionary : key.printable && !key.dictionary;
    const bool printable = left_.printable && !uses_printable;
    for (const auto [letter, flag] : kKeyLetters) left_.*flag &= !(key.*flag);
    left_.printable = printable;
    left_.skip_start_blanks &= !key.skip_start_blanks;
    left_.skip_end_blanks &= !key.skip_end_blanks;
  }
  const KeyFlags& left() const { return left_; }

  std::string letters(bool with_reverse) const {
    std::string letters;
    if (left_.skip_start_blanks || left_.skip_end_blanks) letters += 'b';
    for (const auto [letter, flag] : kKeyLetters) {
      const bool moot = letter == 'r' ? !with_reverse : letter == 'i' && left_.dictionary;
      if (left_.*flag && !moot) letters += letter;
    }
    return letters;
  }

 private:
  KeyFlags left_;
};

class Warnings {
 public:
  Warnings(const LineKeyOptions& options, const KeyLocale& locale)
      : options_(options), locale_(locale) {}

  std::vector<std::string> find() {
    const KeyFlags for_all = parse_key_flags(options_.letters);
    const std::vector<KeySpecification> keys = complete_keys(options_.keys, for_all);
    UnusedFlags unused(for_all);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      look_at(keys[i], i + 1);
      unused.use(keys[i].flags);
    }
    look_at_number_locale();
    look_at_unused(unused, !keys.empty());
    return std::move(warnings_);
  }

 private:
  template <typename... Parts>
  void warn(fmt::format_string<Parts...> format, Parts&&... parts) {
    warnings_.push_back(fmt::format(format, std::forward<Parts>(parts)...));
  }
  bool separator_is(int c) const {
    return options_.separator && c == static_cast<unsigned char>(*options_.separator);
  }

  void look_at(const KeySpecification& key, std::size_t number);
  void look_at_number_locale();
  void look_at_unused(const UnusedFlags& unused, bool any_keys);

  const LineKeyOptions& options_;
  const KeyLocale& locale_;
  std::vector<std::string> warnings_;
  bool numbers_ = false;  // n or h
  bool floats_ = false;
  bool numbers_span_fields_ = false;
  bool floats_span_fields_ = false;
};

void Warnings::look_at(const KeySpecification& key, std::size_t number) {
  const KeyFlags& flags = key.flags;
  const bool whole_line = options_.keys.empty();
  if (is_number(flags)) (flags.general_numeric ? floats_ : numbers_) = true;
  const bool empty = !whole_line && key.end_field < key.begin_field;
  if (empty) warn("key {} has zero width and will be ignored", number);
  const bool blanks_are_moot = is_number(flags) || flags.month;
  const bool from_line = key.end_field == 0 && key.end_byte != 0;
  if (!empty && !whole_line && !options_.separator && !from_line &&
      ((!flags.skip_start_blanks && !blanks_are_moot) ||
       (!flags.skip_start_blanks && key.begin_byte != 0) ||
       (!flags.skip_end_blanks && key.end_byte != 0))) {
    warn("leading blanks are significant in key {}; consider also specifying 'b'", number);
  }
  if (!whole_line && is_number(flags) &&
      (key.end_field == KeySpecification::kLineEnd || key.begin_field < key.end_field)) {
    warn("key {} is numeric and spans multiple fields", number);
    (flags.general_numeric ? floats_span_fields_ : numbers_span_fields_) = true;
  }
}

// A separator of fields may be a part of numbers that reach over several of them.
void Warnings::look_at_number_locale() {
  const int thousands = locale_.thousands_separator();
  const char point = locale_.decimal_point();
  const auto name = [&](int c) { return quoted({std::string(1, static_cast<char>(c))}, locale_); };
  bool told = false;
  if (numbers_span_fields_ && thousands != KeyLocale::kNone &&
      (options_.separator ? separator_is(thousands)
                          : locale_.is_blank(static_cast<char>(thousands)))) {
    warn("field separator {} is treated as a group separator in numbers", name(thousands));
    told = true;
  }
  if (numbers_span_fields_ || floats_span_fields_) {
    if (options_.separator ? separator_is(static_cast<unsigned char>(point))
                           : thousands != KeyLocale::kNone && locale_.is_blank(point)) {
      warn("field separator {} is treated as a decimal point in numbers", name(point));
      told = true;
    } else if (separator_is('-')) {
      warn("field separator {} is treated as a minus sign in numbers", name('-'));
    } else if (floats_span_fields_ && separator_is('+')) {
      warn("field separator {} is treated as a plus sign in numbers", name('+'));
    }
  }
  if ((numbers_ || floats_) && !told) {
    const bool separates = separator_is(static_cast<unsigned char>(point));
    warn("{}numbers use {} as a decimal point in this locale", separates ? "" : "note ",
         name(point));
  }
  if (numbers_ && std::strlen(nl_langinfo_l(THOUSEP, locale_.handle())) > 1) {
    warn("the multi-byte number group separator in this locale is not supported");
  }
}

void Warnings::look_at_unused(const UnusedFlags& unused, bool any_keys) {
  const bool lines_decide = !options_.stable && !options_.unique;
  const bool reverse = unused.left().reverse && any_keys;
  if (!unused.left().default_order() || (reverse && !lines_decide)) {
    const std::string letters = unused.letters(!lines_decide);
    warn("option{} '-{}' {} ignored", letters.size() > 1 ? "s" : "", letters,
         letters.size() > 1 ? "are" : "is");
  }
  if (reverse && lines_decide) warn("option '-r' only applies to last-resort comparison");
}

}  // namespace

std::vector<std::string> key_warnings(const LineKeyOptions& options, const KeyLocale& locale,
                                      bool locale_failed) {
  std::vector<std::string> warnings;
  const std::string name = locale_failed ? "C" : collation_name();
  if (locale_failed) warnings.emplace_back("failed to set locale");
  if (name == "C" || name == "POSIX") {
    warnings.emplace_back("text ordering performed using simple byte comparison");
  } else {
    warnings.push_back(
        fmt::format("text ordering performed using {} sorting rules", quoted(name, locale)));
  }
  for (std::string& warning : Warnings(options, locale).find()) {
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace vortex::cli

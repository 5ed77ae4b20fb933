#include "cli/gnu/key_warnings.h"

#include <ctype.h>
#include <fmt/format.h>
#include <langinfo.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

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

// nl_langinfo_l(3), which in static programs looks at the locale that the thread uses.
const char* locale_item(::nl_item which, ::locale_t locale) noexcept {
  const ::locale_t before = uselocale(locale);
  const char* const item = nl_langinfo_l(which, locale);
  uselocale(before);
  return item;
}

std::string quoted(std::string_view text, ::locale_t locale) {
  const bool unicode = std::strcmp(locale_item(CODESET, locale), "UTF-8") == 0;
  return fmt::format("{}{}{}", unicode ? "\u2018" : "'", text, unicode ? "\u2019" : "'");
}

bool has(std::string_view letters, char letter) { return letters.find(letter) != letters.npos; }

bool is_number(const LineKey& key) { return key.letters.find_first_of("ghn") != std::string::npos; }

// Letters that belong to the whole sort and that no key has taken over yet.
class UnusedLetters {
 public:
  explicit UnusedLetters(const std::string& for_all)
      : left_(for_all), start_blanks_(has(for_all, 'b')), end_blanks_(start_blanks_) {
    std::erase(left_, 'b');
  }

  void use(const LineKey& key) {
    // d leaves out all that i leaves out, so a key that uses d counts as using i as well.
    const bool uses_d = has(key.letters, 'd');
    const bool uses_i = has(left_, 'd') ? uses_d : has(key.letters, 'i') && !uses_d;
    std::erase_if(left_,
                  [&](char letter) { return letter == 'i' ? uses_i : has(key.letters, letter); });
    start_blanks_ &= !key.skip_start_blanks;
    end_blanks_ &= !key.skip_end_blanks;
  }
  // Whether some but r are left, and whether r is.
  bool any_order() const { return left_.find_first_not_of('r') != left_.npos || blanks(); }
  bool reverse() const { return has(left_, 'r'); }

  // In GNU sort's order.
  std::string letters(bool with_reverse) const {
    std::string letters = blanks() ? "b" : "";
    for (const char letter : std::string_view("dfghiMnRrV")) {
      const bool moot = letter == 'r' ? !with_reverse : letter == 'i' && has(left_, 'd');
      if (has(left_, letter) && !moot) letters += letter;
    }
    return letters;
  }

 private:
  bool blanks() const { return start_blanks_ || end_blanks_; }

  std::string left_;
  bool start_blanks_;
  bool end_blanks_;
};

class Warnings {
 public:
  Warnings(const LineKeyOptions& options, ::locale_t locale) : options_(options), locale_(locale) {}

  std::vector<std::string> find() {
    const LineKeyFinder finder(options_);
    UnusedLetters unused(options_.letters);
    for (std::size_t i = 0; i < finder.keys().size(); ++i) {
      look_at(finder.keys()[i], i + 1);
      unused.use(finder.keys()[i]);
    }
    look_at_number_locale();
    look_at_unused(unused, !finder.keys().empty());
    return std::move(warnings_);
  }

 private:
  template <typename... Parts>
  void warn(fmt::format_string<Parts...> format, Parts&&... parts) {
    warnings_.push_back(fmt::format(format, std::forward<Parts>(parts)...));
  }

  void look_at(const LineKey& key, std::size_t number);
  void look_at_number_locale();
  void look_at_unused(const UnusedLetters& unused, bool any_keys);

  const LineKeyOptions& options_;
  const ::locale_t locale_;
  std::vector<std::string> warnings_;
  bool numbers_ = false;  // n or h
  bool floats_ = false;
  bool numbers_span_fields_ = false;
  bool floats_span_fields_ = false;
};

void Warnings::look_at(const LineKey& key, std::size_t number) {
  const bool whole_line = options_.keys.empty();
  const bool is_float = has(key.letters, 'g');
  if (is_number(key)) (is_float ? floats_ : numbers_) = true;
  const bool empty = !whole_line && key.end_field < key.begin_field;
  if (empty) warn("key {} has zero width and will be ignored", number);
  const bool blanks_are_moot = is_number(key) || has(key.letters, 'M');
  const bool from_line = key.end_field == 0 && key.end_byte != 0;
  if (!empty && !whole_line && !options_.separator && !from_line &&
      ((!key.skip_start_blanks && !blanks_are_moot) ||
       (!key.skip_start_blanks && key.begin_byte != 0) ||
       (!key.skip_end_blanks && key.end_byte != 0))) {
    warn("leading blanks are significant in key {}; consider also specifying 'b'", number);
  }
  if (!whole_line && is_number(key) &&
      (key.end_field == LineKey::kLineEnd || key.begin_field < key.end_field)) {
    warn("key {} is numeric and spans multiple fields", number);
    (is_float ? floats_span_fields_ : numbers_span_fields_) = true;
  }
}

// A separator of fields may be a part of numbers that reach over several of them.
void Warnings::look_at_number_locale() {
  // Separators of several bytes count as none, as in GNU sort.
  const std::string_view separator = locale_item(THOUSEP, locale_);
  const std::string_view radix = locale_item(RADIXCHAR, locale_);
  const bool groups = separator.size() == 1;
  const char thousands = groups ? separator.front() : '\0';
  const char point = radix.size() == 1 ? radix.front() : '.';
  const auto is_blank = [&](char c) {
    return c == '\n' || isblank_l(static_cast<unsigned char>(c), locale_) != 0;
  };
  const auto name = [&](char c) { return quoted({&c, 1}, locale_); };
  bool told = false;
  if (numbers_span_fields_ && groups &&
      (options_.separator ? options_.separator == thousands : is_blank(thousands))) {
    warn("field separator {} is treated as a group separator in numbers", name(thousands));
    told = true;
  }
  if (numbers_span_fields_ || floats_span_fields_) {
    if (options_.separator ? options_.separator == point : groups && is_blank(point)) {
      warn("field separator {} is treated as a decimal point in numbers", name(point));
      told = true;
    } else if (options_.separator == '-') {
      warn("field separator {} is treated as a minus sign in numbers", name('-'));
    } else if (floats_span_fields_ && options_.separator == '+') {
      warn("field separator {} is treated as a plus sign in numbers", name('+'));
    }
  }
  if ((numbers_ || floats_) && !told) {
    const bool separates = options_.separator == point;
    warn("{}numbers use {} as a decimal point in this locale", separates ? "" : "note ",
         name(point));
  }
  if (numbers_ && separator.size() > 1) {
    warn("the multi-byte number group separator in this locale is not supported");
  }
}

void Warnings::look_at_unused(const UnusedLetters& unused, bool any_keys) {
  const bool lines_decide = !options_.stable && !options_.unique;
  const bool reverse = unused.reverse() && any_keys;
  if (unused.any_order() || (reverse && !lines_decide)) {
    const std::string letters = unused.letters(!lines_decide);
    warn("option{} '-{}' {} ignored", letters.size() > 1 ? "s" : "", letters,
         letters.size() > 1 ? "are" : "is");
  }
  if (reverse && lines_decide) warn("option '-r' only applies to last-resort comparison");
}

}  // namespace

std::vector<std::string> key_warnings(const LineKeyOptions& options, ::locale_t locale,
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

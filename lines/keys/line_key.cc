#include "vortex/line_sort.h"

#include <stdlib.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "lines/fields/field_finder.h"
#include "lines/fields/key_locale.h"
#include "lines/fields/key_specification.h"
#include "lines/keys/composed_key.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

KeySpecification parse_column(const std::string& text) {
  KeySpecification key = parse_key_specification(text);
  if (text.find_first_of(".,") != std::string::npos) {
    throw Error(EINVAL, "'" + text + "': a key of CSV is one whole column, F[OPTS]");
  }
  key.end_field = key.begin_field;
  return key;
}

// A separator at the end is no part of a number; a unit behind it is.
std::size_t number_bytes(std::string_view text, bool with_unit, const KeyLocale& locale) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const std::size_t digits = locale.number_at(text.substr(sign)).bytes;
  if (digits == 0) return 0;
  const std::size_t end = sign + digits;
  constexpr std::string_view kUnits = "EGKMPTYZk";
  const bool unit = with_unit && end < text.size() && kUnits.find(text[end]) != kUnits.npos;
  return end + (unit ? 1 : 0);
}

// A number or a month is as long as it is understood.
std::string_view part_that_counts(std::string_view line, const KeySpecification& key,
                                  const FieldFinder& fields, const KeyLocale& locale) {
  std::string room;
  KeyBytes unused(room);
  const std::string_view found = fields.find(line, key, unused);
  const KeyFlags& flags = key.flags;
  const bool number = flags.numeric || flags.human_numeric || flags.general_numeric;
  if (!number && !flags.month) return found;
  std::string_view rest = locale.without_leading_blanks(found);
  if (found.empty()) {
    // Blanks behind the beginning are passed even where the key ends in front of it.
    const auto begin = static_cast<std::size_t>(found.data() - line.data());
    KeySpecification from_line{.end_field = key.end_field, .end_byte = key.end_byte};
    from_line.flags.skip_end_blanks = flags.skip_end_blanks;
    if (fields.find(line, from_line, unused).size() < begin) {
      rest = locale.without_leading_blanks(line.substr(begin)).substr(0, 0);
    }
  }
  if (flags.month) {
    const KeyLocale::Month* const month = locale.month_at(rest);
    return rest.substr(0, month == nullptr ? 0 : month->name.size());
  }
  if (flags.general_numeric) {
    const std::string copy(rest);  // a NUL ends it
    char* stop = nullptr;
    strtold_l(copy.c_str(), &stop, locale.handle());
    return rest.substr(0, static_cast<std::size_t>(stop - copy.c_str()));
  }
  return rest.substr(0, number_bytes(rest, flags.human_numeric, locale));
}

// The key as text tells it.
LineKey told(const KeySpecification& key) {
  LineKey result{.begin_field = key.begin_field,
                 .begin_byte = key.begin_byte,
                 .end_field = key.end_field,
                 .end_byte = key.end_byte,
                 .skip_start_blanks = key.flags.skip_start_blanks,
                 .skip_end_blanks = key.flags.skip_end_blanks};
  for (const auto [letter, flag] : kKeyLetters) {
    if (key.flags.*flag) result.letters += letter;
  }
  return result;
}

}  // namespace

LineOrder line_order(const LineKeyOptions& options) {
  const auto locale = std::make_shared<const KeyLocale>(options.locale);
  std::vector<KeySpecification> given;
  for (const std::string& text : options.keys) {
    given.push_back(options.fields == FieldRules::kCsv ? parse_column(text)
                                                       : parse_key_specification(text));
  }
  const KeyFlags for_all = parse_key_flags(options.letters);
  std::vector<KeySpecification> keys = complete_keys(std::move(given), for_all);
  const bool keys_decide = !keys.empty() && (options.stable || options.unique);
  LineOrder order{.unique = options.unique};
  order.ties = keys_decide ? Ties::kInputOrder : Ties::kRecordBytes;
  if (!keys_decide) {
    // The lines themselves decide last, in the direction that r gives to the whole.
    order.descending = for_all.reverse;
    if (!locale->collates_bytes()) {
      // They do so by the collation of the locale, and lines that it takes for equal keep their
      // order.
      keys.push_back({.flags = {.reverse = for_all.reverse}});
      order.ties = Ties::kInputOrder;
    }
  }
  if (keys.empty()) return order;
  for (KeySpecification& key : keys) key.flags.reverse ^= order.descending;
  const FieldFinder fields(*locale, options.fields, options.separator);
  order.keys = std::make_shared<ComposedKey>(locale, fields, keys, options.random_seed);
  return order;
}

void expect_line_key(std::string_view text) { static_cast<void>(parse_key_specification(text)); }

struct LineKeyFinder::State {
  explicit State(const LineKeyOptions& options)
      : locale(options.locale), fields(locale, FieldRules::kLines, options.separator) {
    if (options.fields != FieldRules::kLines) {
      throw Error(EINVAL, "keys are found in lines, not in records of CSV");
    }
    specifications = complete_keys(options.keys, parse_key_flags(options.letters));
    for (const KeySpecification& key : specifications) keys.push_back(told(key));
  }

  const KeyLocale locale;
  const FieldFinder fields;
  std::vector<KeySpecification> specifications;
  std::vector<LineKey> keys;
};

LineKeyFinder::LineKeyFinder(const LineKeyOptions& options)
    : state_(std::make_unique<const State>(options)) {}
LineKeyFinder::~LineKeyFinder() = default;
LineKeyFinder::LineKeyFinder(LineKeyFinder&&) noexcept = default;
LineKeyFinder& LineKeyFinder::operator=(LineKeyFinder&&) noexcept = default;

const std::vector<LineKey>& LineKeyFinder::keys() const noexcept { return state_->keys; }

std::string_view LineKeyFinder::find(std::string_view line, std::size_t key) const {
  return part_that_counts(line, state_->specifications[key], state_->fields, state_->locale);
}

}}  // namespace vortex::v0

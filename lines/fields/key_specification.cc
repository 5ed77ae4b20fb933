#include "lines/fields/key_specification.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

[[noreturn]] void refuse(std::string_view text, const char* reason) {
  throw Error(EINVAL,
              std::string(reason) + ": invalid field specification '" + std::string(text) + "'");
}

// Takes a number from the front of `rest`, which blanks and a plus may precede. One that is too
// large means a place behind every line.
std::size_t take_number(std::string_view& rest, const char* what) {
  const std::string_view text = rest;
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n\v\f\r"), rest.size()));
  if (rest.starts_with('+')) rest.remove_prefix(1);
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error == std::errc::invalid_argument) {
    throw Error(EINVAL,
                std::string(what) + ": invalid count at start of '" + std::string(text) + "'");
  }
  if (error == std::errc::result_out_of_range) number = KeySpecification::kLineEnd;
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
  return number;
}

enum class Blanks { kStart, kEnd, kBoth };

// Takes letters from the front of `rest`.
void take_flags(std::string_view& rest, Blanks blanks, KeyFlags& flags) {
  for (; !rest.empty(); rest.remove_prefix(1)) {
    if (rest.front() == 'b') {
      flags.skip_start_blanks |= blanks != Blanks::kEnd;
      flags.skip_end_blanks |= blanks != Blanks::kStart;
      continue;
    }
    const auto* const letter =
        std::find_if(kKeyLetters.begin(), kKeyLetters.end(),
                     [&](const KeyLetter& known) { return known.letter == rest.front(); });
    if (letter == kKeyLetters.end()) return;
    flags.*letter->flag = true;
  }
}

void expect_compatible(const KeyFlags& flags) {
  const bool by_characters = flags.version || flags.random || flags.dictionary || flags.printable;
  const int orders = int{flags.numeric} + int{flags.general_numeric} + int{flags.human_numeric} +
                     int{flags.month} + int{by_characters};
  if (orders <= 1) return;
  std::string letters;
  for (const auto [letter, flag] : kKeyLetters) {
    const bool moot = letter == 'r' || (letter == 'i' && flags.dictionary);
    if (flags.*flag && !moot) letters += letter;
  }
  throw Error(EINVAL, "options '-" + letters + "' are incompatible");
}

}  // namespace

bool KeyFlags::default_order() const noexcept {
  KeyFlags others = *this;
  others.reverse = false;
  return others == KeyFlags{};
}

KeySpecification parse_key_specification(std::string_view text) {
  KeySpecification key;
  std::string_view rest = text;
  key.begin_field = take_number(rest, "invalid number at field start");
  if (key.begin_field-- == 0) refuse(text, "field number is zero");
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    key.begin_byte = take_number(rest, "invalid number after '.'");
    if (key.begin_byte-- == 0) refuse(text, "character offset is zero");
  }
  take_flags(rest, Blanks::kStart, key.flags);
  if (rest.starts_with(',')) {
    rest.remove_prefix(1);
    key.end_field = take_number(rest, "invalid number after ','");
    if (key.end_field-- == 0) refuse(text, "field number is zero");
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      key.end_byte = take_number(rest, "invalid number after '.'");
    }
    take_flags(rest, Blanks::kEnd, key.flags);
  }
  if (!rest.empty()) refuse(text, "stray character in field spec");
  return key;
}

KeyFlags parse_key_flags(std::string_view letters) {
  KeyFlags flags;
  std::string_view rest = letters;
  take_flags(rest, Blanks::kBoth, flags);
  if (rest.empty()) return flags;
  throw Error(EINVAL, "no order of lines is called '" + std::string(rest.substr(0, 1)) +
                          "': the letters are bdfghiMnRrV");
}

std::vector<KeySpecification> complete_keys(std::vector<KeySpecification> keys,
                                            const KeyFlags& for_all) {
  for (KeySpecification& key : keys) {
    if (key.flags.default_order() && !key.flags.reverse) key.flags = for_all;
  }
  if (keys.empty() && !for_all.default_order()) keys.push_back({.flags = for_all});
  for (const KeySpecification& key : keys) expect_compatible(key.flags);
  return keys;
}

std::vector<KeySpecification> complete_keys(std::span<const std::string> keys,
                                            const KeyFlags& for_all) {
  std::vector<KeySpecification> given;
  for (const std::string& text : keys) given.push_back(parse_key_specification(text));
  return complete_keys(std::move(given), for_all);
}

}}  // namespace vortex::v0

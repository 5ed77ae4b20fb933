#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lines/keys/field_encoders.h"
#include "sort/record/text_word.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr unsigned char kZero = 0x80;
constexpr unsigned char kPositive = 0x81;
constexpr std::size_t kMaxShort = 100;
constexpr unsigned char kLong = 0xff;

// The digits of a number, from the first that is not 0 on, with separators and a point among them.
struct Digits {
  std::string_view text;
  std::size_t integer_digits = 0;
  std::size_t significant = 0;  // digits up to the last that is not 0
};

Digits digits_of(std::string_view text, const KeyLocale& locale) {
  const int separator = locale.thousands_separator();
  const auto is_separator = [&](char c) { return static_cast<unsigned char>(c) == separator; };
  std::size_t at = 0;
  while (at < text.size() && (text[at] == '0' || is_separator(text[at]))) ++at;
  Digits digits{.text = text.substr(at)};
  bool behind_point = false;
  std::size_t count = 0;
  for (const char c : digits.text) {
    if (is_digit(c)) {
      ++count;
      if (!behind_point) digits.integer_digits = count;
      if (c != '0') digits.significant = count;
    } else if (c == locale.decimal_point() && !behind_point) {
      behind_point = true;
    } else if (behind_point || !is_separator(c)) {
      break;
    }
  }
  return digits;
}

// Appends digits by twos, an odd one with a 0 behind it.
void append_pairs(const Digits& digits, KeyBytes& bytes) {
  std::size_t left = digits.significant;
  int tens = -1;  // the first digit of a pair
  for (const char* at = digits.text.data(); left > 0; ++at) {
    if (!is_digit(*at)) continue;
    --left;
    if (tens < 0 && left > 0) {
      tens = *at - '0';
      continue;
    }
    const int pair = tens < 0 ? 10 * (*at - '0') : 10 * tens + (*at - '0');
    bytes += static_cast<char>(pair + 1);
    tens = -1;
  }
}

constexpr std::uint64_t every_byte(unsigned char byte) noexcept {
  return ~std::uint64_t{0} / 255 * byte;
}

// Returns eight characters of the text, the first of them lowest, with zeros behind its end.
std::uint64_t word_at(std::string_view text, std::size_t from) noexcept {
  if (from >= text.size()) return 0;
  const std::size_t left = text.size() - from;
  if (left >= sizeof(std::uint64_t)) return load_word<std::uint64_t>(text.data() + from);
  return load_short(text.data() + from, left) & ((std::uint64_t{1} << (8 * left)) - 1);
}

// Appends the same key, eight digits at a time. Returns false, with nothing appended, where there
// are more digits than usual, separators or a point.
bool append_integer(std::string_view text, bool negative, const KeyLocale& locale,
                    KeyBytes& bytes) {
  constexpr std::size_t kDigits = sizeof(std::uint64_t);
  std::array<std::uint64_t, 3> words{};
  while (!text.empty() && text.front() == '0') text.remove_prefix(1);
  std::size_t count = 0;
  for (std::uint64_t& word : words) {
    const std::uint64_t digits = word_at(text, count) ^ every_byte('0');
    // A byte above 9 sets its highest bit; what it carries reaches those behind it only.
    const std::uint64_t others = ((digits + every_byte(0x76)) | digits) & every_byte(0x80);
    const auto here = static_cast<std::size_t>(others == 0 ? 64 : std::countr_zero(others)) / 8;
    word = here == kDigits ? digits : digits & ((std::uint64_t{1} << (8 * here)) - 1);
    count += here;
    if (here < kDigits) break;
  }
  if (count == words.size() * kDigits) return false;
  if (count < text.size() &&
      (text[count] == locale.decimal_point() ||
       static_cast<unsigned char>(text[count]) == locale.thousands_separator())) {
    return false;
  }
  if (count == 0) {
    bytes += static_cast<char>(kZero);
    return true;
  }
  std::array<char, 1 + words.size() * kDigits / 2 + 1> key{};
  key[0] = static_cast<char>(kPositive + count);
  std::size_t significant = 0;
  for (std::size_t i = 0; i * kDigits < count; ++i) {
    constexpr std::uint64_t kEven = ~std::uint64_t{0} / 0xffff * 0xff;
    std::uint64_t pairs = ((words[i] * 10 + (words[i] >> 8)) & kEven) + (kEven & every_byte(1));
    pairs = (pairs | pairs >> 8) & 0x0000ffff0000ffff;
    const auto four = static_cast<std::uint32_t>(pairs | pairs >> 16);
    std::memcpy(&key[1 + i * kDigits / 2], &four, sizeof four);
    if (words[i] == 0) continue;
    significant = i * kDigits + static_cast<std::size_t>(std::bit_width(words[i]) + 7) / 8;
  }
  const std::size_t size = 1 + (significant + 1) / 2;
  key[size] = 0;
  if (negative) {
    for (char& byte : key) byte = static_cast<char>(~byte);
  }
  bytes += std::string_view(key.data(), size + 1);
  return true;
}

// Returns the place of the unit in the list, from 1 on; 0 for no unit.
int unit_of(char c) noexcept {
  constexpr std::string_view kUnits = "KMGTPEZY";
  const std::size_t place = kUnits.find(c == 'k' ? 'K' : c);
  return place == std::string_view::npos ? 0 : static_cast<int>(place) + 1;
}

}  // namespace

void append_number(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  field = rules.locale.without_leading_blanks(field);
  const bool negative = field.starts_with('-');
  if (negative) field.remove_prefix(1);
  if (append_integer(field, negative, rules.locale, bytes)) return;
  const Digits digits = digits_of(field, rules.locale);
  if (digits.significant == 0) {
    bytes += static_cast<char>(kZero);
    return;
  }
  const std::size_t begin = bytes.size();
  bytes.append_length(digits.integer_digits, kMaxShort, kPositive, kLong);
  append_pairs(digits, bytes);
  bytes += '\0';
  if (negative) bytes.invert_from(begin);
}

void append_human_number(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  field = rules.locale.without_leading_blanks(field);
  const bool negative = field.starts_with('-');
  const std::string_view digits = negative ? field.substr(1) : field;
  // Separators and points that no digit follows end the number, and 0 has no unit.
  const auto [bytes_of_number, largest] = rules.locale.number_at(digits);
  const int unit =
      largest > '0' && bytes_of_number < digits.size() ? unit_of(digits[bytes_of_number]) : 0;
  bytes += static_cast<char>(0x80 + (negative ? -unit : unit));
  append_number(field, rules, bytes);
}

}}  // namespace vortex::v0

#include "lines/keys/number_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lines/fields/text_word.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr unsigned char kZero = 0x80;
constexpr unsigned char kPositive = 0x81;
constexpr std::size_t kMaxShort = 100;
constexpr unsigned char kLong = 0xff;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The digits of a number, without its leading zeros.
struct Digits {
  std::string_view integer;   // with separators among them
  std::string_view fraction;  // without zeros at the end
  std::size_t integer_digits = 0;
  std::size_t significant = 0;  // of integer and fraction, up to the last that is not 0

  bool zero() const noexcept { return significant == 0; }
};

Digits digits_of(std::string_view text, const KeyLocale& locale) {
  const int separator = locale.thousands_separator();
  const auto is_separator = [&](char c) { return static_cast<unsigned char>(c) == separator; };
  std::size_t at = 0;
  while (at < text.size() && (text[at] == '0' || is_separator(text[at]))) ++at;
  Digits digits;
  const std::size_t begin = at;
  for (; at < text.size(); ++at) {
    if (is_digit(text[at])) {
      ++digits.integer_digits;
      if (text[at] != '0') digits.significant = digits.integer_digits;
    } else if (!is_separator(text[at])) {
      break;
    }
  }
  digits.integer = text.substr(begin, at - begin);
  if (at == text.size() || text[at] != locale.decimal_point()) return digits;
  const std::size_t point = at;
  std::size_t last = at;  // the last digit that is not 0
  for (++at; at < text.size() && is_digit(text[at]); ++at) {
    if (text[at] != '0') last = at;
  }
  digits.fraction = text.substr(point + 1, last - point);
  if (last != point) digits.significant = digits.integer_digits + digits.fraction.size();
  return digits;
}

// Digits by twos, an odd one with a 0 behind it.
class Pairs {
 public:
  Pairs(KeyBytes& bytes, std::size_t digits) : bytes_(bytes), left_(digits) {}

  void add(std::string_view digits) {
    for (const char c : digits) {
      if (!is_digit(c)) continue;
      if (left_ == 0) return;
      --left_;
      const int digit = c - '0';
      if (open_ && left_ > 0) {
        tens_ = 10 * digit;
        open_ = false;
      } else if (open_) {
        put(10 * digit);
      } else {
        put(tens_ + digit);
        open_ = true;
      }
    }
  }

 private:
  void put(int pair) { bytes_ += static_cast<char>(pair + 1); }

  KeyBytes& bytes_;
  std::size_t left_;
  int tens_ = 0;
  bool open_ = true;  // the next digit is the first of a pair
};

void append_length(std::size_t integer_digits, KeyBytes& bytes) {
  if (integer_digits <= kMaxShort) {
    bytes += static_cast<char>(kPositive + integer_digits);
    return;
  }
  bytes += static_cast<char>(kLong);
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(integer_digits >> shift);
  }
}

constexpr std::uint64_t every_byte(unsigned char byte) noexcept {
  return ~std::uint64_t{0} / 255 * byte;
}

// Eight characters of the text, the first of them lowest; zeros behind its end.
std::uint64_t word_at(std::string_view text, std::size_t from) noexcept {
  if (from >= text.size()) return 0;
  const std::size_t left = text.size() - from;
  if (left >= sizeof(std::uint64_t)) return load_word<std::uint64_t>(text.data() + from);
  return load_short(text.data() + from, left) & ((std::uint64_t{1} << (8 * left)) - 1);
}

// The same key as that of Digits and Pairs, eight digits at a time. False, and nothing has been
// appended: there are more digits than usual, separators or a point.
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

// The place in "kMGTPEZY", from 1; 0 for no unit.
int unit_of(char c) noexcept {
  constexpr std::string_view kUnits = "KMGTPEZY";
  const std::size_t place = kUnits.find(c == 'k' ? 'K' : c);
  return place == std::string_view::npos ? 0 : static_cast<int>(place) + 1;
}

// The unit behind a number. Separators and points that no digit follows end the number, so that it
// has no unit; one separator may stand between digits.
int human_unit(std::string_view number, const KeyLocale& locale) {
  const auto at = [&](std::size_t i) { return i < number.size() ? number[i] : '\0'; };
  char largest = '0';
  std::size_t i = 0;
  bool separated = false;
  while (is_digit(at(i))) {
    largest = std::max(largest, at(i++));
    separated =
        i < number.size() && static_cast<unsigned char>(number[i]) == locale.thousands_separator();
    if (separated) ++i;
  }
  if (separated) return 0;
  if (i < number.size() && number[i] == locale.decimal_point()) {
    for (++i; is_digit(at(i)); ++i) largest = std::max(largest, at(i));
  }
  return largest > '0' ? unit_of(at(i)) : 0;
}

}  // namespace

void NumberKey::append(std::string_view field, KeyBytes& bytes) const {
  field = locale_.without_leading_blanks(field);
  const bool negative = field.starts_with('-');
  if (negative) field.remove_prefix(1);
  if (append_integer(field, negative, locale_, bytes)) return;
  const Digits digits = digits_of(field, locale_);
  if (digits.zero()) {
    bytes += static_cast<char>(kZero);
    return;
  }
  const std::size_t begin = bytes.size();
  append_length(digits.integer_digits, bytes);
  Pairs pairs(bytes, digits.significant);
  pairs.add(digits.integer);
  pairs.add(digits.fraction);
  bytes += '\0';
  if (negative) bytes.invert_from(begin);
}

void HumanNumberKey::append(std::string_view field, KeyBytes& bytes) const {
  field = locale_.without_leading_blanks(field);
  const bool negative = field.starts_with('-');
  const int unit = human_unit(negative ? field.substr(1) : field, locale_);
  bytes += static_cast<char>(0x80 + (negative ? -unit : unit));
  number_.append(field, bytes);
}

}}  // namespace vortex::v0

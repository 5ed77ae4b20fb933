#include "lines/keys/field_encoders.h"

#include <stdlib.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vortex { inline namespace v0 {

namespace {

// The first byte of the key of a floating-point number: some values come before the numbers.
constexpr char kNoNumber = 0;
constexpr char kNaN = 1;
constexpr char kNumber = 2;
constexpr std::size_t kFloatBytes = 10;  // the bytes of a long double that are no padding

static_assert(std::numeric_limits<long double>::digits == 64, "x87's format is written out here");

// Appends sign and exponent, then the fraction, which has its leading 1 written out.
void append_bits(long double number, KeyBytes& bytes) {
  std::uint64_t fraction = 0;
  std::uint16_t sign_and_exponent = 0;
  std::memcpy(&fraction, &number, sizeof fraction);
  std::memcpy(&sign_and_exponent, reinterpret_cast<const char*>(&number) + sizeof fraction,
              sizeof sign_and_exponent);
  constexpr std::uint16_t kSign = 0x8000;
  if ((sign_and_exponent & kSign) != 0) {
    sign_and_exponent = static_cast<std::uint16_t>(~sign_and_exponent);
    fraction = ~fraction;
  } else {
    sign_and_exponent |= kSign;
  }
  bytes.append_big_endian(sign_and_exponent);
  bytes.append_big_endian(fraction);
}

}  // namespace

void append_text(std::string_view field, const KeyRules& /*rules*/, KeyBytes& bytes) {
  for (;;) {
    const std::size_t nul = field.find('\0');
    bytes += field.substr(0, nul);
    bytes += '\0';
    if (nul == std::string_view::npos) break;
    bytes += '\1';
    field.remove_prefix(nul + 1);
  }
  bytes += '\0';
}

void append_month(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  const KeyLocale::Month* const month =
      rules.locale.month_at(rules.locale.without_leading_blanks(field));
  bytes += month == nullptr ? '\0' : static_cast<char>(month->number);
}

void append_float(std::string_view field, const KeyRules& rules, KeyBytes& bytes) {
  // strtold() wants a NUL at the end. The copy lies where the key will be, for a field may be as
  // long as the memory allows.
  const std::size_t begin = bytes.size();
  bytes += field;
  bytes += '\0';
  const char* const text = bytes.data() + begin;
  char* stop = nullptr;
  const long double number = strtold_l(text, &stop, rules.locale.handle());
  const bool none = stop == text;
  bytes.cut(begin);
  if (none) {
    bytes += kNoNumber;
  } else if (std::isnan(number)) {
    bytes += kNaN;
    bytes += std::string_view(reinterpret_cast<const char*>(&number), kFloatBytes);
  } else {
    bytes += kNumber;
    append_bits(number == 0 ? 0 : number, bytes);
  }
}

}}  // namespace vortex::v0

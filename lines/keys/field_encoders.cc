#include "lines/keys/field_encoders.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace vortex { inline namespace v0 {

namespace {

// The first byte of the key of a floating-point number: some values come before the numbers.
constexpr char kNoNumber = 0;
constexpr char kNaN = 1;
constexpr char kNumber = 2;
// The bytes of a long double that are no padding: x87's has ten.
constexpr std::size_t kFloatBytes =
    std::numeric_limits<long double>::digits == 64 ? 10 : sizeof(long double);

static_assert(std::endian::native == std::endian::little &&
                  std::numeric_limits<long double>::is_iec559,
              "the sign is the highest bit, then come exponent and fraction");

// Appends sign, exponent and fraction, the highest byte first.
void append_bits(long double number, KeyBytes& bytes) {
  std::array<char, kFloatBytes> bits;
  std::memcpy(bits.data(), &number, kFloatBytes);
  std::reverse(bits.begin(), bits.end());
  if ((bits[0] & 0x80) != 0) {
    for (char& byte : bits) byte = static_cast<char>(~byte);
  } else {
    bits[0] = static_cast<char>(bits[0] | 0x80);
  }
  bytes += std::string_view(bits.data(), bits.size());
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

#include "lines/keys/float_key.h"

#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vortex { inline namespace v0 {

namespace {

// The first byte of a key: some values come before the numbers.
constexpr char kNoNumber = 0;
constexpr char kNaN = 1;
constexpr char kNumber = 2;
constexpr std::size_t kBytes = 10;  // of a long double; others are padding

static_assert(std::numeric_limits<long double>::digits == 64, "x87's format is written out here");

// Sign and exponent, then the fraction, which has its leading 1 written out.
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
  for (int shift = 8; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(sign_and_exponent >> shift);
  }
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(fraction >> shift);
}

}  // namespace

void FloatKey::append(std::string_view field, KeyBytes& bytes) const {
  // With a NUL at its end, where the key will be: a field may be as long as the memory allows.
  const std::size_t begin = bytes.size();
  bytes += field;
  bytes += '\0';
  const char* const text = bytes.data() + begin;
  char* stop = nullptr;
  const long double number = strtold_l(text, &stop, locale_.handle());
  const bool none = stop == text;
  bytes.cut(begin);
  if (none) {
    bytes += kNoNumber;
  } else if (std::isnan(number)) {
    bytes += kNaN;
    bytes += std::string_view(reinterpret_cast<const char*>(&number), kBytes);
  } else {
    bytes += kNumber;
    append_bits(number == 0 ? 0 : number, bytes);
  }
}

}}  // namespace vortex::v0

// Text that goes to a terminal, whatever bytes are in it: names of files may hold any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vortex { inline namespace v0 { namespace detail {

// Bytes at the beginning of `text`, which is not empty, that are one printable character; 0 if its
// first byte is a control or no UTF-8.
inline std::size_t printable_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  // UTF-8: the length is in the leading bits of the first byte, six more bits are in each other.
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  std::uint32_t character = first & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  const bool longer_than_needed =
      (length == 3 && character < 0x800) || (length == 4 && character < 0x10000);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  const bool control = character < 0xa0;  // the second set of controls, which terminals obey, too
  return longer_than_needed || surrogate || control || character > 0x10ffff ? 0 : length;
}

// Calls put(std::string_view) for one piece of `text` after the other, with control characters and
// what is no UTF-8 written as in C: \n, \t, \r, \x1b. Everything else is passed on as it is, so
// that doing it again changes nothing. Async-signal-safe if `put` is.
template <typename Put>
void put_printable(std::string_view text, Put put) {
  while (!text.empty()) {
    const std::size_t bytes = printable_character(text);
    if (bytes != 0) {
      put(text.substr(0, bytes));
      text.remove_prefix(bytes);
      continue;
    }
    const auto byte = static_cast<unsigned char>(text.front());
    constexpr std::string_view kDigits = "0123456789abcdef";
    switch (byte) {
      case '\n':
        put("\\n");
        break;
      case '\t':
        put("\\t");
        break;
      case '\r':
        put("\\r");
        break;
      default:
        put("\\x");
        put(kDigits.substr(byte / 16, 1));
        put(kDigits.substr(byte % 16, 1));
    }
    text.remove_prefix(1);
  }
}

// The whole at once.
inline std::string printable(std::string_view text) {
  std::string result;
  put_printable(text, [&result](std::string_view piece) { result += piece; });
  return result;
}

}}}  // namespace vortex::v0::detail

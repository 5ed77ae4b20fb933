#include <array>
#include <cstddef>
#include <cstdint>

#include "lines/keys/field_encoders.h"

namespace vortex { inline namespace v0 {

namespace {

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The beginning of a name decides first.
enum class Kind : char { kEmpty, kDot, kDotDot, kHidden, kOther };

Kind kind_of(std::string_view name) noexcept {
  if (name.empty()) return Kind::kEmpty;
  if (name == ".") return Kind::kDot;
  if (name == "..") return Kind::kDotDot;
  return name.front() == '.' ? Kind::kHidden : Kind::kOther;
}

// The length of the name without the longest ending (\.[A-Za-z~][A-Za-z0-9~]*)*.
std::size_t length_without_ending(std::string_view name) noexcept {
  const auto begins_ending = [&](std::size_t dot) {
    return dot + 1 < name.size() && name[dot] == '.' &&
           (is_letter(name[dot + 1]) || name[dot + 1] == '~');
  };
  for (std::size_t at = 0;; ++at) {
    const std::size_t length = at;
    while (begins_ending(at)) {
      at += 2;
      while (at < name.size() && (is_letter(name[at]) || is_digit(name[at]) || name[at] == '~')) {
        ++at;
      }
    }
    if (at >= name.size()) return length;
  }
}

// The codes of bytes that are no digits: the tilde, then kEnd, then letters, then the others.
constexpr unsigned char kTilde = 1;
constexpr unsigned char kEnd = 2;  // of the bytes in front of a number, or of the name

const std::array<unsigned char, 256>& codes() noexcept {
  static const std::array<unsigned char, 256> table = [] {
    std::array<unsigned char, 256> made{};
    unsigned char next = kEnd + 1;
    for (const bool letters : {true, false}) {
      for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        if (is_letter(c) == letters && !is_digit(c)) made[static_cast<std::size_t>(byte)] = next++;
      }
    }
    made['~'] = kTilde;
    return made;
  }();
  return table;
}

constexpr std::size_t kMostShort = 253;  // digits whose number takes one byte

// Appends other bytes and a number by turns. A name that ends with other bytes ends as one with the
// number 0, which has no digits; kEnd in the place of other bytes ends the name.
void append_parts(std::string_view name, KeyBytes& bytes) {
  std::size_t at = 0;
  do {
    for (; at < name.size() && !is_digit(name[at]); ++at) {
      bytes += static_cast<char>(codes()[static_cast<unsigned char>(name[at])]);
    }
    bytes += static_cast<char>(kEnd);
    while (at < name.size() && name[at] == '0') ++at;
    const std::size_t begin = at;
    while (at < name.size() && is_digit(name[at])) ++at;
    bytes.append_length(at - begin, kMostShort, 0, kMostShort + 1);
    bytes += name.substr(begin, at - begin);
  } while (at < name.size());
  bytes += static_cast<char>(kEnd);
}

}  // namespace

void append_version(std::string_view field, const KeyRules& /*rules*/, KeyBytes& bytes) {
  const Kind kind = kind_of(field);
  bytes += static_cast<char>(kind);
  if (kind < Kind::kHidden) return;
  append_parts(field.substr(0, length_without_ending(field)), bytes);
  append_parts(field, bytes);
}

}}  // namespace vortex::v0

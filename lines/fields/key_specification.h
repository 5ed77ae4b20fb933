// The meaning of one -k of GNU sort: where a key begins and ends, and how it is compared.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vortex { inline namespace v0 {

// The letters behind a key.
struct KeyFlags {
  bool skip_start_blanks = false;  // b at the beginning
  bool skip_end_blanks = false;    // b at the end
  bool dictionary = false;         // d: only blanks, letters and digits count
  bool fold = false;               // f: lower case counts as upper case
  bool general_numeric = false;    // g
  bool human_numeric = false;      // h
  bool printable = false;          // i: only printable characters count; d leaves out more
  bool month = false;              // M
  bool numeric = false;            // n
  bool random = false;             // R
  bool reverse = false;            // r
  bool version = false;            // V

  // Whether no letter but r is given.
  bool default_order() const noexcept;
  bool operator==(const KeyFlags&) const = default;
};

// All letters but b, in the order in which GNU sort names them.
struct KeyLetter {
  char letter;
  bool KeyFlags::*flag;
};
inline constexpr std::array<KeyLetter, 10> kKeyLetters{{{'d', &KeyFlags::dictionary},
                                                        {'f', &KeyFlags::fold},
                                                        {'g', &KeyFlags::general_numeric},
                                                        {'h', &KeyFlags::human_numeric},
                                                        {'i', &KeyFlags::printable},
                                                        {'M', &KeyFlags::month},
                                                        {'n', &KeyFlags::numeric},
                                                        {'R', &KeyFlags::random},
                                                        {'r', &KeyFlags::reverse},
                                                        {'V', &KeyFlags::version}}};

struct KeySpecification {
  static constexpr std::size_t kLineEnd = std::numeric_limits<std::size_t>::max();

  std::size_t begin_field = 0;       // fields in front of the key
  std::size_t begin_byte = 0;        // bytes in front of the key, in its field
  std::size_t end_field = kLineEnd;  // fields in front of the one that it ends in
  std::size_t end_byte = 0;          // bytes of that field which belong to it; 0: all
  KeyFlags flags = {};

  bool operator==(const KeySpecification&) const = default;
};

// Reads F[.C][OPTS][,F[.C][OPTS]] as behind -k. Throws Error(EINVAL) with GNU sort's words.
KeySpecification parse_key_specification(std::string_view text);

// Reads letters that hold for all keys without letters of their own. Throws Error(EINVAL) that
// names what is no letter.
KeyFlags parse_key_flags(std::string_view letters);

// The keys of an order, each with its letters. Without `keys` the whole line is one, unless no
// letter but r is given; then there is none. Throws Error(EINVAL) that names the letters that
// contradict each other.
std::vector<KeySpecification> complete_keys(std::vector<KeySpecification> keys,
                                            const KeyFlags& for_all);
// The same with keys as they stand behind -k.
std::vector<KeySpecification> complete_keys(std::span<const std::string> keys,
                                            const KeyFlags& for_all);

}}  // namespace vortex::v0

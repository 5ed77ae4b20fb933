#include "lines/keys/collation_key.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "lines/fields/character_weights.h"
#include "lines/keys/collation_pieces.h"

namespace vortex { inline namespace v0 {

std::size_t append_transformed(const KeyLocale& locale, std::string_view text, KeyBytes& bytes) {
  text = text.substr(0, text.find('\0'));
  if (!text.empty() && !locale.weights().append(text, bytes)) {
    append_transformed_by_libc(locale.handle(), text, bytes);
  }
  return text.size();
}

// A NUL ends each part: 0 behind it says that there is no part, 1 that it is the last one, 2 that
// another follows.
void CollationKey::append(std::string_view field, KeyBytes& bytes) const {
  if (field.empty()) {
    bytes += std::string_view("\0\0", 2);
    return;
  }
  for (;;) {
    field.remove_prefix(append_transformed(locale_, field, bytes));
    bytes += '\0';
    bytes += field.empty() ? '\1' : '\2';
    if (field.empty()) return;
    field.remove_prefix(1);
  }
}

// No weight begins with a byte that is less than the end of a rule; the end of the text is.
void CollationKey::append_first_rule(std::string_view field, KeyBytes& bytes) const {
  field = field.substr(0, field.find('\0'));
  if (!field.empty() && !locale_.weights().append_first_rule(field, bytes)) {
    const std::size_t begin = bytes.size();
    append_transformed_by_libc(locale_.handle(), field, bytes);
    bytes.cut(std::min(bytes.view().find(kEndOfRule, begin), bytes.size()));
  }
  bytes += '\0';
}

int CollationKey::compare(std::string_view a, std::string_view b,
                          const CharacterChoice& choice) const {
  if (a == b) return 0;
  CollationPieces of_a(locale_, a, choice);
  CollationPieces of_b(locale_, b, choice);
  std::string_view left;
  std::string_view right;
  for (;;) {
    if (left.empty()) left = of_a.next();
    if (right.empty()) right = of_b.next();
    const std::size_t both = std::min(left.size(), right.size());
    if (both == 0) return left.compare(right);
    const int compared = std::memcmp(left.data(), right.data(), both);
    if (compared != 0) return compared;
    left.remove_prefix(both);
    right.remove_prefix(both);
  }
}

}}  // namespace vortex::v0

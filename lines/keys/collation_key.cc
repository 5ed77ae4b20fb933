#include "lines/keys/collation_key.h"

#include <algorithm>
#include <cstddef>

#include "lines/keys/character_weights.h"

namespace vortex::inline v0 {

std::size_t append_transformed(const KeyLocale& locale, std::string_view text, KeyBytes& bytes) {
  text = text.substr(0, text.find('\0'));
  if (!locale.weights().append(text, bytes)) {
    append_transformed_by_libc(locale.handle(), text, bytes);
  }
  return text.size();
}

// A NUL ends each part: 0 behind it says that there is no part, 1 that it is the last one, 2 that
// another follows.
void CollationKey::append(std::string_view field, KeyBytes& bytes) const {
  if (field.empty()) {
    bytes += std::string_view("\0", 2);
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

// Nothing that strxfrm() writes is less than the end of a rule, except the end of the text.
void CollationKey::append_first_rule(std::string_view field, KeyBytes& bytes) const {
  field = field.substr(0, field.find('\0'));
  if (!locale_.weights().append_first_rule(field, bytes)) {
    const std::size_t begin = bytes.size();
    append_transformed_by_libc(locale_.handle(), field, bytes);
    bytes.cut(std::min(bytes.view().find(kEndOfRule, begin), bytes.size()));
  }
  bytes += '\0';
}

}  // namespace vortex::inline v0

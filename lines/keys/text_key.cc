#include "lines/keys/text_key.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

void TextKey::append(std::string_view field, KeyBytes& bytes) const {
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

}}  // namespace vortex::v0

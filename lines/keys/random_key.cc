#include "lines/keys/random_key.h"

#include <algorithm>

#include "lines/fields/character_weights.h"
#include "lines/keys/md5.h"

namespace vortex { inline namespace v0 {

void RandomKey::append(std::string_view field, KeyBytes& bytes) const {
  // What is hashed stands where the key will be.
  const std::size_t begin = bytes.size();
  bytes += std::string_view(seed_.data(), seed_.size());
  if (locale_.is_c()) {
    bytes += field;
  } else {
    while (!field.empty()) {
      const std::string_view text = field.substr(0, field.find('\0'));
      if (locale_.collates_bytes()) {
        bytes += text;
      } else {
        append_transformed_by_libc(locale_.handle(), text, bytes);
      }
      bytes += '\0';
      field.remove_prefix(std::min(text.size() + 1, field.size()));
    }
  }
  const Md5Digest digest = md5(bytes.view().substr(begin));
  bytes.cut(begin);
  bytes += std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}}  // namespace vortex::v0

#include "lines/keys/random_key.h"

#include <algorithm>

#include "lines/keys/collation_key.h"
#include "lines/keys/md5.h"

namespace vortex::inline v0 {

void RandomKey::append(std::string_view field, std::string& bytes) const {
  std::string hashed(seed_.begin(), seed_.end());
  if (locale_.collates_bytes()) {
    hashed += field;
  } else {
    while (!field.empty()) {
      const std::size_t length = append_transformed(locale_, field, hashed);
      hashed += '\0';
      field.remove_prefix(std::min(length + 1, field.size()));
    }
  }
  const Md5Digest digest = md5(hashed);
  bytes.append(digest.begin(), digest.end());
}

}  // namespace vortex::inline v0

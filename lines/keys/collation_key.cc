#include "lines/keys/collation_key.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

// strxfrm() wants a NUL at the end of the text, and nothing else is copied for its sake.
class Terminated {
 public:
  explicit Terminated(std::string_view text) {
    if (text.size() >= short_.size()) {
      long_ = text;
      return;
    }
    std::copy(text.begin(), text.end(), short_.begin());
    short_[text.size()] = '\0';
  }
  const char* c_str() const noexcept { return long_.empty() ? short_.data() : long_.c_str(); }

 private:
  std::array<char, 512> short_;
  std::string long_;
};

}  // namespace

std::size_t append_transformed(const KeyLocale& locale, std::string_view text, std::string& bytes) {
  const std::size_t length = std::min(text.find('\0'), text.size());
  const Terminated source(text.substr(0, length));
  const std::size_t begin = bytes.size();
  for (std::size_t room = 4 * length + 16;;) {
    bytes.resize(begin + room);
    errno = 0;
    const std::size_t needed =
        strxfrm_l(bytes.data() + begin, source.c_str(), room, locale.handle());
    if (errno != 0) throw Error(errno, "a line cannot be compared by the rules of its locale");
    if (needed < room) {
      bytes.resize(begin + needed);
      return length;
    }
    room = needed + 1;
  }
}

// A NUL ends each part: 0 behind it says that there is no part, 1 that it is the last one, 2 that
// another follows.
void CollationKey::append(std::string_view field, std::string& bytes) const {
  if (field.empty()) {
    bytes.append(2, '\0');
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

}  // namespace vortex::inline v0

#include "lines/record/whole_key.h"

#include <cstddef>

namespace vortex { inline namespace v0 {

namespace {

// The room of longer ones is given back, for it is beside the memory of the sort.
constexpr std::size_t kMaxKept = std::size_t{64} << 10;
constexpr std::size_t kPage = 4096;

void make(std::string_view record, const RecordKeys& keys, std::string& key) {
  key.clear();
  if (key.capacity() > kMaxKept) key.shrink_to_fit();
  keys.append_whole(record, key);
}

// Makes all of the text be there: a fault that fails leaves by a jump, which must not happen while
// memory is being taken.
void touch(std::string_view text) noexcept {
  const volatile char* const bytes = text.data();
  for (std::size_t at = 0; at < text.size(); at += kPage) (void)bytes[at];
  if (!text.empty()) (void)bytes[text.size() - 1];
}

}  // namespace

std::string_view WholeKey::of(std::string_view record, const RecordKeys& keys) {
  if (made_ && record == record_) return key_;
  made_ = false;
  make(record, keys, key_);
  record_ = record;
  made_ = true;
  return key_;
}

int compare_whole_keys(std::string_view a, std::string_view b, const RecordKeys& keys) {
  touch(a);
  touch(b);
  return a == b ? 0 : keys.compare_whole(a, b);
}

int compare_made_keys(std::string_view a, std::string_view b, const RecordKeys& keys) {
  thread_local std::string of_a;
  thread_local std::string of_b;
  make(a, keys, of_a);
  make(b, keys, of_b);
  return of_a.compare(of_b);
}

}}  // namespace vortex::v0

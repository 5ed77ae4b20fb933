#include <cerrno>
#include <cstring>
#include <utility>

#include "lines/fields/key_room.h"
#include "lines/record/whole_key.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

RecordFraming::RecordFraming(Kind kind, char delimiter, LengthFunction length)
    : kind_(kind), delimiter_(delimiter), length_(std::move(length)) {}

RecordFraming RecordFraming::delimited(char delimiter) { return {Kind::kDelimited, delimiter, {}}; }

RecordFraming RecordFraming::quoted(char delimiter, char separator, InvalidQuotes invalid) {
  if (delimiter == separator || delimiter == '"' || separator == '"') {
    throw Error(EINVAL, "what ends a record, what separates its values and a quote must differ");
  }
  RecordFraming framing(Kind::kQuoted, delimiter, {});
  framing.separator_ = separator;
  framing.invalid_quotes_ = invalid;
  return framing;
}

RecordFraming RecordFraming::length_prefixed() { return {Kind::kLengthPrefixed, '\0', {}}; }

RecordFraming RecordFraming::by_function(LengthFunction length) {
  return {Kind::kFunction, '\0', std::move(length)};
}

RecordKeys::~RecordKeys() = default;

bool RecordKeys::shortened() const noexcept { return false; }

void RecordKeys::append_whole(std::string_view, std::string&) const {}

int RecordKeys::compare_whole(std::string_view a, std::string_view b) const {
  return compare_made_keys(a, b, *this);
}

char* KeyBatch::room(std::size_t bytes) {
  if (is_fixed_) {
    if (fixed_.size() - size_ < bytes) throw KeyRoomFull();
    return fixed_.data() + size_;
  }
  if (bytes_.size() - size_ < bytes) {
    bytes_.resize(detail::saturating_product(detail::saturating_sum(size_, bytes), 2));
  }
  return bytes_.data() + size_;
}

void KeyBatch::append(std::string_view part) {
  if (part.empty()) return;
  std::memcpy(room(part.size()), part.data(), part.size());
  used(part.size());
}

void KeyBatch::clear() noexcept {
  size_ = 0;
  ends_.clear();
}

}}  // namespace vortex::v0

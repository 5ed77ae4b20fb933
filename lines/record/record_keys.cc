#include "lines/record/record_keys.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "lines/fields/key_bytes.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/thread/of_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// The room of longer keys is given back, for it is beside the memory of the sort.
constexpr std::size_t kMaxKept = std::size_t{64} << 10;
constexpr std::size_t kPage = 4096;

void make(std::string_view record, const RecordKeys& keys, std::string& key) {
  key.clear();
  if (key.capacity() > kMaxKept) key.shrink_to_fit();
  keys.append_whole(record, key);
}

// Reads all pages of a text: a fault that fails leaves by a jump, which must not happen while
// memory is being taken.
void touch(std::string_view text) noexcept {
  const volatile char* const bytes = text.data();
  for (std::size_t at = 0; at < text.size(); at += kPage) (void)bytes[at];
  if (!text.empty()) (void)bytes[text.size() - 1];
}

}  // namespace

RecordKeys::~RecordKeys() = default;

bool RecordKeys::appended_by_any_thread() const noexcept { return false; }

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

void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch) {
  batch.clear();
  append_keys(keys, records, batch);
}

void append_keys(const RecordKeys& keys, std::span<const std::string_view> records,
                 KeyBatch& batch) {
  const std::size_t before = batch.keys();
  keys.append(records, batch);
  if (batch.keys() - before == records.size()) return;
  throw Error(EINVAL, "of " + std::to_string(records.size()) + " records " +
                          std::to_string(batch.keys() - before) + " keys were made");
}

std::size_t records_together(std::span<const std::string_view> records) noexcept {
  std::size_t together = 0;
  for (std::size_t bytes = 0; together < records.size() && bytes < kLongRecord; ++together) {
    if (records[together].size() > kLongRecord) break;
    bytes += records[together].size();
  }
  return together;
}

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
  static const OfThread<std::pair<std::string, std::string>> rooms;
  std::pair<std::string, std::string> own;
  auto* const kept = rooms.get_if_any();
  auto& [of_a, of_b] = kept != nullptr ? *kept : own;
  make(a, keys, of_a);
  make(b, keys, of_b);
  return of_a.compare(of_b);
}

}}  // namespace vortex::v0

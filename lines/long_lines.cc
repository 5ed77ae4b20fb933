#include "lines/long_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/size_signal.h"

namespace vortex::inline v0 {
namespace {

// Of the memory, a long record is so small a part at least, and so are the places of all of them.
constexpr std::uint64_t kShare = 64;
constexpr std::uint64_t kLeastLong = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{4} << 20;
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

// Returns an errno value, or 0.
int write_all(int file, std::string_view text, std::uint64_t offset) noexcept {
  while (!text.empty()) {
    const ssize_t written = os::without_size_signal(
        [&] { return pwrite(file, text.data(), text.size(), static_cast<off_t>(offset)); });
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

void read_all(const BlockFile& file, std::span<char> to, std::uint64_t offset) {
  while (!to.empty()) {
    const ssize_t count =
        pread(file.descriptor(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(count < 0 ? errno : EIO, "read a long record from '" + file.name() + "'");
    }
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void replace_bytes(std::span<char> text, const std::array<char, 256>& map) noexcept {
  for (char& c : text) c = map[static_cast<unsigned char>(c)];
}

bool is_full(int error) noexcept { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

class LongLines::Text {
 public:
  explicit Text(std::string_view text) noexcept : bytes_(text.size()), memory_(text) {}
  Text(const BlockFile& file, std::uint64_t offset, std::uint64_t bytes, std::span<char> buffer,
       const std::array<char, 256>* byte_map = nullptr) noexcept
      : bytes_(bytes), file_(&file), offset_(offset), buffer_(buffer), byte_map_(byte_map) {}

  std::uint64_t bytes() const noexcept { return bytes_; }
  // The bytes from there on, kBufferBytes of them or up to the end; valid until the next call.
  std::string_view piece(std::uint64_t at) const {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_ - at, kBufferBytes));
    if (file_ == nullptr) return memory_.substr(static_cast<std::size_t>(at), bytes);
    read_all(*file_, buffer_.first(bytes), offset_ + at);
    if (byte_map_ != nullptr) replace_bytes(buffer_.first(bytes), *byte_map_);
    return {buffer_.data(), bytes};
  }

 private:
  std::uint64_t bytes_;
  std::string_view memory_;
  const BlockFile* file_ = nullptr;
  std::uint64_t offset_ = 0;
  std::span<char> buffer_;
  const std::array<char, 256>* byte_map_ = nullptr;
};

LongLines::LongLines(const StoredOrder& order, const std::array<char, 256>* byte_map,
                     std::uint64_t memory_bytes, std::vector<std::string> folders,
                     const SortWatch& watch)
    : order_(order),
      byte_map_(byte_map),
      least_bytes_(std::max(memory_bytes / kShare, kLeastLong)),
      most_entries_(static_cast<std::size_t>(std::min(memory_bytes / kShare, kMostIndexBytes) /
                                             sizeof(Entry))),
      folders_(std::move(folders)),
      watch_(watch) {}

void LongLines::take(std::string_view key, std::string_view record) {
  watch_.expect_going();
  if (!needs_keys()) key = {};
  if (entries_.capacity() == 0) entries_.reserve(most_entries_);
  Entry entry{.key_bytes = key.size(), .record_bytes = record.size()};
  const std::string_view sorted_by = needs_keys() ? key : record;
  const std::span<char> prefix = std::span(entry.prefix).first(std::min(sorted_by.size(), kPrefix));
  std::copy_n(sorted_by.data(), prefix.size(), prefix.data());
  if (byte_map_ != nullptr) replace_bytes(prefix, *byte_map_);
  entry.offset = write(key.size() <= kPrefix ? std::string_view() : key, record);
  entry.file = static_cast<std::uint32_t>(files_.size() - 1);
  entries_.push_back(entry);
}

// Returns where. A folder that is full is left.
std::uint64_t LongLines::write(std::string_view key, std::string_view record) {
  const std::uint64_t bytes = key.size() + record.size();
  for (;;) {
    if (files_.empty()) files_.push_back(BlockFile::temporary(folders_.front(), false));
    const BlockFile& file = files_.back();
    const std::uint64_t begin = end_;
    int error = write_all(file.descriptor(), key, begin);
    if (error == 0) error = write_all(file.descriptor(), record, begin + key.size());
    if (error == 0) {
      end_ = begin + bytes;
      file_bytes_ += bytes;
      return begin;
    }
    const std::string& folder = folders_[files_.size() - 1];
    if (!is_full(error) || files_.size() == folders_.size()) {
      throw Error(error, "write a long record of " + format_bytes(record.size()) +
                             " to a temporary file in '" + folder + "'");
    }
    files_.push_back(BlockFile::temporary(folders_[files_.size()], false));
    end_ = 0;
  }
}

// One that the entry has whole is nowhere else.
LongLines::Text LongLines::key_of(const Entry& entry, std::size_t buffer) {
  if (!needs_keys()) {
    return {files_[entry.file], entry.offset, entry.record_bytes, buffers_[buffer], byte_map_};
  }
  if (entry.key_bytes <= kPrefix) {
    return Text({entry.prefix.data(), static_cast<std::size_t>(entry.key_bytes)});
  }
  return {files_[entry.file], entry.offset, entry.key_bytes, buffers_[buffer]};
}

LongLines::Text LongLines::record_of(const Entry& entry, std::size_t buffer) {
  const std::uint64_t in_front = entry.key_bytes <= kPrefix ? 0 : entry.key_bytes;
  return {files_[entry.file], entry.offset + in_front, entry.record_bytes, buffers_[buffer]};
}

// Whose first `known` bytes are the same, as far as both have them.
int LongLines::compare(Text& a, Text& b, std::uint64_t known) {
  const std::uint64_t common = std::min(a.bytes(), b.bytes());
  for (std::uint64_t at = known; at < common;) {
    const std::string_view of_a = a.piece(at);
    const std::string_view of_b = b.piece(at);
    const std::size_t bytes = std::min(of_a.size(), of_b.size());
    const int order = std::memcmp(of_a.data(), of_b.data(), bytes);
    if (order != 0) return order;
    at += bytes;
  }
  return (a.bytes() > b.bytes()) - (a.bytes() < b.bytes());
}

int LongLines::compare(const Entry& a, const Entry& b) {
  Text left = key_of(a, 0);
  Text right = key_of(b, 1);
  const auto common =
      static_cast<std::size_t>(std::min({left.bytes(), right.bytes(), std::uint64_t{kPrefix}}));
  int order = std::memcmp(a.prefix.data(), b.prefix.data(), common);
  if (order == 0) order = compare(left, right, common);
  if (order == 0 && order_.record_decides) {
    left = record_of(a, 0);
    right = record_of(b, 1);
    order = compare(left, right, 0);
  }
  return order_.flip == 0 ? order : (order < 0) - (order > 0);
}

int LongLines::compare(const Entry& a, const StoredRecord& b) {
  Text left = key_of(a, 0);
  Text right(b.key);
  const auto common =
      static_cast<std::size_t>(std::min({left.bytes(), right.bytes(), std::uint64_t{kPrefix}}));
  int order = common == 0 ? 0 : std::memcmp(a.prefix.data(), b.key.data(), common);
  if (order == 0) order = compare(left, right, common);
  if (order == 0 && order_.record_decides) {
    left = record_of(a, 0);
    right = Text(b.record);
    order = compare(left, right, 0);
  }
  return order_.flip == 0 ? order : (order < 0) - (order > 0);
}

void LongLines::sort() {
  if (empty()) return;
  for (std::vector<char>& buffer : buffers_) buffer.resize(kBufferBytes);
  std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
    watch_.expect_going();
    return &a != &b && compare(a, b) < 0;
  });
}

bool LongLines::is_before(const StoredRecord& other) { return compare(entries_[next_], other) < 0; }

std::uint64_t LongLines::write_next(FramedOutput& out) {
  const Entry& entry = entries_[next_++];
  const Text record = record_of(entry, 0);
  out.begin_record(record.bytes());
  for (std::uint64_t at = 0; at < record.bytes(); at += kBufferBytes) {
    watch_.expect_going();
    out.append_framed(record.piece(at));
  }
  out.end_record();
  return record.bytes();
}

}  // namespace vortex::inline v0

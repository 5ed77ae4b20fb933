// How a record lies in a run: without what it shares with the one before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lines/record/stored_record.h"
#include "sort/record/key_chunk.h"

namespace vortex { inline namespace v0 {

// Longer keys are stored whole, and so are those behind them.
inline constexpr std::size_t kMaxSharingKey = 1024;
// Bytes in front of a stored record, at most.
inline constexpr std::size_t kRunPrefixBytes = 2 * kMaxLengthBytes;

// A number, whose lowest bits say whether a count follows and whether the key lacks what it shares
// with the one before, and whose other bits are the chunks in common; the count unless it is 1; the
// lengths of the key, if it is not the record, and of the record; the bytes of the key, or those
// that are not shared; the record, unless it is its own key.
struct RunRecordHead {
  static constexpr std::uint64_t kCounted = 1;
  static constexpr std::uint64_t kSharing = 2;
  static constexpr int kFlags = 2;

  std::uint64_t in_common;
  std::uint64_t count;
  bool sharing;

  std::uint64_t number() const noexcept {
    return in_common << kFlags | (sharing ? kSharing : 0) | (count != 1 ? kCounted : 0);
  }
  std::size_t bytes() const noexcept {
    return length_bytes(number()) + (count != 1 ? length_bytes(count) : 0);
  }
  // Returns the end of what it wrote.
  char* write(char* to) const noexcept {
    to = write_length(to, number());
    return count != 1 ? write_length(to, count) : to;
  }
  // The same with the lengths of the record that stands behind it.
  char* write_with_lengths(char* to, const StoredRecord& stored, bool has_keys) const noexcept {
    to = write(to);
    if (has_keys) to = write_length(to, stored.key.size());
    return write_length(to, stored.record.size());
  }
};

// The bytes of a key that the first `in_common` chunks of its order are.
inline std::size_t shared_bytes(std::size_t key_bytes, std::uint64_t in_common) noexcept {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(key_bytes, std::uint64_t{kChunkBytes} * in_common));
}

// Reads records one behind the other, and puts keys together where they lack what they share. The
// record before must still be readable when the next one is read, if keep_key() was not called.
class RunRecordReader {
 public:
  explicit RunRecordReader(bool has_keys) noexcept : has_keys_(has_keys) {}
  RunRecordReader(const RunRecordReader&) = delete;
  RunRecordReader& operator=(const RunRecordReader&) = delete;

  // Goes behind the record at `at`.
  void read(const char*& at) noexcept {
    const std::uint64_t number = read_length(at);
    count_ = (number & RunRecordHead::kCounted) != 0 ? read_length(at) : 1;
    in_common_ = number >> RunRecordHead::kFlags;
    if ((number & RunRecordHead::kSharing) != 0) {
      read_rest(at);
    } else {
      stored_ = stored_record(at, has_keys_);
    }
  }
  // Valid until the next read(), and as long as what was read.
  const StoredRecord& stored() const noexcept { return stored_; }
  // The chunks that it has in common with the one before.
  std::uint64_t in_common() const noexcept { return in_common_; }
  // It was written before that was known.
  void set_in_common(std::uint64_t chunks) noexcept { in_common_ = chunks; }
  // How many times it is there.
  std::uint64_t count() const noexcept { return count_; }

  // The next record is stored behind one whose key begins like this.
  void set_key_before(std::string_view key) noexcept {
    key = key.substr(0, kMaxSharingKey);
    if (!key.empty()) std::memcpy(key_, key.data(), key.size());
    stored_.key = {key_, key.size()};
  }
  // What was read goes away, and only the next record is asked for.
  void keep_key() noexcept {
    if (stored_.key.data() != key_) set_key_before(stored_.key);
  }

 private:
  void read_rest(const char*& at) noexcept {
    const std::size_t stored_key = read_length(at);
    const std::size_t record_bytes = has_keys_ ? read_length(at) : stored_key;
    const std::size_t key_bytes = std::min(stored_key, kMaxSharingKey);  // whatever a disk returns
    const std::size_t shared = shared_bytes(key_bytes, in_common_);
    if (stored_.key.data() != key_) std::memcpy(key_, stored_.key.data(), shared);
    copy_text(key_ + shared, {at, key_bytes - shared});
    at += key_bytes - shared;
    stored_.key = {key_, key_bytes};
    stored_.record = {has_keys_ ? at : key_, record_bytes};
    if (has_keys_) at += record_bytes;
  }

  const bool has_keys_;
  StoredRecord stored_;
  std::uint64_t in_common_ = 0;
  std::uint64_t count_ = 1;
  char key_[kMaxSharingKey];  // of the last record, if that lacked a part
};

}}  // namespace vortex::v0

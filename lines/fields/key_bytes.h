// The bytes of a key while they are made.
#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// A key that does not fit in the room that it was given. The sort catches it, and looks for more.
class KeyRoomFull : public Error {
 public:
  KeyRoomFull() : Error(EMSGSIZE, "a key is longer than the memory has room for") {}
};

// A string that grows, or a fixed room: keys of long records are made where the sort has memory for
// them, and take none besides.
class KeyBytes {
 public:
  // Appends to the string, which is as long as the key only after finish().
  explicit KeyBytes(std::string& string) noexcept
      : string_(&string), data_(string.data()), size_(string.size()), room_(string.size()) {}
  // Throws KeyRoomFull where more are appended than it holds.
  explicit KeyBytes(std::span<char> room) noexcept : data_(room.data()), room_(room.size()) {}
  KeyBytes(const KeyBytes&) = delete;
  KeyBytes& operator=(const KeyBytes&) = delete;

  KeyBytes& operator+=(char byte) {
    if (size_ == room_) [[unlikely]]
      grow(1);
    data_[size_++] = byte;
    return *this;
  }
  KeyBytes& operator+=(std::string_view text) {
    if (!text.empty()) std::memcpy(more(text.size()), text.data(), text.size());
    return *this;
  }
  // The highest byte comes first.
  void append_big_endian(std::unsigned_integral auto number) {
    char* to = more(sizeof number);
    for (std::size_t left = sizeof number; left-- > 0;) {
      *to++ = static_cast<char>(number >> 8 * left);
    }
  }
  // A length, so that longer ones are greater: one byte, `of_none` for 0, where it is at most
  // `most_short`, else `longer` and eight bytes.
  void append_length(std::size_t length, std::size_t most_short, unsigned char of_none,
                     unsigned char longer) {
    *this += static_cast<char>(length <= most_short ? of_none + length : longer);
    if (length > most_short) append_big_endian(std::uint64_t{length});
  }
  // Makes the key longer by this many bytes, whose content is unspecified, and returns the first.
  char* more(std::size_t bytes) {
    if (room_ - size_ < bytes) [[unlikely]]
      grow(bytes);
    size_ += bytes;
    return data_ + size_ - bytes;
  }
  // Keeps the first `size` bytes.
  void cut(std::size_t size) noexcept { size_ = size; }
  void clear() noexcept { size_ = 0; }

  std::size_t size() const noexcept { return size_; }
  char* data() noexcept { return data_; }
  std::string_view view() const noexcept { return {data_, size_}; }
  // How many more bytes there can be.
  std::size_t most_more() const noexcept {
    return string_ != nullptr ? std::numeric_limits<std::size_t>::max() : room_ - size_;
  }

  void invert_from(std::size_t begin) noexcept {
    for (std::size_t i = begin; i < size_; ++i) data_[i] = static_cast<char>(~data_[i]);
  }
  void finish() {
    if (string_ != nullptr) string_->resize(size_);
  }

 private:
  void grow(std::size_t bytes) {
    if (string_ == nullptr) throw KeyRoomFull();
    constexpr std::size_t kLeast = 64;
    string_->resize(std::max({2 * size_, size_ + bytes, kLeast}));
    data_ = string_->data();
    room_ = string_->size();
  }

  std::string* string_ = nullptr;
  char* data_;
  std::size_t size_ = 0;
  std::size_t room_;
};

}}  // namespace vortex::v0

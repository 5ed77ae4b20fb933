// Bytes written one behind the other to the plain pointer of an output stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "lines/record/framing.h"
#include "lines/record/stored_record.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// It never goes back, and never touches a block before the one in front of it is full, however long
// the pieces are that are written. Write inside guarded().
class ByteOutput {
 public:
  ByteOutput(std::byte* to, std::size_t block_bytes) noexcept
      : to_(reinterpret_cast<char*>(to)), block_bytes_(block_bytes), left_in_block_(block_bytes) {}
  // The first bytes go to `head`, and those behind them to `to`.
  ByteOutput(std::span<std::byte> head, std::byte* to, std::size_t block_bytes) noexcept
      : to_(reinterpret_cast<char*>(head.data())),
        behind_head_(reinterpret_cast<char*>(to) - head.size()),
        block_bytes_(block_bytes),
        left_in_block_(head.size()) {}

  void append(const char* from, std::size_t bytes) noexcept {
    while (bytes > left_in_block_) {
      const std::size_t now = left_in_block_;
      copy(from, now);
      left_in_block_ = block_bytes_;
      if (behind_head_ != nullptr) to_ = std::exchange(behind_head_, nullptr);
      from += now;
      bytes -= now;
    }
    copy(from, bytes);
  }
  void append(std::string_view text) noexcept { append(text.data(), text.size()); }

  // Returns where the next `bytes` may be written in one piece, which used() takes then; null where
  // they would cross the border of a block. Bytes that are not used must not be touched.
  char* piece(std::size_t bytes) const noexcept {
    return bytes <= left_in_block_ ? to_ + bytes_ : nullptr;
  }
  void used(std::size_t bytes) noexcept {
    bytes_ += bytes;
    left_in_block_ -= bytes;
  }

  std::uint64_t bytes() const noexcept { return bytes_; }
  // How many bytes may be written before another block is touched.
  std::size_t left_in_block() const noexcept { return left_in_block_; }

 private:
  void copy(const char* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    std::memcpy(to_ + bytes_, from, bytes);
    used(bytes);
  }

  char* to_;
  char* behind_head_ = nullptr;  // `to_` once the head is full
  std::size_t block_bytes_;
  std::size_t left_in_block_;
  std::uint64_t bytes_ = 0;
};

// Records in their framing.
class FramedOutput {
 public:
  FramedOutput(ByteOutput out, const RecordFraming& framing) noexcept
      : out_(out), kind_(framing.kind()), delimiter_(framing.delimiter()) {}

  void append(std::string_view record) noexcept {
    if (kind_ == RecordFraming::Kind::kDelimited) {
      if (char* const to = out_.piece(record.size() + 1)) [[likely]] {
        *copy_text(to, record) = delimiter_;
        out_.used(record.size() + 1);
        return;
      }
    }
    begin_record(record.size());
    out_.append(record);
    end_record();
  }
  // They write what stands in front of a record and behind it, which is appended in between.
  void begin_record(std::uint64_t bytes) noexcept {
    if (kind_ != RecordFraming::Kind::kLengthPrefixed) return;
    const auto length = static_cast<std::uint32_t>(bytes);
    out_.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  void end_record() noexcept {
    if (kind_ == RecordFraming::Kind::kDelimited || kind_ == RecordFraming::Kind::kQuoted) {
      out_.append(&delimiter_, 1);
    }
  }
  // Bytes that are in their framing already.
  void append_framed(std::string_view text) noexcept { out_.append(text); }
  std::uint64_t bytes() const noexcept { return out_.bytes(); }

 private:
  ByteOutput out_;
  RecordFraming::Kind kind_;
  char delimiter_;
};

}}  // namespace vortex::v0

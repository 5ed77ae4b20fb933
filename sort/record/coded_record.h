// Records of a word, or of a word and another, as the kernels of sorts in memory take them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sort/record/format_order.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 {

// Records of 8 bytes that are their key: the key's bits.
class CodedWord {
 public:
  using Item = std::uint64_t;
  using KeyOf = detail::KeyOfWord;

  static bool suits(const FormatRules& rules) noexcept {
    return rules.word_key() && rules.record_bytes() == sizeof(Item);
  }
  explicit CodedWord(const FormatRules& rules) noexcept : key_(*rules.word_key()) {}

  // Whether an item is the record as it is.
  bool is_plain() const noexcept { return key_.is_plain(); }
  std::uint64_t bits(const std::byte* record) const noexcept { return key_.bits(record); }

  // The item of a record whose bits are known.
  static Item item(const std::byte* /*record*/, std::uint64_t bits) noexcept { return bits; }

  void encode(const std::byte* records, std::size_t count, Item* items) const noexcept {
    if (is_plain()) {
      if (count > 0) std::memcpy(items, records, count * sizeof(Item));  // which takes no null
      return;
    }
    for (std::size_t i = 0; i < count; ++i) items[i] = key_.bits(records + i * sizeof(Item));
  }
  // `records` may be where the items are.
  void decode(const Item* items, std::size_t count, std::byte* records) const noexcept {
    if (is_plain()) {
      if (count > 0) std::memmove(records, items, count * sizeof(Item));
      return;
    }
    for (std::size_t i = 0; i < count; ++i) key_.put(items[i], records + i * sizeof(Item));
  }

 private:
  const WordKey key_;
};

// Records of 16 bytes whose first or second half is their key: its bits, and the other half.
class CodedPair {
 public:
  using Item = Pair64;
  using KeyOf = detail::KeyOfPair;

  static bool suits(const FormatRules& rules) noexcept {
    return rules.word_key() && rules.record_bytes() == sizeof(Item) &&
           rules.word_key()->offset % sizeof(std::uint64_t) == 0;
  }
  explicit CodedPair(const FormatRules& rules) noexcept
      : key_(*rules.word_key()), other_(sizeof(std::uint64_t) - key_.offset) {}

  bool is_plain() const noexcept { return key_.offset == 0 && key_.is_plain(); }
  std::uint64_t bits(const std::byte* record) const noexcept { return key_.bits(record); }

  // The item of a record whose bits are known.
  Item item(const std::byte* record, std::uint64_t bits) const noexcept {
    Item item{bits, 0};
    std::memcpy(&item.value, record + other_, sizeof item.value);
    return item;
  }

  void encode(const std::byte* records, std::size_t count, Item* items) const noexcept {
    if (is_plain()) {
      if (count > 0) std::memcpy(items, records, count * sizeof(Item));  // which takes no null
      return;
    }
    for (std::size_t i = 0; i < count; ++i, records += sizeof(Item)) {
      items[i] = item(records, bits(records));
    }
  }
  // `records` may be where the items are.
  void decode(const Item* items, std::size_t count, std::byte* records) const noexcept {
    if (is_plain()) {
      if (count > 0) std::memmove(records, items, count * sizeof(Item));
      return;
    }
    for (std::size_t i = 0; i < count; ++i, records += sizeof(Item)) {
      const Item item = items[i];  // the records may lie where the items are
      key_.put(item.key, records);
      std::memcpy(records + other_, &item.value, sizeof item.value);
    }
  }

 private:
  const WordKey key_;
  const std::size_t other_;  // where the half is that is no key
};

// Their order, as the kernels of merges take it.
template <typename Coded>
class CodedRules {
 public:
  explicit CodedRules(const Coded& coded) noexcept : coded_(coded) {}

  static std::size_t record_bytes() noexcept { return sizeof(typename Coded::Item); }
  std::uint64_t leading_bits(const std::byte* record) const noexcept { return coded_.bits(record); }
  static bool leading_bits_decide() noexcept { return true; }
  static bool less_of_equal_bits(const std::byte*, const std::byte*) noexcept { return false; }

 private:
  const Coded coded_;
};

}}  // namespace vortex::v0

// Records of a word, or of a word and another, as the kernels of sorts in memory take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sort/memory/two_way_merge.h"
#include "sort/record/format_order.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 {

// Records whose only key is a word, at a multiple of 8 bytes. As items, with the key's bits in its
// place: CodedWord, records of 8 bytes that are their key, are these bits; CodedPair, of 16 bytes,
// are these bits and then the other half.
template <typename ItemType, typename KeyOfItem>
class CodedRecord {
 public:
  using Item = ItemType;
  using KeyOf = KeyOfItem;

  static bool suits(const FormatRules& rules) noexcept {
    return rules.word_key() && rules.record_bytes() == sizeof(Item) &&
           rules.word_key()->offset % kWord == 0;
  }
  explicit CodedRecord(const FormatRules& rules) noexcept
      : key_(*rules.word_key()), other_(kWord - key_.offset) {}

  // The kernel that keeps the order of equal keys, and a sort of items where they are.
  static detail::SmallSort<Item> small_sort() noexcept {
    if constexpr (kIsPair) {
      return detail::stable_small_sort_of_pairs(detail::isa_in_use());
    } else {
      return detail::small_sort_for<Item>(detail::isa_in_use());
    }
  }
  static detail::TwoWayMerge<Item> two_way_merge() noexcept {
    return detail::two_way_merge_for<Item>(detail::isa_in_use());
  }
  static void sort(Item* items, std::size_t count, unsigned threads) {
    if constexpr (kIsPair) {
      detail::sort_pairs_64(items, count, true, threads);
    } else {
      detail::sort_keys_64(items, count, threads);
    }
  }

  // Whether an item is the record as it is.
  bool is_plain() const noexcept { return key_.offset == 0 && key_.is_plain(); }
  std::uint64_t bits(const std::byte* record) const noexcept { return key_.bits(record); }

  // The item of a record whose bits are known.
  Item item(const std::byte* record, std::uint64_t bits) const noexcept {
    if constexpr (kIsPair) {
      Item item{bits, 0};
      std::memcpy(&item.value, record + other_, kWord);
      return item;
    } else {
      return bits;
    }
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
      key_.put(KeyOf{}(item), records);
      if constexpr (kIsPair) std::memcpy(records + other_, &item.value, kWord);
    }
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uint64_t);
  static constexpr bool kIsPair = sizeof(Item) > kWord;

  const WordKey key_;
  const std::size_t other_;  // where the half of a pair is that is no key
};

// Appends the records of some items, at least one, beginning with a room that the output has given.
template <typename Coded>
void put_items(const Coded& coded, const typename Coded::Item* items, std::size_t count,
               std::span<std::byte> room, RecordOutput& out) {
  for (;;) {
    const std::size_t here = room.size() / sizeof(*items);
    coded.decode(items, here, room.data());
    out.written(room.size());
    items += here;
    count -= here;
    if (count == 0) return;
    room = out.room(count * sizeof(*items));
  }
}

using CodedWord = CodedRecord<std::uint64_t, detail::KeyOfWord>;
using CodedPair = CodedRecord<Pair64, detail::KeyOfPair>;

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

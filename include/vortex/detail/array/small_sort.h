// The base case: up to 128 records, sorted in registers where the processor has wide ones; stable
// and for any record without; and words of a key and a place, which records follow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vortex/detail/record/key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

enum class Isa { kPortable, kAvx2, kAvx512 };

// The best that this processor and its operating system support.
VORTEX_EXPORT Isa best_isa() noexcept;

// The instructions that sorts use: best_isa(), or less where a test or a benchmark has asked for
// less.
VORTEX_EXPORT Isa isa_in_use() noexcept;

// Takes effect for sorts that start later, in the whole process. Returns false, and changes
// nothing, for what the processor does not have.
VORTEX_EXPORT bool use_isa(Isa isa) noexcept;

VORTEX_EXPORT const char* isa_name(Isa isa) noexcept;

inline constexpr std::size_t kMaxSmallSort = 128;

// Sorts `count` <= kMaxSmallSort records of `in` to `out`, which may be the same place but not
// overlap otherwise. Ascending by the unsigned key; records with equal keys in any order. Reads
// nothing beyond in[count], writes nothing beyond out[count]. Does not allocate.
template <typename Record>
using SmallSort = void (*)(const Record* in, std::size_t count, Record* out) noexcept;

// The kernel for the instructions at hand; Record is uint32_t, uint64_t or Pair64.
template <typename Record>
SmallSort<Record> small_sort_for(Isa isa) noexcept;

template <>
VORTEX_EXPORT SmallSort<std::uint32_t> small_sort_for<std::uint32_t>(Isa isa) noexcept;
template <>
VORTEX_EXPORT SmallSort<std::uint64_t> small_sort_for<std::uint64_t>(Isa isa) noexcept;
template <>
VORTEX_EXPORT SmallSort<Pair64> small_sort_for<Pair64>(Isa isa) noexcept;

// One that keeps the order of pairs with equal keys.
VORTEX_EXPORT SmallSort<Pair64> stable_small_sort_of_pairs(Isa isa) noexcept;

// Sorts like a SmallSort, by key(record), keeping the order of records with equal keys: insertion
// sort of runs of 8, then branch-free merging. Takes room for 2 * kMaxSmallSort records of the
// stack, which is why it is never made part of its callers: they call themselves.
template <typename Record, typename Key>
[[gnu::noinline]] void small_sort_stable(const Record* in, std::size_t count, Record* out,
                                         Key key) noexcept {
  if (count == 0) return;  // `in` may be null
  constexpr std::size_t kRun = 8;
  // Raw storage: records need not be default-constructible.
  alignas(Record) std::byte storage[2][kMaxSmallSort * sizeof(Record)];
  auto* from = reinterpret_cast<Record*>(storage[0]);
  auto* to = reinterpret_cast<Record*>(storage[1]);
  std::memcpy(static_cast<void*>(from), in, count * sizeof(Record));
  for (std::size_t begin = 0; begin < count; begin += kRun) {
    const std::size_t end = begin + kRun < count ? begin + kRun : count;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const Record record = from[i];
      std::size_t hole = i;
      for (; hole > begin && key(record) < key(from[hole - 1]); --hole) from[hole] = from[hole - 1];
      from[hole] = record;
    }
  }
  for (std::size_t run = kRun; run < count; run *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * run) {
      std::size_t left = begin;
      const std::size_t middle = begin + run < count ? begin + run : count;
      std::size_t right = middle;
      const std::size_t end = begin + 2 * run < count ? begin + 2 * run : count;
      std::size_t at = begin;
      while (left < middle && right < end) {
        const bool take_right = key(from[right]) < key(from[left]);
        to[at++] = from[take_right ? right : left];
        right += take_right;
        left += !take_right;
      }
      std::memcpy(static_cast<void*>(to + at), from + left, (middle - left) * sizeof(Record));
      at += middle - left;
      std::memcpy(static_cast<void*>(to + at), from + right, (end - right) * sizeof(Record));
    }
    Record* const swap = from;
    from = to;
    to = swap;
  }
  std::memcpy(static_cast<void*>(out), from, count * sizeof(Record));
}

// Words whose lower bits are the place of a record among `count` of them, and whose upper bits are
// as much of its key as there is room for, counted from the smallest key. They are all different,
// and those of equal keys are in the order of their places.
class KeyedPlaces {
 public:
  // Makes words of the bits of `count` > 0 keys, where they are.
  static VORTEX_EXPORT KeyedPlaces make(std::uint64_t* bits, std::size_t count) noexcept;

  // The same of keys of 32 bits at most.
  static KeyedPlaces make_of_halves(std::uint64_t* bits, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) bits[i] = bits[i] << 32 | i;
    return KeyedPlaces(32, 0);
  }

  std::size_t place(std::uint64_t word) const noexcept { return word & mask_; }

  // Brings sorted words into the order of the whole keys, key_at(place), where bits of them were
  // dropped. Returns false, with words in some order, where too many are out of it.
  template <typename KeyAt>
  bool settle(std::uint64_t* words, std::size_t count, const KeyAt& key_at) const noexcept {
    if (all_bits_ || ties_in(words, count) == 0) return true;
    // Ties of equal keys, which are in order, cost a look. Sorting otherwise costs as much as some
    // moves of each word.
    std::size_t moves_left = 8 + 2 * count;
    for (std::size_t i = 1; i < count; ++i) {
      const std::uint64_t word = words[i];
      if ((words[i - 1] ^ word) > mask_) continue;
      const auto key = key_at(place(word));
      std::size_t to = i;
      for (; to > 0 && (words[to - 1] ^ word) <= mask_ && key < key_at(place(words[to - 1]));
           --to) {
        words[to] = words[to - 1];
      }
      words[to] = word;
      if (i - to > moves_left) return false;
      moves_left -= i - to;
    }
    return true;
  }

 private:
  KeyedPlaces(int place_bits, int dropped) noexcept
      : mask_((std::uint64_t{1} << place_bits) - 1), all_bits_(dropped == 0) {}
  // How many words differ from the one before in nothing but their places.
  VORTEX_EXPORT std::size_t ties_in(const std::uint64_t* words, std::size_t count) const noexcept;

  std::uint64_t mask_;
  bool all_bits_;
};

// Writes records in the order of words to `out`, which is `in` or lies elsewhere.
template <typename Record>
[[gnu::noinline]] void gather_few(const Record* in, const std::uint64_t* words, std::size_t count,
                                  KeyedPlaces places, Record* out) noexcept {
  const auto write = [=](const Record* from) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(static_cast<void*>(out + i), from + places.place(words[i]), sizeof(Record));
    }
  };
  if (in != out) return write(in);
  alignas(Record) std::byte held[kMaxSmallSort * sizeof(Record)];
  std::memcpy(held, in, count * sizeof(Record));
  write(reinterpret_cast<const Record*>(held));
}

// Sorts like small_sort_stable(), more than 1 record, with the bits of their keys in `words`, where
// they are lost; `sort_words` is the kernel of words. What takes room for records on the stack is
// never made part of its callers, so that only one of these rooms is there at once.
template <typename Record, typename Key>
void small_sort_by_words(const Record* in, std::size_t count, Record* out, const Key& key,
                         std::uint64_t* words, SmallSort<std::uint64_t> sort_words) noexcept {
  const KeyedPlaces places = sizeof(key(*in)) <= 4 ? KeyedPlaces::make_of_halves(words, count)
                                                   : KeyedPlaces::make(words, count);
  sort_words(words, count, words);
  if (places.settle(words, count, [&](std::size_t place) { return key(in[place]); })) {
    gather_few(in, words, count, places, out);
  } else {
    small_sort_stable(in, count, out, key);
  }
}

// The same with nothing known of the records.
template <typename Record, typename Key>
[[gnu::noinline]] void small_sort_by_place(const Record* in, std::size_t count, Record* out,
                                           const Key& key,
                                           SmallSort<std::uint64_t> sort_words) noexcept {
  constexpr std::size_t kVeryFew = 8;  // which are inserted
  if (count <= kVeryFew) return small_sort_stable(in, count, out, key);
  std::uint64_t words[kMaxSmallSort];
  for (std::size_t i = 0; i < count; ++i) words[i] = key(in[i]);
  small_sort_by_words(in, count, out, key, words, sort_words);
}

}}}  // namespace vortex::v0::detail

// Radix sorting of as many records as fit the caches.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/digit.h"

namespace vortex { inline namespace v0 { namespace detail {

// How records are compared and how few of them are sorted.
//   KeyOf     record -> uint32_t or uint64_t, ascending
//   small     the base case; null: small_sort_by_place, with the kernel of words
//   floats    keys are encoded floating-point numbers, and nothing else
template <typename Record, typename KeyOf>
struct SortRules {
  using Bits = decltype(std::declval<KeyOf>()(std::declval<const Record&>()));
  KeyOf key_of;
  SmallSort<Record> small = nullptr;
  SmallSort<std::uint64_t> sort_words =
      small != nullptr ? nullptr : small_sort_for<std::uint64_t>(isa_in_use());
  bool floats = false;

  void sort_few(const Record* in, std::size_t count, Record* out) const noexcept {
    if (small != nullptr) {
      small(in, count, out);
    } else {
      small_sort_by_place(in, count, out, key_of, sort_words);
    }
  }

  // Returns a function that tells the bucket of a record: it passes the record's key to `digit`.
  template <typename Digit>
  auto on_record(Digit digit) const noexcept {
    return
        [digit, key_of = key_of](const Record& record) noexcept { return digit(key_of(record)); };
  }
};

// Sorts an array by distributing it between itself and `other`, which has as much room, until a few
// records are left. Keeps the order of equal keys if rules.small does.
//
// It calls itself: once for every level of slices by bits, each of which halves the range of keys
// at least; once for every level by values, each of which takes one of four shares of the room that
// there is for slices; and once for every heavy key, which is an eighth of the records at least. So
// there are up to 64, 4 and 46 calls at once, and what a level remembers is not on the stack but in
// a Workspace.
template <typename Record, typename KeyOf>
class DenseSorter {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  // Slices of about this many records: with more, too many hold more than 64, which the vector
  // kernels sort as if they were 128.
  static constexpr std::size_t kLeave = 54;
  static constexpr unsigned kMaxSlices = 1024;
  // Both arrays fit the second-level cache.
  static constexpr std::size_t kMax = (std::size_t{192} << 10) / sizeof(Record) > 4 * kMaxSmallSort
                                          ? (std::size_t{192} << 10) / sizeof(Record)
                                          : 4 * kMaxSmallSort;

  // Room in which most arrays can be distributed without counting their records first.
  static constexpr std::size_t kSpacious = 3 * kMax;

  // Room for a slice that is expected to hold `mean` records: an odd number of cache lines, so that
  // the slices begin in different sets of the cache.
  static constexpr std::size_t room_of_slice(std::size_t mean) noexcept {
    return ((mean + mean / 2 + 40) / kLine | 1) * kLine;
  }
  // This many records can be distributed there in this way.
  static constexpr std::size_t kMaxSpaced =
      std::min(kSpacious / (room_of_slice(kLeave) + kLeave) * kLeave, kMax);

  // Where slices begin, for the levels at work. A level of s slices keeps s + 1 places. Slices by
  // bits of a range of w bits are s >= 3 and have ranges of w - 1 bits at most, so kMinPlaces * w
  // places are enough for it and all levels below; the first ones may use more. A slice by values
  // can have nearly all of the range: such a level takes kMaxPlaces, however many slices it has,
  // and leaves kMinPlaces * w.
  static constexpr std::size_t kMinPlaces = 4;
  static constexpr std::size_t kMaxPlaces = kMaxSlices + 1;
  static constexpr std::size_t kPlaces =
      4 * kMaxPlaces + kMinPlaces * std::numeric_limits<Bits>::digits;
  struct Workspace {
    std::array<Record*, kMaxSlices> cursors;  // of the level that distributes
    std::array<std::uint32_t, kPlaces> places;
  };

  // `workspace` serves one sort at a time.
  DenseSorter(const SortRules<Record, KeyOf>& rules, Workspace& workspace)
      : rules_(rules), workspace_(workspace) {}

  // The result is in `other` if `to_other`, else in `array`.
  void sort(Record* array, std::size_t count, Record* other, bool to_other) const noexcept {
    sort(array, count, other, to_other, workspace_.places);
  }

  // The same with the result in `out`, which may be the array. It is written from its beginning to
  // its end, so that it need not be in the caches; `other` should be, and has room for `room`
  // records. `known`: a range that is known to hold the keys, and to be about as narrow as they
  // are; without it they are measured.
  void sort_to(Record* array, std::size_t count, Record* other, std::size_t room, Record* out,
               const KeyRange<Bits>* known = nullptr) const noexcept {
    if (count <= kMaxSmallSort || has_heavy_key(rules_, array, count)) {
      sort(array, count, other, true);
      return copy(other, count, out);
    }
    const KeyRange<Bits> range = known != nullptr ? *known : range_of_keys(array, count);
    if constexpr (kBareKeys<KeyOf>) {
      if (can_count_keys(range, count)) return count_keys(range, array, count, out);
    }
    if (known != nullptr && sort_spaced(range, array, count, other, room, out)) return;
    Places places = workspace_.places;
    const Places begins = distribute(range, array, count, other, places);
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      sort_slice(other + begins[i], begins[i + 1] - begins[i], array + begins[i], out + begins[i],
                 places);
    }
  }

  // Appends records to the slices that slice_of() says. `soon`: those that will be appended next.
  template <typename SliceOf>
  [[gnu::always_inline]] static void append_all(Record** cursors, const SliceOf& slice_of,
                                                const Record* records, std::size_t count,
                                                const Record* soon) noexcept {
    std::size_t i = 0;
    for (; i + kLine <= count; i += kLine) {
      ChunkLayout<Record>::prefetch_line(soon + i);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kLine; ++k) {
        append(cursors, slice_of(records[i + k]), records[i + k]);
      }
    }
    for (; i < count; ++i) append(cursors, slice_of(records[i]), records[i]);
  }
  // Calls use(digit, slices) with the digit that cuts `count` keys of the range: by their bits,
  // into `slices`, or, if it may and where that spreads them better, by the numbers that they are,
  // into up to kMaxSlices. `looked` of them are there to be looked at.
  template <typename Use>
  auto with_slices(const KeyRange<Bits>& range, const Record* records, std::size_t looked,
                   std::size_t count, std::size_t slices, bool by_values,
                   const Use& use) const noexcept {
    if (by_values && rules_.floats && count >= kMinForValues && LinearDigit<Bits>::suits(range)) {
      // Where numbers crowd there are more than on an average.
      const auto finer = static_cast<unsigned>(std::min<std::size_t>(2 * slices, kMaxSlices));
      const auto digit = LinearDigit<Bits>::of(range, finer);
      if (digit.factor > 0 && are_spread(digit, records, looked)) {
        return use(digit, std::size_t{digit.buckets()});
      }
    }
    return use(ScaledDigit<Bits>::of(range, static_cast<unsigned>(slices)), slices);
  }
  // The end of as many slices from `slice` on as one call of the base case sorts, at least one;
  // end_of(i) is where slice i ends, behind where the first one begins.
  template <typename EndOf>
  static std::size_t end_of_few(std::size_t slice, std::size_t slices, const EndOf& end_of) {
    constexpr std::size_t kFew = 64;
    std::size_t last = slice + 1;
    while (last < slices && end_of(last) <= kFew) ++last;
    return last;
  }

  // Whether each of the slices, which begin `room` apart, has kept to its room.
  static bool have_fitted(Record* const* cursors, std::size_t slices, const Record* begin,
                          std::size_t room) noexcept {
    bool fit = true;
    for (std::size_t i = 0; i < slices; ++i) fit &= cursors[i] <= begin + (i + 1) * room;
    return fit;
  }

  // Whether one key seems to be a third of all, from nine of them.
  static bool has_heavy_key(const SortRules<Record, KeyOf>& rules, const Record* records,
                            std::size_t count, Bits* heavy = nullptr) noexcept {
    constexpr std::size_t kLooks = 9;
    std::array<Bits, kLooks> keys;
    for (std::size_t i = 0; i < kLooks; ++i) keys[i] = rules.key_of(records[i * count / kLooks]);
    for (std::size_t i = 0; i + 2 < kLooks; ++i) {
      int equal = 0;
      for (std::size_t k = i + 1; k < kLooks; ++k) equal += keys[k] == keys[i];
      if (equal < 2) continue;
      if (heavy != nullptr) *heavy = keys[i];
      return true;
    }
    return false;
  }

  static void copy(const Record* from, std::size_t count, Record* to) noexcept {
    std::memcpy(static_cast<void*>(to), from, count * sizeof(Record));
  }
  // `cursors` and a copy of the cursor in local variables: the compiler cannot know that the record
  // is not written over them, and would read them again.
  [[gnu::always_inline]] static void append(Record** cursors, unsigned bucket,
                                            const Record& record) noexcept {
    Record* const at = cursors[bucket];
    std::memcpy(static_cast<void*>(at), &record, sizeof(Record));
    cursors[bucket] = at + 1;
  }

 private:
  using Places = std::span<std::uint32_t>;
  static constexpr std::size_t kLine = ChunkLayout<Record>::kLineRecords;
  // The array may come from memory: it is asked for this many records ahead.
  static constexpr std::size_t kSoon = 2048 / sizeof(Record) + 1;

  // Slices with room between them need not be counted first. Returns false, and the array is as it
  // was, where `room` is not enough or the records are spread too unevenly.
  [[gnu::noinline]] bool sort_spaced(const KeyRange<Bits>& range, Record* array, std::size_t count,
                                     Record* other, std::size_t room, Record* out) const noexcept {
    const std::size_t slices = std::min(count / kLeave + 1, std::size_t{kMaxSlices});
    const std::size_t of_slice = room_of_slice(count / slices);
    if (slices * of_slice + count > room) return false;  // one may overflow into others
    Record** const cursors = workspace_.cursors.data();
    for (std::size_t i = 0; i < slices; ++i) cursors[i] = other + i * of_slice;
    const auto digit = ScaledDigit<Bits>::of(range, static_cast<unsigned>(slices));
    append_all(cursors, rules_.on_record(digit), array, count, array + kSoon);
    if (!have_fitted(cursors, slices, other, of_slice)) return false;
    std::size_t done = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      Record* const slice = other + i * of_slice;
      const auto size = static_cast<std::size_t>(cursors[i] - slice);
      sort_slice(slice, size, array + done, out + done, workspace_.places);
      done += size;
    }
    return true;
  }

  // By way of `free`, which has as much room, where it is a large one.
  [[gnu::always_inline]] void sort_slice(Record* slice, std::size_t size, Record* free, Record* out,
                                         Places places) const noexcept {
    if (size <= kMaxSmallSort) [[likely]]
      return rules_.sort_few(slice, size, out);
    sort(slice, size, free, false, places);
    copy(slice, size, out);
  }

  // `places`: those that are free.
  void sort(Record* array, std::size_t count, Record* other, bool to_other,
            Places places) const noexcept {
    if (count <= kMaxSmallSort) {
      rules_.sort_few(array, count, to_other ? other : array);
      return;
    }
    Bits heavy{};
    if (has_heavy_key(rules_, array, count, &heavy) &&
        sort_around(heavy, array, count, other, to_other, places)) {
      return;
    }
    const KeyRange<Bits> range = range_of_keys(array, count);
    if constexpr (kBareKeys<KeyOf>) {
      if (can_count_keys(range, count)) {
        return count_keys(range, array, count, to_other ? other : array);
      }
    }
    const Places begins = distribute(range, array, count, other, places);
    const std::size_t slices = begins.size() - 1;
    for (std::size_t i = 0; i < slices;) {
      Record* const slice = other + begins[i];
      Record* const back = array + begins[i];
      const auto end_of = [&](std::size_t k) { return begins[k + 1] - begins[i]; };
      const std::size_t last = end_of_few(i, slices, end_of);
      const std::size_t size = end_of(last - 1);
      i = last;
      if (size <= kMaxSmallSort) {  // as nearly all are
        rules_.sort_few(slice, size, to_other ? slice : back);
      } else {
        sort(slice, size, back, !to_other, places);
      }
    }
  }

  KeyRange<Bits> range_of_keys(const Record* array, std::size_t count) const noexcept {
    auto range = KeyRange<Bits>::none();
    for (std::size_t i = 0; i < count; ++i) range.widen(rules_.key_of(array[i]));
    return range;
  }

  static constexpr std::size_t kMinForValues = 1024;
  // Whether a sixteenth of the range has no more than three eighths of the keys.
  bool are_spread(LinearDigit<Bits> digit, const Record* records,
                  std::size_t count) const noexcept {
    constexpr std::size_t kSample = 64, kParts = 16;
    digit.factor *= static_cast<typename LinearDigit<Bits>::Float>(kParts) / digit.buckets();
    std::array<unsigned, kParts> counts{};
    unsigned most = 0;
    for (std::size_t i = 0; i < kSample; ++i) {
      const unsigned part = digit(rules_.key_of(records[count * i / kSample]));
      most = std::max(most, ++counts[std::min<std::size_t>(part, kParts - 1)]);
    }
    return most <= kSample * 3 / 8;
  }

  // Distributes the array to slices of the range in `other`. Returns their begins and common end,
  // in places that it takes from the front of the free ones.
  Places distribute(const KeyRange<Bits>& range, const Record* array, std::size_t count,
                    Record* other, Places& free) const noexcept {
    const auto width =
        static_cast<std::size_t>(std::bit_width(static_cast<Bits>(range.high - range.low)));
    const std::size_t kept = width == 0 ? 0 : kMinPlaces * (width - 1);
    const std::size_t slices =
        std::min({count / kLeave + 1, std::size_t{kMaxSlices}, free.size() - kept - 1});
    const bool by_values = free.size() >= kMaxPlaces + kMinPlaces * width;
    return with_slices(
        range, array, count, count, slices, by_values, [&](const auto& digit, std::size_t made) {
          constexpr bool kByValues = std::is_same_v<decltype(digit), const LinearDigit<Bits>&>;
          const std::size_t taken = kByValues ? kMaxPlaces : made + 1;
          if (made >= taken || taken > free.size()) [[unlikely]]
            broken_bound(
                "vortex: a sort makes more slices than it has room for: a bug in vortex\n");
          const Places begins = free.first(made + 1);
          free = free.subspan(taken);
          distribute(digit, array, count, other, begins);
          return begins;
        });
  }
  template <typename Digit>
  [[gnu::noinline]] void distribute(const Digit& of_keys, const Record* array, std::size_t count,
                                    Record* other, Places places) const noexcept {
    const Digit digit = of_keys;  // which nothing that is written changes
    const std::size_t slices = places.size() - 1;
    std::uint32_t* const begins = places.data();
    std::fill_n(begins, slices + 1, 0);
    for (std::size_t i = 0; i < count; ++i) ++begins[digit(rules_.key_of(array[i])) + 1];
    Record** const cursors = workspace_.cursors.data();
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      cursors[i] = other + begin;
      begins[i + 1] = begin += begins[i + 1];
    }
    for (std::size_t i = 0; i < count; ++i) {
      append(cursors, digit(rules_.key_of(array[i])), array[i]);
    }
  }

  // Makes three lists of the records, with keys less than `heavy`, equal to it and greater, and
  // sorts the outer two. Nearly all keys are expected to be equal to it, so the processor foresees
  // the branches, and the ends of the lists stay in registers. Returns false, with nothing done,
  // where less than an eighth of the keys are equal to it.
  bool sort_around(Bits heavy, Record* array, std::size_t count, Record* other, bool to_other,
                   Places places) const noexcept {
    std::size_t less = 0, equal = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Bits key = rules_.key_of(array[i]);
      less += key < heavy;
      equal += key == heavy;
    }
    if (8 * equal < count) return false;
    if (equal == count) {
      if (to_other) copy(array, count, other);
      return true;
    }
    Record* below = other;
    Record* same = other + less;
    Record* above = same + equal;
    for (std::size_t i = 0; i < count; ++i) {
      const Bits key = rules_.key_of(array[i]);
      Record*& to = key == heavy ? same : key < heavy ? below : above;
      copy(array + i, 1, to++);
    }
    sort(other, less, array, !to_other, places);
    if (!to_other) copy(other + less, equal, array + less);
    sort(other + less + equal, count - less - equal, array + less + equal, !to_other, places);
    return true;
  }

  static constexpr std::size_t kMaxCounters = 2048;
  static bool can_count_keys(const KeyRange<Bits>& range, std::size_t count) noexcept {
    return range.high - range.low < kMaxCounters && CountedKeys<Bits>::suits(range, count);
  }

  [[gnu::noinline]] static void count_keys(const KeyRange<Bits>& range, const Record* in,
                                           std::size_t count, Record* out) noexcept {
    std::array<std::uint32_t, kMaxCounters> counters;
    CountedKeys<Bits> keys(range, counters.data());
    keys.add(in, count);
    keys.write(out, count);
  }

  const SortRules<Record, KeyOf>& rules_;
  Workspace& workspace_;
};

}}}  // namespace vortex::v0::detail

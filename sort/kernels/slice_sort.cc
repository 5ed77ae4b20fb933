// Vectors of keys are told their slices at once, so that the loops that distribute do nothing but
// move words: some three cycles a word, where a level of quicksort takes one and there are seven.
#include "sort/kernels/slice_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "sort/kernels/quick_sort.h"
#include "sort/kernels/slices.h"
#include "sort/kernels/wide_loops.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/radix/split.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

constexpr std::size_t kUneven = 16;
// Slices of even keys that are not counted.
struct EvenSlices {
  std::size_t words;  // of one, in the mean
  std::size_t room;   // of one

  template <typename Word>
  static EvenSlices of() noexcept;
  std::size_t number(std::size_t count) const noexcept { return count / words + 1; }
};
// So much room that nearly all arrays of an even distribution fit, and an odd number of lines, so
// that slices begin in different sets of the cache. The smaller ones take more room in all.
constexpr EvenSlices kSmallSlices{54, 104}, kLargeSlices{108, 176};
// A call of the base case takes more words of 32 bits, but with AVX2.
template <typename Word>
EvenSlices EvenSlices::of() noexcept {
  return sizeof(Word) == 4 && isa_in_use() != Isa::kAvx2 ? kLargeSlices : kSmallSlices;
}
constexpr std::size_t most_slices(std::size_t count) noexcept { return count / kUneven + 1; }

template <typename Items>
class SliceSorter {
 public:
  using Key = typename Items::Key;
  using Word = typename Items::Word;
  struct Room {
    Word** cursors;
    std::uint32_t* counts;
    Word* words;
  };

  SliceSorter(const Items& items, std::size_t count, const Room& room, Word* out) noexcept
      : items_(items), count_(count), room_(room), out_(out) {}

  // Gives up where ties.are_few() says so, of words in order.
  template <typename Ties>
  bool sort(bool floats, const Ties& ties) const noexcept {
    auto range = KeyRange<Key>::none();
    for (std::size_t i = 0; i < count_; ++i) range.widen(items_.keys[i]);
    if (static_cast<Key>(range.high - range.low) < most_slices(count_)) return false;
    const auto of_bits = [&](std::size_t slices) {
      return std::pair{EqualSlices<Key>(range, slices), slices};
    };
    const auto of_values = [&](std::size_t slices) {
      const auto numbers = LinearDigit<Key>::of(range, static_cast<unsigned>(slices));
      return std::pair{ValueSlices<Key>{numbers}, std::size_t{numbers.buckets()}};
    };
    const Spread by_bits = spread(of_bits);
    if (!by_bits.even && count_ < kMinUneven) return false;
    if (!by_bits.even && floats && LinearDigit<Key>::suits(range) &&
        LinearDigit<Key>::of(range, 1).factor > 0) {
      const Spread by_values = spread(of_values);
      if (by_values.shared < by_bits.shared) return sort_by(of_values, by_values, ties);
    }
    return sort_by(of_bits, by_bits, ties);
  }

 private:
  // When so much is sorted, the first look at ties.
  static constexpr std::size_t kOneOf = 16;
  static constexpr std::size_t kMinUneven = std::size_t{1} << 13;

  // How a sample is spread over the slices.
  static constexpr unsigned kSample = kMaxSmallSort;
  struct Spread {
    bool even;
    unsigned shared;  // so many of kSample are in the slice of another one
  };
  template <typename SlicesOf>
  Spread spread(const SlicesOf& slices_of) const noexcept {
    const auto [slices, number] = slices_of(most_slices(count_));
    std::array<std::uint32_t, kSample> digits;
    const bool even_parts = has_even_parts(slices, number, digits);
    small_sort_for<std::uint32_t>(isa_in_use())(digits.data(), kSample, digits.data());
    unsigned shared = 0;
    for (unsigned i = 1; i < kSample; ++i) shared += digits[i] == digits[i - 1] ? 1 : 0;
    // Even keys have so many in one slice once in 250 samples at most.
    constexpr unsigned kHeavy = 6;
    bool heavy = false;
    for (unsigned i = kHeavy - 1; i < kSample; ++i) heavy |= digits[i] == digits[i - kHeavy + 1];
    // If the keys were equal groups, each in a slice of its own, so many would be in one.
    const std::size_t in_group = 2 * shared * count_ / (kSample * kSample);
    return {even_parts && !heavy && in_group <= even_.room, shared};
  }
  // Whether no sixteenth of the slices has many more of a sample than the others. Writes the slices
  // of kSample of its keys to `digits`.
  template <typename Slices>
  bool has_even_parts(const Slices& slices, std::size_t number,
                      std::array<std::uint32_t, kSample>& digits) const noexcept {
    // A larger sample sees smaller differences, and costs a 64th of a look at all keys.
    constexpr std::size_t kParts = 16, kOneIn = 64, kMostTimes = 8;
    const std::size_t times = std::clamp<std::size_t>(count_ / kOneIn / kSample, 1, kMostTimes);
    const std::size_t sample = times * kSample;
    std::array<std::size_t, kParts> parts{};
    for (std::size_t i = 0; i < kSample; ++i) {
      for (std::size_t k = 0; k < times; ++k) {
        digits[i] = slices.digit(items_.keys[sample_place(i * times + k, sample, count_)]);
        ++parts[digits[i] * kParts / number];
      }
    }
    // By 3.3 standard deviations, as one part in 2000 has by chance: 33 squared is 1089.
    const std::size_t mean = sample / kParts;
    const std::size_t most = *std::max_element(parts.begin(), parts.end());
    return most <= mean || 100 * (most - mean) * (most - mean) <= 1089 * mean;
  }

  template <typename SlicesOf, typename Ties>
  bool sort_by(const SlicesOf& slices_of, const Spread& spread, const Ties& ties) const noexcept {
    if (spread.even) {
      const auto [slices, number] = slices_of(even_.number(count_));
      const auto own = ties.in(slices, 0);
      if (own.seem_many(count_)) return false;
      if (distribute_evenly(slices, number)) return sort_even(number, own);
    }
    // Where more share a slice, or all are few, quicksort is as fast.
    constexpr unsigned kMostShared = 50;
    if (spread.shared > kMostShared || count_ < kMinUneven || !counts_pay()) return false;
    const auto [slices, number] = slices_of(most_slices(count_));
    const auto own = ties.in(slices, Items::kGroup);
    if (own.seem_many(count_)) return false;
    distribute_counted(slices, number);
    return sort_counted(number, own);
  }

  // Calls use(digit, word) for each item.
  template <typename Slices, typename Use>
  void for_each(const Slices& slices, int group, const Use& use) const noexcept {
    Digits digits;
    std::array<Word, kBatch> made;
    for (std::size_t begin = 0; begin < count_; begin += kBatch) {
      const std::size_t size = std::min(kBatch, count_ - begin);
      const Word* const words = items_.make(slices, group, begin, size, digits, made.data());
#pragma GCC unroll 8
      for (std::size_t i = 0; i < size; ++i) use(digits[i], words[i]);
    }
  }
  template <typename Slices>
  void distribute(const Slices& slices, int group) const noexcept {
    Word** const cursors = room_.cursors;
    for_each(slices, group, [=](std::uint16_t digit, Word word) {
      Word* const at = cursors[digit];
      *at = word;
      cursors[digit] = at + 1;
    });
  }

  // With AVX2, words of 32 bits are cut in two in less time than they are counted and moved.
  static bool counts_pay() noexcept {
    const Isa isa = isa_in_use();
    return isa == Isa::kAvx512 || (isa == Isa::kAvx2 && sizeof(Word) == 8);
  }

  // To slices that are not counted. False: some have not kept to their room.
  template <typename Slices>
  bool distribute_evenly(const Slices& slices, std::size_t number) const noexcept {
    Word* const begin = room_.words;
    for (std::size_t i = 0; i < number; ++i) room_.cursors[i] = begin + i * even_.room;
    distribute(slices, 0);
    bool fit = true;
    for (std::size_t i = 0; i < number; ++i)
      fit &= room_.cursors[i] <= begin + (i + 1) * even_.room;
    return fit;
  }
  template <typename Ties>
  bool sort_even(std::size_t number, const Ties& ties) const noexcept {
    const std::size_t first = number / kOneOf;
    Word* out = out_;
    for (std::size_t i = 0; i < number; ++i) {
      if (i == first && !ties.are_few(out_, out)) return false;
      Word* const slice = room_.words + i * even_.room;
      const auto size = static_cast<std::size_t>(room_.cursors[i] - slice);
      sort_slice(slice, size, out);
      out += size;
    }
    return ties.settle(out_, count_);
  }

  // To smaller ones,
  template <typename Slices>
  void distribute_counted(const Slices& slices, std::size_t number) const noexcept {
    std::uint32_t* const counts = room_.counts;
    std::fill_n(counts, number, 0u);
    for_each(slices, Items::kGroup, [=](std::uint16_t digit, Word) { ++counts[digit]; });
    Word* next = room_.words;
    for (std::size_t i = 0; i < number; ++i) {
      room_.cursors[i] = next;
      next += counts[i];
    }
    distribute(slices, Items::kGroup);
  }
  // several of which are sorted at once, where they are of the same 2^kGroup.
  template <typename Ties>
  bool sort_counted(std::size_t number, const Ties& ties) const noexcept {
    constexpr int kGroup = Items::kGroup;
    const std::uint32_t* const counts = room_.counts;
    std::size_t done = 0;
    bool looked = false;
    for (std::size_t i = 0; i < number;) {
      if (!looked && done > count_ / kOneOf) {
        if (!ties.are_few(out_, out_ + done)) return false;
        looked = true;
      }
      std::size_t size = counts[i];
      const std::size_t end = std::min(number, ((i >> kGroup) + 1) << kGroup);
      for (++i; i < end && size + counts[i] <= kMaxSmallSort; ++i) size += counts[i];
      sort_slice(room_.words + done, size, out_ + done);
      done += size;
    }
    return ties.settle(out_, count_);
  }

  void sort_slice(Word* slice, std::size_t size, Word* out) const noexcept {
    if (size <= kMaxSmallSort) [[likely]]
      return few_(slice, size, out);
    sort_large(slice, size, out);
  }
  [[gnu::noinline]] static void sort_large(Word* slice, std::size_t size, Word* out) noexcept {
    if (!quick_sort(slice, size)) std::sort(slice, slice + size);
    std::memcpy(out, slice, size * sizeof(Word));
  }

  const Items items_;
  const std::size_t count_;
  const Room room_;
  Word* const out_;
  const EvenSlices even_ = EvenSlices::of<Word>();
  const SmallSort<Word> few_ = small_sort_for<Word>(isa_in_use());
};

// The parts of the room, each at a line.
template <typename Word>
struct RoomParts {
  explicit constexpr RoomParts(std::size_t count) noexcept
      : counts(lines(most_slices(count) * sizeof(Word*))),
        words(counts + lines(most_slices(count) * sizeof(std::uint32_t))),
        // What has no room in an even slice may be anywhere behind it.
        end(words + (kSmallSlices.number(count) * kSmallSlices.room + count) * sizeof(Word)) {}
  static constexpr std::size_t lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

  std::size_t counts, words, end;
};

template <typename Items>
auto room_at(void* room, std::size_t count) noexcept {
  using Sorter = SliceSorter<Items>;
  using Word = typename Items::Word;
  const RoomParts<Word> parts(count);
  auto* const begin = static_cast<std::byte*>(room);
  return typename Sorter::Room{reinterpret_cast<Word**>(begin),
                               reinterpret_cast<std::uint32_t*>(begin + parts.counts),
                               reinterpret_cast<Word*>(begin + parts.words)};
}

// Words have none that matter.
struct NoTies {
  template <typename Slices>
  NoTies in(const Slices&, int) const noexcept {
    return {};
  }
  bool seem_many(std::size_t) const noexcept { return false; }
  bool are_few(const void*, const void*) const noexcept { return true; }
  bool settle(const void*, std::size_t) const noexcept { return true; }
};

template <typename Bits>
bool slice(Bits* words, std::size_t count, const SliceRoom& room) noexcept {
  using Items = WordItems<Bits>;
  return SliceSorter<Items>({words}, count, room_at<Items>(room.memory, count), words)
      .sort(room.floats, NoTies{});
}

// Keys of which words hold the same part.
class Ties {
 public:
  Ties(const std::uint64_t* keys, std::uint32_t place_mask, bool are_equal = false) noexcept
      : keys_(keys), mask_(place_mask), are_equal_(are_equal) {}

  // Ties in such slices, which may be of equal keys alone: these are in the order of their places.
  template <typename Slices>
  Ties in(const Slices& slices, int group) const noexcept {
    return {keys_, mask_, slices.tell_all(std::bit_width(mask_) + group)};
  }
  // Whether keys of a sample are equal, as some of 1500 values are and nearly none of so many that
  // ties are few.
  bool seem_many(std::size_t count) const noexcept {
    constexpr std::size_t kSample = kMaxSmallSort, kMostEqual = 1;
    if (are_equal_) return false;
    std::array<std::uint64_t, kSample> sample;
    for (std::size_t i = 0; i < kSample; ++i) sample[i] = keys_[sample_place(i, kSample, count)];
    small_sort_for<std::uint64_t>(isa_in_use())(sample.data(), kSample, sample.data());
    std::size_t equal = 0;
    for (std::size_t i = 1; i < kSample; ++i) equal += sample[i] == sample[i - 1] ? 1 : 0;
    return equal > kMostEqual;
  }
  bool are_few(const std::uint32_t* begin, const std::uint32_t* end) const noexcept {
    return are_equal_ || number_in(begin, end) <= static_cast<std::size_t>(end - begin) / 8;
  }
  // Brings tied words into order where they are few.
  bool settle(std::uint32_t* words, std::size_t count) const noexcept {
    if (are_equal_) return true;
    std::size_t ties = number_in(words, words + count);
    if (ties > count / 8) return false;
    for (std::size_t i = 1; ties != 0; ++i) {
      if (!tied(words[i - 1], words[i])) continue;
      const std::size_t begin = i - 1;
      for (++i, --ties; i < count && tied(words[i - 1], words[i]); ++i) --ties;
      sort(words + begin, words + i);
    }
    return true;
  }

 private:
  bool tied(std::uint32_t left, std::uint32_t right) const noexcept {
    return ((left ^ right) & ~mask_) == 0;
  }
  std::size_t number_in(const std::uint32_t* begin, const std::uint32_t* end) const noexcept {
    const auto count = static_cast<std::size_t>(end - begin);
    std::uint32_t ties = 0;
    for (std::size_t i = 1; i < count; ++i) ties += tied(begin[i - 1], begin[i]) ? 1 : 0;
    return ties;
  }
  [[gnu::noinline]] void sort(std::uint32_t* begin, std::uint32_t* end) const noexcept {
    std::sort(begin, end, [this](std::uint32_t left, std::uint32_t right) {
      const std::uint64_t a = keys_[left & mask_], b = keys_[right & mask_];
      return a != b ? a < b : (left & mask_) < (right & mask_);
    });
  }

  const std::uint64_t* const keys_;
  const std::uint32_t mask_;
  const bool are_equal_;
};

bool slice_places_of(const std::uint64_t* keys, std::size_t count, std::uint32_t* places,
                     void* room) noexcept {
  const std::uint32_t mask = (std::uint32_t{1} << std::bit_width(count - 1)) - 1;
  const SliceSorter<PlaceItems> sorter({keys, mask}, count, room_at<PlaceItems>(room, count),
                                       places);
  if (!sorter.sort(true, Ties(keys, mask))) return false;
  for (std::size_t i = 0; i < count; ++i) places[i] &= mask;
  return true;
}

}  // namespace

std::size_t most_words_to_slice() noexcept {
#if defined(__x86_64__)
  if (isa_in_use() != Isa::kPortable && __builtin_cpu_is("intel")) return kMaxSliced / 4;
#endif
  return kMaxSliced;
}

template <typename Bits>
std::size_t SliceRoom::bytes(std::size_t count) noexcept {
  return RoomParts<Bits>(count).end;
}
template std::size_t SliceRoom::bytes<std::uint32_t>(std::size_t) noexcept;
template std::size_t SliceRoom::bytes<std::uint64_t>(std::size_t) noexcept;

bool slice_sort(std::uint32_t* words, std::size_t count, const SliceRoom& room) noexcept {
  return with_wide_loops([&] { return slice(words, count, room); });
}
bool slice_sort(std::uint64_t* words, std::size_t count, const SliceRoom& room) noexcept {
  return with_wide_loops([&] { return slice(words, count, room); });
}
bool slice_places(const std::uint64_t* keys, std::size_t count, std::uint32_t* places,
                  void* room) noexcept {
  return with_wide_loops([=] { return slice_places_of(keys, count, places, room); });
}

}}}  // namespace vortex::v0::detail

// Arrays of bare keys that have few values, sorted by counting how often each occurs: keys of one
// or two bytes, and others whose values a sample finds to be few.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "sort/memory/shares.h"
#include "sort/memory/value_counts.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts integers. Takes up to 2 bytes a key, and 512 KiB a thread at most; throws std::bad_alloc
// with nothing moved.
template <typename Bits>
class NarrowKeys {
 public:
  explicit NarrowKeys(KeyCode code) noexcept
      : flip_(static_cast<Bits>((code.kind == KeyKind::kSigned ? kSign : 0) ^
                                (code.descending ? kAll : 0))) {}

  // By the threads of the shares.
  template <typename Shares>
  void sort(Bits* keys, Shares& shares) const {
    const std::size_t count = shares.count();
    if (count <= kMaxSmallSort) return sort_few(keys, count);
    if (sizeof(Bits) == 1 || count > kFewerThanValues) {
      count_all(keys, shares);
    } else {
      sort_by_bytes(keys, count);
    }
  }

 private:
  static constexpr std::size_t kAll = static_cast<Bits>(~Bits{0});
  static constexpr std::size_t kSign = (kAll >> 1) + 1;
  static constexpr std::size_t kFewerThanValues = std::size_t{1} << 15;
  static constexpr std::size_t kBytes = 256;
  static constexpr std::size_t kValues = kAll + 1;
  // Several, so that equal keys one after the other do not wait for each other.
  static constexpr std::size_t kTables = sizeof(Bits) == 1 ? 4 : 1;

  void sort_few(Bits* keys, std::size_t count) const noexcept {
    std::array<std::uint32_t, kMaxSmallSort> words;
    for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<Bits>(keys[i] ^ flip_);
    small_sort_for<std::uint32_t>(isa_in_use())(words.data(), count, words.data());
    for (std::size_t i = 0; i < count; ++i) keys[i] = static_cast<Bits>(words[i] ^ flip_);
  }

  template <typename Shares>
  void count_all(Bits* keys, Shares& shares) const {
    const std::size_t parts = shares.shares(), tables = kTables * parts;
    const std::unique_ptr<std::size_t[]> counts(new std::size_t[tables * kValues]);
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      count(keys + begin, end - begin, counts.get() + share * kTables * kValues);
    });
    // Each adds up some of the values in the first table.
    shares.run([&](std::size_t share, std::size_t, std::size_t) {
      const std::size_t first = kValues * share / parts, last = kValues * (share + 1) / parts;
      for (std::size_t table = 1; table < tables; ++table) {
        for (std::size_t i = first; i < last; ++i) counts[i] += counts[table * kValues + i];
      }
    });
    shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      write(counts.get(), begin, keys + begin, keys + end);
    });
  }

  static void count(const Bits* keys, std::size_t count, std::size_t* counts) noexcept {
    std::fill_n(counts, kTables * kValues, 0);
    std::size_t i = 0;
    for (; i + kTables <= count; i += kTables) {
      for (std::size_t table = 0; table < kTables; ++table) {
        ++counts[table * kValues + keys[i + table]];
      }
    }
    for (; i < count; ++i) ++counts[keys[i]];
  }

  // Writes the part of the result that begins with its key `first`, at least one.
  void write(const std::size_t* counts, std::size_t first, Bits* to, Bits* end) const noexcept {
    const auto key_of = [&](std::size_t encoded) { return static_cast<Bits>(encoded ^ flip_); };
    std::size_t encoded = 0;
    for (; counts[key_of(encoded)] <= first; ++encoded) first -= counts[key_of(encoded)];
    for (;; ++encoded) {
      const Bits key = key_of(encoded);
      const std::size_t copies = counts[key] - std::exchange(first, 0);
      const auto left = static_cast<std::size_t>(end - to);
      to = std::fill_n(to, std::min(copies, left), key);
      if (copies >= left) return;
    }
  }

  // By the lower byte, then by the upper one.
  void sort_by_bytes(Bits* keys, std::size_t count) const {
    const std::unique_ptr<Bits[]> other(new Bits[count]);
    Bits* from = keys;
    Bits* to = other.get();
    for (unsigned shift = 0; shift < 16; shift += 8) {
      std::array<std::size_t, kBytes> begins{};
      const auto byte = [&](Bits key) { return (key ^ flip_) >> shift & (kBytes - 1); };
      for (std::size_t i = 0; i < count; ++i) ++begins[byte(from[i])];
      std::size_t begin = 0;
      for (std::size_t& of_byte : begins) begin += std::exchange(of_byte, begin);
      for (std::size_t i = 0; i < count; ++i) to[begins[byte(from[i])]++] = from[i];
      std::swap(from, to);
    }
  }

  Bits flip_;
};

template <typename Bits>
void sort_narrow_keys(Bits* keys, std::size_t count, KeyCode code, unsigned threads) {
  Shares shares(count, threads);
  NarrowKeys<Bits>(code).sort(keys, shares);
}

// Sorts arrays of bare keys whose values a sample finds to be few. Where there turn out to be more,
// nothing has changed.
template <typename Bits, typename Codec>
class FewValues {
 public:
  // Returns the bytes that it took, at most. 0: the array needs another sort. Throws std::bad_alloc
  // with nothing changed.
  static std::size_t sort(std::span<Bits> keys, const Codec& codec, unsigned threads) {
    if (keys.size() < kMinKeys) return 0;
    const Isa isa = isa_in_use();
    const std::optional<ComparedValues<Bits>> compared = seem_few(keys, isa);
    if (!compared && (keys.size() < kMinForTable || !seem_to_repeat(keys))) return 0;
    Shares shares(keys.size(), threads);
    std::vector<Counts> counted(shares.shares());
    std::atomic<bool> too_many = false;
    shares.run([&](std::size_t share, std::size_t begin, std::size_t end) {
      if (too_many.load(std::memory_order_relaxed)) return;
      if (count(keys.subspan(begin, end - begin), compared, counted[share])) {
        put_in_order(counted[share], codec);
      } else {
        too_many = true;
      }
    });
    if (too_many) return 0;
    join(counted, shares);
    Counts& counts = counted.front();
    for (ValueCount<Bits>& count : counts) codec.decode(&count.value, 1);
    // Vectors have up to twice the room that they need.
    constexpr std::size_t kShareBytes =
        sizeof(TableOfValues<Bits>) + 4 * TableOfValues<Bits>::kMax * sizeof(ValueCount<Bits>);
    const std::size_t taken = shares.shares() * kShareBytes;
    if (counts.size() == 1) return taken;
    shares.run([&](std::size_t, std::size_t begin, std::size_t end) {
      write(counts, begin, keys.subspan(begin, end - begin), keys.size_bytes() >= kPastCaches);
    });
    return taken;
  }

  // Whether keys that are evenly spread repeat each other.
  static bool seem_to_repeat(std::span<const Bits> keys) noexcept {
    return repeated_of<128>(keys) >= 2;
  }
  // Whether a 32nd of a larger sample does.
  static bool seem_to_repeat_often(std::span<const Bits> keys) noexcept {
    constexpr std::size_t kSample = 1024;
    return repeated_of<kSample>(keys) >= kSample / 32;
  }

 private:
  using Counts = std::vector<ValueCount<Bits>>;

  // How many keys of a sample are equal to one before.
  template <std::size_t kSample>
  static std::size_t repeated_of(std::span<const Bits> keys) noexcept {
    std::array<Bits, kSample> sample;
    take_sample(
        keys.size(), sample.size(), [&](std::size_t at) { return keys[at]; }, sample.data());
    std::sort(sample.begin(), sample.end());
    return static_cast<std::size_t>(sample.end() - std::unique(sample.begin(), sample.end()));
  }

  // Smaller arrays are sorted as fast as their values are found to be few.
  static constexpr std::size_t kMinKeys = 512;
  // Below this, filling the table takes as long as sorting.
  static constexpr std::size_t kMinForTable = std::size_t{1} << 16;
  // Smaller arrays are sorted nearly as fast as they are compared with more values than this.
  static constexpr std::size_t kMinForMore = 4096;
  static constexpr unsigned kFewInSmall = 3;
  // The table counts more values faster.
  static constexpr unsigned kFewerThanInTable = 8;
  // Larger arrays are not in the caches when they are written; to read them once more, which plain
  // stores do, takes as long as writing them.
  static constexpr std::size_t kPastCaches = std::size_t{16} << 20;

  // The values of keys that are evenly spread, if they are so few that each can be compared.
  static std::optional<ComparedValues<Bits>> seem_few(std::span<const Bits> keys,
                                                      Isa isa) noexcept {
    constexpr std::size_t kSample = 64;
    const unsigned most = keys.size() < kMinForMore    ? kFewInSmall
                          : keys.size() < kMinForTable ? ComparedValues<Bits>::kMax
                                                       : kFewerThanInTable;
    ComparedValues<Bits> values(isa);
    for (std::size_t i = 0; i < kSample; ++i) {
      const Bits value = keys[sample_place(i, kSample, keys.size())];
      if (!values.add(value) || values.size() > most) return std::nullopt;
    }
    return values;
  }

  // `compared`: values that seem to be all, with none counted yet.
  static bool count(std::span<const Bits> keys, std::optional<ComparedValues<Bits>> compared,
                    Counts& counts) {
    const auto keep = [&](Bits value, std::uint64_t n) { counts.push_back({value, n}); };
    const std::size_t done = compared ? compared->count(keys) : 0;
    if (done == keys.size()) {
      compared->for_each(keep);
      return true;
    }
    if (keys.size() < kMinForTable || keys.size() > TableOfValues<Bits>::kMaxKeys) return false;
    const auto table = std::make_unique<TableOfValues<Bits>>();
    if (compared) {
      compared->for_each([&](Bits value, std::uint64_t n) {
        if (n != 0) table->add(value, n);
      });
    }
    if (!table->count(keys.subspan(done))) return false;
    table->for_each(keep);
    return true;
  }

  // In the order of the sort.
  static bool before(const ValueCount<Bits>& a, const ValueCount<Bits>& b) noexcept {
    return a.value < b.value;
  }
  static void put_in_order(Counts& counts, const Codec& codec) {
    for (ValueCount<Bits>& count : counts) codec.encode(&count.value, 1);
    std::sort(counts.begin(), counts.end(), before);
  }

  // All together, a value once, become the first. Shares may have different values, so there are
  // more of them the more threads there are: two lists each are merged by another thread.
  static void join(std::vector<Counts>& counted, Shares& shares) {
    for (std::size_t step = 1; step < counted.size(); step *= 2) {
      shares.run([&](std::size_t share, std::size_t, std::size_t) {
        if (share % (2 * step) != 0 || share + step >= counted.size()) return;
        counted[share] = merged(counted[share], std::exchange(counted[share + step], {}));
      });
    }
  }
  static Counts merged(const Counts& a, const Counts& b) {
    Counts both(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), both.begin(), before);
    std::size_t size = 0;
    for (const ValueCount<Bits>& count : both) {
      if (size != 0 && both[size - 1].value == count.value) {
        both[size - 1].count += count.count;
      } else {
        both[size++] = count;
      }
    }
    both.resize(size);
    return both;
  }

  // Writes the part of the result that begins with its key `first`.
  static void write(const Counts& counts, std::size_t first, std::span<Bits> to,
                    bool past_caches) noexcept {
    Bits* at = to.data();
    Bits* const end = at + to.size();
    for (const ValueCount<Bits>& count : counts) {
      if (first >= count.count) {
        first -= count.count;
        continue;
      }
      const auto copies =
          std::min<std::uint64_t>(count.count - first, static_cast<std::uint64_t>(end - at));
      at = past_caches ? fill_past_caches(at, copies, count.value) : fill(at, copies, count.value);
      first = 0;
    }
#if defined(__x86_64__)
    _mm_sfence();
#endif
  }

  static Bits* fill(Bits* to, std::size_t copies, Bits value) noexcept {
#if defined(__x86_64__)
    // The processor stores as wide as it can, whatever the library was compiled for.
    if (copies >= 256) {
      if constexpr (sizeof(Bits) == 8) {
        asm volatile("rep stosq" : "+D"(to), "+c"(copies) : "a"(value) : "memory");
      } else {
        asm volatile("rep stosl" : "+D"(to), "+c"(copies) : "a"(value) : "memory");
      }
      return to;
    }
#endif
    return std::fill_n(to, copies, value);
  }

  static Bits* fill_past_caches(Bits* to, std::size_t copies, Bits value) noexcept {
#if defined(__x86_64__)
    constexpr std::size_t kLanes = sizeof(__m128i) / sizeof(Bits);
    for (; copies != 0 && reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) != 0; --copies)
      *to++ = value;
    const __m128i lanes = sizeof(Bits) == 8 ? _mm_set1_epi64x(static_cast<long long>(value))
                                            : _mm_set1_epi32(static_cast<int>(value));
    for (; copies >= kLanes; copies -= kLanes, to += kLanes)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), lanes);
#endif
    return std::fill_n(to, copies, value);
  }
};

}}}  // namespace vortex::v0::detail

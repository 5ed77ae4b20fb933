// How often each value occurs in an array of bare keys that has few of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename Bits>
struct ValueCount {
  Bits value;
  std::uint64_t count;
};

// Up to kMax values, with each of which every key is compared: as fast as memory is read.
template <typename Bits>
class ComparedValues {
 public:
  static constexpr unsigned kMax = 16;

  explicit ComparedValues(Isa isa) noexcept : isa_(isa) {}

  unsigned size() const noexcept { return size_; }

  // False when there is no room for a value that is new.
  bool add(Bits value) noexcept {
    if (has(value)) return true;
    if (size_ == kMax) return false;
    values_[size_++] = value;
    return true;
  }

  // Counts keys, adding those that are new, until there is no room for one. Returns how many it
  // counted.
  std::size_t count(std::span<const Bits> keys) noexcept {
    from_memory_ = keys.size_bytes() > kCached;
    std::size_t at = 0;
    while (at < keys.size()) {
#if defined(__x86_64__)
      if (size_ == 1 && isa_ == Isa::kAvx512) {
        const std::size_t equal = equal_ones_avx512(keys.subspan(at), values_[0], from_memory_);
        counts_[0] += equal;
        at += equal;
      }
#endif
      const auto block = keys.subspan(at, std::min(kBlock, keys.size() - at));
      while (!count_block(block)) {
        const unsigned before = size_;
        if (!std::all_of(block.begin(), block.end(), [this](Bits key) { return add(key); }) &&
            size_ == before) {
          return at;
        }
      }
      at += block.size();
    }
    return at;
  }

  template <typename Each>
  void for_each(Each each) const {
    for (unsigned i = 0; i < size_; ++i) each(values_[i], counts_[i]);
  }

 private:
  static constexpr std::size_t kBlock = 512;  // a page: what is read again is in the nearest cache
  static constexpr std::size_t kLine = 64 / sizeof(Bits);
  static constexpr std::size_t kCached = std::size_t{2} << 20;
  using Found = std::array<Bits, kMax>;

  bool has(Bits value) const noexcept {
    return std::find(values_.begin(), values_.begin() + size_, value) != values_.begin() + size_;
  }

  bool count_block(std::span<const Bits> block) noexcept {
    // The processor's own prefetching does not keep up.
    if (from_memory_) {
      for (std::size_t i = 0; i < kBlock; i += kLine) __builtin_prefetch(block.data() + kBlock + i);
    }
    Found found{};
    // Whole lines of them as vectors.
    const std::size_t many = block.size() / kLine * kLine;
    std::size_t done = many;
    switch (isa_) {
#if defined(__x86_64__)
      case Isa::kAvx512:
        find_avx512(block.data(), many, found);
        break;
      case Isa::kAvx2:
        find_avx2(block.data(), many, found);
        break;
#endif
      default:
        done = 0;
    }
    find(block.data() + done, block.size() - done, found);
    std::size_t sum = 0;
    for (unsigned i = 0; i < size_; ++i) sum += found[i];
    if (sum != block.size()) return false;
    for (unsigned i = 0; i < size_; ++i) counts_[i] += found[i];
    return true;
  }

  // The compiler makes vectors of it, as wide as its caller may use.
  [[gnu::always_inline]] void find(const Bits* keys, std::size_t count,
                                   Found& found) const noexcept {
    for (unsigned i = 0; i < size_; ++i) {
      const Bits value = values_[i];
      Bits sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += keys[k] == value ? 1 : 0;
      found[i] += sum;
    }
  }
#if defined(__x86_64__)
  // How many of the first keys, in whole rounds of the loop, have the only value there seems to be:
  // an instruction for each line, and no count.
  __attribute__((target("avx512f"))) static std::size_t equal_ones_avx512(
      std::span<const Bits> keys, Bits value, bool from_memory) noexcept {
    constexpr std::size_t kLines = 16, kRound = kLines * kLine;
    constexpr int kOrWithDifference = 0xf6;  // a | (b ^ c)
    const __m512i values = sizeof(Bits) == 8 ? _mm512_set1_epi64(static_cast<long long>(value))
                                             : _mm512_set1_epi32(static_cast<int>(value));
    std::size_t done = 0;
    for (; done + kRound <= keys.size(); done += kRound) {
      const Bits* const round = keys.data() + done;
      if (from_memory) {
        for (std::size_t i = 0; i < kLines; ++i) __builtin_prefetch(round + kBlock + i * kLine);
      }
      __m512i others[4] = {};
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kLines; ++i) {
        others[i % 4] = _mm512_ternarylogic_epi64(
            others[i % 4], values, _mm512_loadu_si512(round + i * kLine), kOrWithDifference);
      }
      const __m512i all = _mm512_or_si512(_mm512_or_si512(others[0], others[1]),
                                          _mm512_or_si512(others[2], others[3]));
      if (_mm512_test_epi64_mask(all, all) != 0) break;
    }
    return done;
  }
  // By hand: gcc makes no more than 256 bits of a loop unless the whole file is compiled for more.
  __attribute__((target("avx512f"))) void find_avx512(const Bits* keys, std::size_t count,
                                                      Found& found) const noexcept {
    for (unsigned i = 0; i < size_; ++i) {
      // Lanes that count for themselves: half of the instructions of adding up masks.
      __m512i sums = _mm512_setzero_si512();
      for (std::size_t k = 0; k < count; k += kLine) {
        const __m512i lanes = _mm512_loadu_si512(keys + k);
        if constexpr (sizeof(Bits) == 8) {
          const __m512i value = _mm512_set1_epi64(static_cast<long long>(values_[i]));
          sums = _mm512_mask_add_epi64(sums, _mm512_cmpeq_epi64_mask(lanes, value), sums,
                                       _mm512_set1_epi64(1));
        } else {
          const __m512i value = _mm512_set1_epi32(static_cast<int>(values_[i]));
          sums = _mm512_mask_add_epi32(sums, _mm512_cmpeq_epi32_mask(lanes, value), sums,
                                       _mm512_set1_epi32(1));
        }
      }
      alignas(64) std::array<Bits, kLine> lanes;
      _mm512_store_si512(lanes.data(), sums);
      for (const Bits lane : lanes) found[i] += lane;
    }
  }
  __attribute__((target("avx2"))) void find_avx2(const Bits* keys, std::size_t count,
                                                 Found& found) const noexcept {
    find(keys, count, found);
  }
#endif

  Isa isa_;
  bool from_memory_ = false;
  unsigned size_ = 0;
  std::array<Bits, kMax> values_{};
  std::array<std::uint64_t, kMax> counts_{};
};

// A table of more values than that.
template <typename Bits>
class TableOfValues {
 public:
  static constexpr std::size_t kMax = 1536;
  static constexpr std::uint64_t kMaxKeys = 0xffffffff;

  // Room for a few values is always found.
  void add(Bits value, std::uint64_t count) noexcept {
    counts_[slot_of(value)] += static_cast<std::uint32_t>(count);
  }

  // False when the keys have more than kMax values, still new ones after many keys, or values that
  // crowd one place of the table. At most kMaxKeys in all.
  bool count(std::span<const Bits> keys) noexcept {
    constexpr std::size_t kStep = 4096;
    constexpr std::size_t kNewInSecond = 256, kNewLater = 16;
    std::size_t most = kMax;
    for (std::size_t at = 0; at < keys.size(); at += kStep) {
      if (!count_step(keys.subspan(at, std::min(kStep, keys.size() - at)), most)) return false;
      if (at == 0) most = std::min(kMax, size_ + kNewInSecond);
      if (at == kStep) most = std::min(kMax, size_ + kNewLater);
    }
    return true;
  }

  template <typename Each>
  void for_each(Each each) const {
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (counts_[i] != 0) each(values_[i], std::uint64_t{counts_[i]});
    }
  }

 private:
  static constexpr int kHomeBits = 12;
  // A value lies in the first slot from its home on that was free when it came, and so near that
  // keys which are made to crowd a place cost little.
  static constexpr std::size_t kReach = 24;
  static constexpr std::size_t kSlots = (std::size_t{1} << kHomeBits) + kReach;
  static constexpr std::size_t kNone = kSlots;

  static std::size_t home_of(Bits value) noexcept {
    return (std::uint64_t{value} * 0x9e3779b97f4a7c15) >> (64 - kHomeBits);
  }
  // kNone: there is no room within reach.
  std::size_t slot_of(Bits value) noexcept {
    const std::size_t home = home_of(value);
    for (std::size_t at = home; at < home + kReach; ++at) {
      if (values_[at] == value) return at;
      if (counts_[at] != 0) continue;
      values_[at] = value;
      ++size_;
      return at;
    }
    return kNone;
  }

  bool count_step(std::span<const Bits> keys, std::size_t most) noexcept {
    for (const Bits key : keys) {
      // Most are in their own slot or the next, which no branch tells apart.
      std::size_t slot = home_of(key);
      slot += values_[slot] != key ? 1 : 0;
      if (values_[slot] != key) [[unlikely]] {
        slot = slot_of(key);
        if (slot == kNone || size_ > most) return false;
      }
      ++counts_[slot];
    }
    return true;
  }

  std::size_t size_ = 0;  // but for a value that free slots begin with, 0
  std::array<Bits, kSlots> values_{};
  std::array<std::uint32_t, kSlots> counts_{};  // 0: the slot is free, whatever its value
};

}}}  // namespace vortex::v0::detail

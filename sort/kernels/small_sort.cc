#include "vortex/detail/array/small_sort.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "sort/kernels/vector_sorts.h"
#include "sort/kernels/wide_loops.h"
#include "vortex/os/names.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

template <typename Key>
void small_sort_keys_portable(const Key* in, std::size_t count, Key* out) noexcept {
  small_sort_stable(in, count, out, [](Key key) { return key; });
}

// Stable.
template <SmallSort<std::uint64_t> kSortWords>
void small_sort_pair64_by_place(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  small_sort_by_place(
      in, count, out, [](const Pair64& pair) { return pair.key; }, kSortWords);
}

struct WordsOfPlaces {
  int place_bits;
  int dropped;
};

WordsOfPlaces add_places(std::uint64_t* bits, std::size_t count) noexcept {
  std::uint64_t low = bits[0], high = bits[0];
  for (std::size_t i = 1; i < count; ++i) {
    low = std::min(low, bits[i]);
    high = std::max(high, bits[i]);
  }
  const auto place_bits = static_cast<int>(std::bit_width(count - 1));
  const int dropped = std::max(static_cast<int>(std::bit_width(high - low)) + place_bits - 64, 0);
  for (std::size_t i = 0; i < count; ++i) {
    bits[i] = (bits[i] - low) >> dropped << place_bits | i;
  }
  return {place_bits, dropped};
}

std::size_t neighbours_within(const std::uint64_t* words, std::size_t count,
                              std::uint64_t mask) noexcept {
  std::size_t within = 0;
  for (std::size_t i = 1; i < count; ++i) within += (words[i] ^ words[i - 1]) <= mask ? 1 : 0;
  return within;
}

}  // namespace

template <>
SmallSort<std::uint32_t> small_sort_for<std::uint32_t>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_u32_avx512;
  if (isa == Isa::kAvx2) return &small_sort_u32_avx2;
#endif
  return &small_sort_keys_portable<std::uint32_t>;
}

template <>
SmallSort<std::uint64_t> small_sort_for<std::uint64_t>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_u64_avx512;
  if (isa == Isa::kAvx2) return &small_sort_u64_avx2;
#endif
  return &small_sort_keys_portable<std::uint64_t>;
}

template <>
SmallSort<Pair64> small_sort_for<Pair64>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &small_sort_pair64_avx512;
#endif
  return stable_small_sort_of_pairs(isa);
}

SmallSort<Pair64> stable_small_sort_of_pairs([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &stable_small_sort_pair64_avx512;
  if (isa == Isa::kAvx2) return &small_sort_pair64_by_place<&small_sort_u64_avx2>;
#endif
  return &small_sort_pair64_by_place<&small_sort_keys_portable<std::uint64_t>>;
}

namespace {

// 0: not chosen yet; otherwise the value plus one.
std::atomic<int> chosen_isa{0};

}  // namespace

Isa best_isa() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa isa_in_use() noexcept {
  const int chosen = chosen_isa.load(std::memory_order_relaxed);
  return chosen == 0 ? best_isa() : static_cast<Isa>(chosen - 1);
}

bool use_isa(Isa isa) noexcept {
  if (static_cast<int>(isa) > static_cast<int>(best_isa())) return false;
  chosen_isa.store(static_cast<int>(isa) + 1, std::memory_order_relaxed);
  return true;
}

const char* isa_name(Isa isa) noexcept {
  constexpr std::array kNames = {Named{Isa::kPortable, "portable"}, Named{Isa::kAvx2, "AVX2"},
                                 Named{Isa::kAvx512, "AVX-512"}};
  return name_in(kNames, isa);
}

KeyedPlaces KeyedPlaces::make(std::uint64_t* bits, std::size_t count) noexcept {
  const auto [place_bits, dropped] = with_wide_loops([=] { return add_places(bits, count); });
  return KeyedPlaces(place_bits, dropped);
}

std::size_t KeyedPlaces::ties_in(const std::uint64_t* words, std::size_t count) const noexcept {
  return with_wide_loops([=, this] { return neighbours_within(words, count, mask_); });
}

}}}  // namespace vortex::v0::detail

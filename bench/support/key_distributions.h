// The keys that sorts are measured with.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace vortex::bench {

enum class Keys {
  kUniform,
  kEqual,
  kFewDistinct,
  kZipf,       // Zipf ranks (exponent 1, as many as keys), hashed
  kZipfRanks,  // the ranks themselves
  kSorted,
  kReversed,
  kNearlySorted,
  kSharedPrefix,  // 40 bits
  kOneBitApart,
};

inline const char* keys_name(Keys keys) {
  constexpr const char* kNames[] = {
      "uniform", "equal",    "few_distinct",  "zipf",          "zipf_ranks",
      "sorted",  "reversed", "nearly_sorted", "shared_prefix", "one_bit_apart"};
  return kNames[static_cast<int>(keys)];
}

// Always the same keys for the same arguments.
inline void fill_keys(Keys keys, std::span<std::uint64_t> out) {
  std::mt19937_64 random(1);
  const std::size_t count = out.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = random();
    switch (keys) {
      case Keys::kUniform:
        out[i] = word;
        break;
      case Keys::kEqual:
        out[i] = 42;
        break;
      case Keys::kFewDistinct:
        out[i] = word % 16 * 0x1111111111111111;
        break;
      case Keys::kZipf:
      case Keys::kZipfRanks: {
        const double uniform = static_cast<double>(word >> 11) * 0x1p-53;
        const auto rank =
            static_cast<std::uint64_t>(std::exp(uniform * std::log(static_cast<double>(count))));
        out[i] = keys == Keys::kZipf ? rank * 0x9e3779b97f4a7c15 : rank;
        break;
      }
      case Keys::kSorted:
        out[i] = i;
        break;
      case Keys::kReversed:
        out[i] = count - i;
        break;
      case Keys::kNearlySorted:
        out[i] = word % 100 == 0 ? word % count : i;
        break;
      case Keys::kSharedPrefix:
        out[i] = 0xabcdef1234000000 | word >> 40;
        break;
      case Keys::kOneBitApart:
        out[i] = std::uint64_t{1} << word % 64;
        break;
    }
  }
}

}  // namespace vortex::bench

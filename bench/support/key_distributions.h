// The keys that sorts are measured with.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

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
  kHugeBucket,  // half of the keys share their first 8 bits
  kTwoValues,
  kThousandValues,
  kOrganPipe,
  kPieces,    // four, each in order
  kAppended,  // in order, but for a sixty-fourth behind
  kSawtooth,  // 64 pieces, each in order
};

inline const char* keys_name(Keys keys) {
  constexpr const char* kNames[] = {
      "uniform",     "equal",      "few_distinct",    "zipf",          "zipf_ranks",
      "sorted",      "reversed",   "nearly_sorted",   "shared_prefix", "one_bit_apart",
      "huge_bucket", "two_values", "thousand_values", "organ_pipe",    "pieces",
      "appended",    "sawtooth"};
  return kNames[static_cast<int>(keys)];
}

// Calls take(key) for each of `count` keys, always the same for the same arguments.
template <typename Take>
void for_each_key(Keys keys, std::size_t count, Take take, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = random();
    std::uint64_t key = 0;
    switch (keys) {
      case Keys::kUniform:
        key = word;
        break;
      case Keys::kEqual:
        key = 42;
        break;
      case Keys::kFewDistinct:
        key = word % 16 * 0x1111111111111111;
        break;
      case Keys::kZipf:
      case Keys::kZipfRanks: {
        const double uniform = static_cast<double>(word >> 11) * 0x1p-53;
        const auto rank =
            static_cast<std::uint64_t>(std::exp(uniform * std::log(static_cast<double>(count))));
        key = keys == Keys::kZipf ? rank * 0x9e3779b97f4a7c15 : rank;
        break;
      }
      case Keys::kSorted:
        key = i;
        break;
      case Keys::kReversed:
        key = count - i;
        break;
      case Keys::kNearlySorted:
        key = word % 100 == 0 ? word % count : i;
        break;
      case Keys::kSharedPrefix:
        key = 0xabcdef1234000000 | word >> 40;
        break;
      case Keys::kOneBitApart:
        key = std::uint64_t{1} << word % 64;
        break;
      case Keys::kHugeBucket:
        key = i % 2 == 0 ? word : std::uint64_t{0x2a} << 56 | word >> 8;
        break;
      case Keys::kTwoValues:
        key = (word % 2 + 1) * 0x9e3779b97f4a7c15;
        break;
      case Keys::kThousandValues:
        key = word % 1000 * 0x9e3779b97f4a7c15;
        break;
      case Keys::kOrganPipe:
        key = i < count / 2 ? i : count - 1 - i;
        break;
      case Keys::kPieces:
      case Keys::kSawtooth: {
        const std::size_t piece = count / (keys == Keys::kPieces ? 4 : 64) + 1;
        const std::uint64_t step = (std::uint64_t{1} << 32) / piece;
        key = i % piece * step + word % step;
        break;
      }
      case Keys::kAppended:
        key = i < count - count / 64 ? i : word % count;
        break;
    }
    take(key);
  }
}

}  // namespace vortex::bench

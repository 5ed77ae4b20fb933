// Numbers of every type and distribution, each a function of its index.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cli/records/distribution.h"
#include "vortex/record_order.h"

namespace vortex::cli {

// Sixty-four well mixed bits of `value`: the output function of splitmix64 (Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014), whose successive counters are
// kGoldenRatio apart. What is made of them is the same on every machine.
inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15U;
constexpr std::uint64_t mix_bits(std::uint64_t value) noexcept {
  value += kGoldenRatio;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

struct NumberGeneratorOptions {
  KeyType type;  // not kBytes
  Distribution distribution = Distribution::kUniform;
  std::uint64_t count = 0;     // of the whole sequence, which sorted ones depend on
  std::uint64_t distinct = 0;  // how many values kZipf and kFew choose from, at most 2^32; 0: 2^20
                               // (or as many as the type holds) and 16
  std::uint64_t seed = 0;
};

// A sequence of numbers. Integers spread over the whole range of their type, floating-point numbers
// over [0, 1). kZipf gives the ranks themselves: rank k has a share of
// log((k + 2) / (k + 1)) / log(distinct + 1), within a hundredth. Value i depends on the options
// and i alone, so parts can be made in any order, by any thread, and by other machines: no
// floating-point arithmetic is used before the last step, which is exact.
class NumberGenerator {
 public:
  // Throws Error(EINVAL) when the distribution is not one of numbers, or when the type does not
  // hold `distinct` ranks.
  explicit NumberGenerator(const NumberGeneratorOptions& options);

  // Writes values [first, first + count) to `to`, `stride` bytes apart (at least type.bytes).
  // Thread-safe, allocates nothing.
  void write(std::uint64_t first, std::size_t count, std::byte* to,
             std::size_t stride) const noexcept;

 private:
  // This many values are computed before they are stored.
  static constexpr std::size_t kBatch = 256;

  void compute(std::uint64_t first, std::size_t count, std::uint64_t* values) const noexcept;
  std::uint64_t sorted(std::uint64_t rank, std::uint64_t random) const noexcept;
  std::uint64_t zipf_rank(std::uint64_t random) const noexcept;
  void store(const std::uint64_t* values, std::size_t count, std::byte* to,
             std::size_t stride) const noexcept;
  template <typename Word>
  void store_words(const std::uint64_t* values, std::size_t count, std::byte* to,
                   std::size_t stride) const noexcept;

  NumberGeneratorOptions options_;
  std::uint64_t random_begin_;    // the random bits of index 0 are mix_bits(random_begin_)
  std::uint64_t equal_;           // the value of kEqual
  std::uint64_t zipf_scale_ = 0;  // log2(distinct + 1), 57 bits of it behind the point
  std::uint64_t gap_high_ = 0;    // 2^128 / count: what lies between neighbours when sorted
  std::uint64_t gap_low_ = 0;
};

}  // namespace vortex::cli

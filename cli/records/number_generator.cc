#include "cli/records/number_generator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kZipfFraction = 57;
constexpr std::uint64_t kMaxDistinct = std::uint64_t{1} << 32;
constexpr std::uint64_t kUsualFew = 16;
constexpr std::uint64_t kUsualRanks = std::uint64_t{1} << 20;

constexpr std::uint64_t scaled(std::uint64_t random, std::uint64_t limit) noexcept {
  return static_cast<std::uint64_t>(static_cast<Wide>(random) * limit >> 64);
}

// log2(value) with kZipfFraction bits behind the point, by squaring: integers alone, so that every
// machine finds the same.
std::uint64_t log2_fixed(std::uint64_t value) noexcept {
  const int whole = std::bit_width(value) - 1;
  std::uint64_t result = static_cast<std::uint64_t>(whole);
  std::uint64_t mantissa = value << (63 - whole);  // 1.63
  for (int i = 0; i < kZipfFraction; ++i) {
    const Wide square = static_cast<Wide>(mantissa) * mantissa >> 63;
    const bool carry = square >> 64 != 0;
    result = result << 1 | static_cast<std::uint64_t>(carry);
    mantissa = static_cast<std::uint64_t>(carry ? square >> 1 : square);
  }
  return result;
}

// The largest n such that all whole numbers to n have a value of the type of their own.
std::uint64_t most_ranks(const KeyType& type) noexcept {
  if (type.kind == KeyKind::kFloat) return std::uint64_t{1} << (type.bytes == 4 ? 24 : 53);
  const int bits = static_cast<int>(8 * type.bytes) - (type.kind == KeyKind::kSigned ? 1 : 0);
  return bits >= 64 ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{1} << bits;
}

template <typename Word>
constexpr Word swap_bytes(Word word) noexcept {
  if constexpr (sizeof(Word) == 2) return __builtin_bswap16(word);
  if constexpr (sizeof(Word) == 4) return __builtin_bswap32(word);
  if constexpr (sizeof(Word) == 8) return __builtin_bswap64(word);
  return word;
}

// Stores convert(value) for each value, as bits of `Word`.
template <typename Word, typename Convert>
void store_each(const std::uint64_t* values, std::size_t count, std::byte* to, std::size_t stride,
                bool swap, Convert convert) noexcept {
  if (swap) {
    for (std::size_t i = 0; i < count; ++i) {
      const Word word = swap_bytes(convert(values[i]));
      std::memcpy(to + i * stride, &word, sizeof word);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      const Word word = convert(values[i]);
      std::memcpy(to + i * stride, &word, sizeof word);
    }
  }
}

}  // namespace

NumberGenerator::NumberGenerator(const NumberGeneratorOptions& options)
    : options_(options), random_begin_(mix_bits(options.seed)), equal_(mix_bits(~options.seed)) {
  const std::string name(to_string(options.distribution));
  if (options_.distinct == 0) {
    options_.distinct = options.distribution == Distribution::kFew
                            ? kUsualFew
                            : std::min(kUsualRanks, most_ranks(options.type));
  }
  switch (options.distribution) {
    case Distribution::kSkewed:
      throw Error(EINVAL, "distribution 'skewed' is one of records; numbers have 'zipf' and 'few'");
    case Distribution::kZipf:
    case Distribution::kFew:
      if (options_.distinct > kMaxDistinct) {
        throw Error(EINVAL, "distribution '" + name + "' among " +
                                std::to_string(options_.distinct) + " values: it takes at most " +
                                std::to_string(kMaxDistinct));
      }
      break;
    default:
      break;
  }
  if (options.distribution == Distribution::kZipf) {
    if (options_.distinct > most_ranks(options.type)) {
      throw Error(EINVAL, "distribution 'zipf' among " + std::to_string(options_.distinct) +
                              " values: " + to_string(options.type) + " has room for " +
                              std::to_string(most_ranks(options.type)) + " ranks");
    }
    zipf_scale_ = log2_fixed(options_.distinct + 1);
  }
  const Wide gap = ~Wide{0} / std::max<std::uint64_t>(options.count, 1);
  gap_high_ = static_cast<std::uint64_t>(gap >> 64);
  gap_low_ = static_cast<std::uint64_t>(gap);
}

void NumberGenerator::write(std::uint64_t first, std::size_t count, std::byte* to,
                            std::size_t stride) const noexcept {
  std::array<std::uint64_t, kBatch> values;
  while (count > 0) {
    const std::size_t now = std::min(count, kBatch);
    compute(first, now, values.data());
    store(values.data(), now, to, stride);
    first += now;
    to += now * stride;
    count -= now;
  }
}

void NumberGenerator::compute(std::uint64_t first, std::size_t count,
                              std::uint64_t* values) const noexcept {
  const auto each = [&](auto value) {
    std::uint64_t counter = random_begin_ + first * kGoldenRatio;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = value(first + i, mix_bits(counter));
      counter += kGoldenRatio;
    }
  };
  const std::uint64_t last = options_.count - 1;
  switch (options_.distribution) {
    case Distribution::kZipf:
      return each([this](std::uint64_t, std::uint64_t random) { return zipf_rank(random); });
    case Distribution::kSorted:
      return each([this](std::uint64_t i, std::uint64_t random) { return sorted(i, random); });
    case Distribution::kReversed:
      return each([&](std::uint64_t i, std::uint64_t random) { return sorted(last - i, random); });
    case Distribution::kNearlySorted:
      return each([this](std::uint64_t i, std::uint64_t random) {
        return mix_bits(random) % 128 == 0 ? random : sorted(i, random);
      });
    case Distribution::kOrganPipe:
      return each([&](std::uint64_t i, std::uint64_t random) {
        return sorted(i <= last / 2 ? 2 * i : 2 * (last - i) + 1, random);
      });
    case Distribution::kFew:
      return each([this](std::uint64_t, std::uint64_t random) {
        return mix_bits(equal_ + scaled(random, options_.distinct) * kGoldenRatio);
      });
    case Distribution::kEqual:
      return each([this](std::uint64_t, std::uint64_t) { return equal_; });
    default:
      return each([](std::uint64_t, std::uint64_t random) { return random; });
  }
}

// The range of 64 bits is divided into `count` parts of equal size; the value of a rank lies
// anywhere in its part.
std::uint64_t NumberGenerator::sorted(std::uint64_t rank, std::uint64_t random) const noexcept {
  const Wide gap = static_cast<Wide>(gap_high_) << 64 | gap_low_;
  const Wide begin = gap * rank;
  const auto from = static_cast<std::uint64_t>(begin >> 64);
  const auto to = static_cast<std::uint64_t>((begin + gap) >> 64);
  return from + scaled(random, to - from);
}

// 2^(u log2(n + 1)), rounded down, for uniform u: the whole part of the exponent is a shift, for
// the rest there is a polynomial whose slope is within half a hundredth of that of 2^x.
std::uint64_t NumberGenerator::zipf_rank(std::uint64_t random) const noexcept {
  constexpr std::uint64_t kLinear = 0xb21ff2e48e8a7000U;  // 0.6958, 0.2261, 0.0781 times 2^64
  constexpr std::uint64_t kSquare = 0x39e1b089a0275200U;
  constexpr std::uint64_t kCube = 0x13fe5c91d14e3c00U;
  const std::uint64_t exponent = scaled(random, zipf_scale_);
  const auto whole = static_cast<int>(exponent >> kZipfFraction);
  const std::uint64_t x = exponent << (64 - kZipfFraction);
  const std::uint64_t power = scaled(x, kLinear + scaled(x, kSquare + scaled(x, kCube)));
  // (2^64 + power) * 2^whole / 2^64 - 1; the first shift in two steps, as `whole` may be 0. The
  // polynomial may pass the last rank by a hair.
  const std::uint64_t rank = (power >> 1 >> (63 - whole)) + (std::uint64_t{1} << whole) - 1;
  return std::min(rank, options_.distinct - 1);
}

void NumberGenerator::store(const std::uint64_t* values, std::size_t count, std::byte* to,
                            std::size_t stride) const noexcept {
  switch (options_.type.bytes) {
    case 1:
      return store_words<std::uint8_t>(values, count, to, stride);
    case 2:
      return store_words<std::uint16_t>(values, count, to, stride);
    case 4:
      return store_words<std::uint32_t>(values, count, to, stride);
    default:
      return store_words<std::uint64_t>(values, count, to, stride);
  }
}

template <typename Word>
void NumberGenerator::store_words(const std::uint64_t* values, std::size_t count, std::byte* to,
                                  std::size_t stride) const noexcept {
  constexpr int kBits = std::numeric_limits<Word>::digits;
  const bool swap = (options_.type.byte_order == ByteOrder::kBigEndian) !=
                    (std::endian::native == std::endian::big);
  const bool ranks = options_.distribution == Distribution::kZipf;
  if constexpr (sizeof(Word) >= 4) {
    if (options_.type.kind == KeyKind::kFloat) {
      using Float = std::conditional_t<sizeof(Word) == 4, float, double>;
      constexpr int kDigits = std::numeric_limits<Float>::digits;
      // As many bits as the type holds: the conversion is exact.
      constexpr Float kUnit = Float{1} / static_cast<Float>(std::uint64_t{1} << kDigits);
      const auto convert = [ranks](std::uint64_t value) {
        return std::bit_cast<Word>(ranks ? static_cast<Float>(value)
                                         : static_cast<Float>(value >> (64 - kDigits)) * kUnit);
      };
      return store_each<Word>(values, count, to, stride, swap, convert);
    }
  }
  if (ranks) {
    return store_each<Word>(values, count, to, stride, swap,
                            [](std::uint64_t value) { return static_cast<Word>(value); });
  }
  const Word sign =
      static_cast<Word>(options_.type.kind == KeyKind::kSigned ? Word{1} << (kBits - 1) : Word{0});
  store_each<Word>(values, count, to, stride, swap, [sign](std::uint64_t value) {
    return static_cast<Word>(static_cast<Word>(value >> (64 - kBits)) ^ sign);
  });
}

}  // namespace vortex::cli

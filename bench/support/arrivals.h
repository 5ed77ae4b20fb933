// In which order the records of a benchmark come in.
#pragma once

#include <cstdint>

#include "io/sequence/seeded_random.h"

namespace vortex::bench {

enum class Arrival : std::uint8_t {
  kRandom,
  kSorted,
  kReversed,
  kNearlySorted,  // one in a hundred lies anywhere
  kDrifting,  // as what is recorded in time: at random within a sixty-fourth of the range, which
              // moves with the input
  kAppended,  // nine tenths are sorted; the others, behind them, lie anywhere
};

// What the names of rows end in.
constexpr const char* ending_of(Arrival arrival) {
  switch (arrival) {
    case Arrival::kRandom:
      return "";
    case Arrival::kSorted:
      return "_sorted";
    case Arrival::kReversed:
      return "_reversed";
    case Arrival::kNearlySorted:
      return "_nearly_sorted";
    case Arrival::kDrifting:
      return "_drifting";
    case Arrival::kAppended:
      return "_appended";
  }
  return "";
}

// The key of the record `index` of `count`.
inline std::uint64_t arriving_key(Arrival arrival, std::uint64_t index, std::uint64_t count) {
  const std::uint64_t bits = mix_bits(index * 0x9e3779b97f4a7c15U + 1);
  switch (arrival) {
    case Arrival::kRandom:
      return bits;
    case Arrival::kSorted:
      return index;
    case Arrival::kReversed:
      return count - 1 - index;
    case Arrival::kNearlySorted:
      return bits % 100 == 0 ? mix_bits(bits) % count : index;
    case Arrival::kDrifting:
      return index + bits % (count / 64 + 1);
    case Arrival::kAppended:
      return index < count / 10 * 9 ? index : bits % count;
  }
  return 0;
}

}  // namespace vortex::bench

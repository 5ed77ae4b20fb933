#include "sort/sort.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "sort/cpu.h"
#include "sort/small_sort.h"

namespace vortex::detail {
namespace {

// to_key_bits() with the kind of key known at run time: keys are decoded by the same two steps in
// reverse order. `rotate` brings the key of a pair of halves to the top and back.
template <typename Bits>
class WordCodec {
 public:
  explicit WordCodec(KeyCode code, int key_bits = std::numeric_limits<Bits>::digits)
      : rotate_(std::numeric_limits<Bits>::digits - key_bits) {
    const Bits key = static_cast<Bits>(~Bits{0}) << rotate_;
    const Bits sign = kSignBit<Bits>;
    if (code.is_float) when_negative_ = key & ~sign;
    if (code.is_float || code.is_signed) always_ = sign;
    if (code.descending) always_ ^= key;
    identity_ = rotate_ == 0 && always_ == 0 && when_negative_ == 0;
  }

  Bits encode(Bits word) const noexcept {
    word = std::rotl(word, rotate_);
    return word ^ (negative(word) & when_negative_) ^ always_;
  }
  Bits decode(Bits word) const noexcept {
    word ^= always_;
    word ^= negative(word) & when_negative_;
    return std::rotr(word, rotate_);
  }
  void encode(Bits* words, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) words[i] = encode(words[i]);
  }
  void decode(Bits* words, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) words[i] = decode(words[i]);
  }

 private:
  // All bits set for a negative number.
  static Bits negative(Bits word) noexcept {
    return static_cast<Bits>(-static_cast<Bits>(word >> (std::numeric_limits<Bits>::digits - 1)));
  }

  int rotate_;
  Bits when_negative_ = 0;
  Bits always_ = 0;
  bool identity_;
};

class PairCodec {
 public:
  explicit PairCodec(KeyCode code)
      : key_(code), identity_(!code.is_signed && !code.is_float && !code.descending) {}
  void encode(Pair64* pairs, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = key_.encode(pairs[i].key);
  }
  void decode(Pair64* pairs, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = key_.decode(pairs[i].key);
  }

 private:
  WordCodec<std::uint64_t> key_;
  bool identity_;
};

struct KeyOfWord {
  template <typename Bits>
  Bits operator()(Bits word) const noexcept {
    return word;
  }
};
struct KeyOfPair {
  std::uint64_t operator()(const Pair64& pair) const noexcept { return pair.key; }
};

template <typename Record, typename KeyOf, typename Codec>
void sort_with(Record* records, std::size_t count, const SortRules<Record, KeyOf>& rules,
               const Codec& codec) {
  const auto encoded_key = [&](Record record) noexcept {
    codec.encode(&record, 1);
    return rules.key_of(record);
  };
  switch (presorted(records, count, encoded_key)) {
    case Presorted::kAscending:
      return;
    case Presorted::kStrictlyDescending:
      std::reverse(records, records + count);
      return;
    case Presorted::kNo:
      InPlaceSort<Record, KeyOf, Codec>::run(records, count, rules, codec);
  }
}

template <typename Bits>
void sort_words(void* words, std::size_t count, const WordCodec<Bits>& codec) {
  sort_with(static_cast<Bits*>(words), count,
            SortRules<Bits, KeyOfWord>{{}, small_sort_for<Bits>(isa_in_use())}, codec);
}

}  // namespace

void sort_keys_32(void* keys, std::size_t count, KeyCode code) {
  sort_words(keys, count, WordCodec<std::uint32_t>(code));
}

void sort_keys_64(void* keys, std::size_t count, KeyCode code) {
  sort_words(keys, count, WordCodec<std::uint64_t>(code));
}

void sort_half_pairs(void* pairs, std::size_t count, KeyCode code) {
  sort_words(pairs, count, WordCodec<std::uint64_t>(code, 32));
}

void sort_pairs_64(void* pairs, std::size_t count, KeyCode code, bool stable) {
  const SmallSort<Pair64> small = stable ? nullptr : small_sort_for<Pair64>(isa_in_use());
  sort_with(static_cast<Pair64*>(pairs), count, SortRules<Pair64, KeyOfPair>{{}, small},
            PairCodec(code));
}

}  // namespace vortex::detail

// Records changed so that code that knows only unsigned keys in ascending order can sort them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "vortex/detail/key.h"
#include "vortex/detail/key_code.h"

namespace vortex::inline v0::detail {

// Changes records on their way in and back on their way out. This one changes nothing.
template <typename Record>
struct NoCodec {
  void encode(Record*, std::size_t) const noexcept {}
  void decode(Record*, std::size_t) const noexcept {}
};

// A KeyEncoder for whole arrays of words. The key of a pair of halves is the half that comes first
// in memory, which is the lower part of a word or the upper one: `rotate` brings it to the top and
// back.
template <typename Bits>
class WordCodec {
 public:
  explicit WordCodec(KeyCode code, int key_bits = KeyEncoder<Bits>::kDigits)
      : encoder_(code, key_bits),
        rotate_(std::endian::native == std::endian::little ? KeyEncoder<Bits>::kDigits - key_bits
                                                           : 0) {}

  void encode(Bits* words, std::size_t count) const noexcept {
    if (changes_nothing()) return;
    for (std::size_t i = 0; i < count; ++i)
      words[i] = encoder_.encode(std::rotl(words[i], rotate_));
  }
  void decode(Bits* words, std::size_t count) const noexcept {
    if (changes_nothing()) return;
    for (std::size_t i = 0; i < count; ++i)
      words[i] = std::rotr(encoder_.decode(words[i]), rotate_);
  }

 private:
  bool changes_nothing() const noexcept { return rotate_ == 0 && encoder_.is_identity(); }

  KeyEncoder<Bits> encoder_;
  int rotate_;
};

class PairCodec {
 public:
  explicit PairCodec(KeyCode code) : encoder_(code) {}
  void encode(Pair64* pairs, std::size_t count) const noexcept {
    if (encoder_.is_identity()) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = encoder_.encode(pairs[i].key);
  }
  void decode(Pair64* pairs, std::size_t count) const noexcept {
    if (encoder_.is_identity()) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = encoder_.decode(pairs[i].key);
  }

 private:
  KeyEncoder<std::uint64_t> encoder_;
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

}  // namespace vortex::inline v0::detail

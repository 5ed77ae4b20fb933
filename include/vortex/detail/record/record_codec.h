// Records changed so that code that knows only unsigned keys in ascending order can sort them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "vortex/detail/record/key.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Changes records on their way in and back on their way out. This one changes nothing.
template <typename Record>
struct NoCodec {
  void encode(Record*, std::size_t) const noexcept {}
  void decode(Record*, std::size_t) const noexcept {}
};

// The key of a record that is not encoded. Both outlive it.
template <typename KeyOf, typename Codec>
class EncodedKey {
 public:
  EncodedKey(const KeyOf& key_of, const Codec& codec) : key_of_(key_of), codec_(codec) {}
  template <typename Record>
  auto operator()(Record record) const noexcept {
    codec_.encode(&record, 1);
    return key_of_(record);
  }

 private:
  const KeyOf& key_of_;
  const Codec& codec_;
};

// A KeyEncoder for whole arrays of words whose key is all of them or a part: `rotate` brings it to
// the top and back.
template <typename Bits>
class WordCodec {
 public:
  explicit WordCodec(KeyCode code, KeyPlace place = {0, sizeof(Bits)})
      : encoder_(code, 8 * place.bytes),
        rotate_(std::endian::native == std::endian::little
                    ? KeyEncoder<Bits>::kDigits - 8 * (place.offset + place.bytes)
                    : 8 * place.offset) {}

  // Loops of their own for words that need not be turned: compilers make vectors of these.
  void encode(Bits* words, std::size_t count) const noexcept {
    if (rotate_ != 0) {
      for (std::size_t i = 0; i < count; ++i)
        words[i] = encoder_.encode(std::rotl(words[i], rotate_));
    } else if (!encoder_.is_identity()) {
      const KeyEncoder<Bits> encoder = encoder_;
      for (std::size_t i = 0; i < count; ++i) words[i] = encoder.encode(words[i]);
    }
  }
  void decode(Bits* words, std::size_t count) const noexcept {
    if (rotate_ != 0) {
      for (std::size_t i = 0; i < count; ++i)
        words[i] = std::rotr(encoder_.decode(words[i]), rotate_);
    } else if (!encoder_.is_identity()) {
      const KeyEncoder<Bits> encoder = encoder_;
      for (std::size_t i = 0; i < count; ++i) words[i] = encoder.decode(words[i]);
    }
  }

 private:
  KeyEncoder<Bits> encoder_;
  int rotate_;
};

// The same for pairs; `exchange` where the second half is the key.
class PairCodec {
 public:
  explicit PairCodec(KeyCode code, bool exchange = false) : encoder_(code), exchange_(exchange) {}
  void encode(Pair64* pairs, std::size_t count) const noexcept {
    if (exchange_) {
      for (std::size_t i = 0; i < count; ++i)
        pairs[i] = {encoder_.encode(pairs[i].value), pairs[i].key};
    } else if (!encoder_.is_identity()) {
      for (std::size_t i = 0; i < count; ++i) pairs[i].key = encoder_.encode(pairs[i].key);
    }
  }
  void decode(Pair64* pairs, std::size_t count) const noexcept {
    if (exchange_) {
      for (std::size_t i = 0; i < count; ++i)
        pairs[i] = {pairs[i].value, encoder_.decode(pairs[i].key)};
    } else if (!encoder_.is_identity()) {
      for (std::size_t i = 0; i < count; ++i) pairs[i].key = encoder_.decode(pairs[i].key);
    }
  }

 private:
  KeyEncoder<std::uint64_t> encoder_;
  bool exchange_;
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

// The upper bits of a word, 32 at most; the others belong to them.
class KeyOfUpperHalf {
 public:
  explicit KeyOfUpperHalf(int key_bytes) noexcept : below_(64 - 8 * key_bytes) {}
  std::uint32_t operator()(std::uint64_t word) const noexcept {
    return static_cast<std::uint32_t>(word >> below_);
  }

 private:
  int below_;
};

}}}  // namespace vortex::v0::detail
